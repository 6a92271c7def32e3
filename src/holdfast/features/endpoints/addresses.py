"""Owns which addresses an upstream may have.

An upstream is named by whoever manages a project, so it must not become a way into the server's own network: metadata
services and link-local addresses are refused to everyone, private ones to everyone but the operator, who adds upstreams
on the server's machine or lists hosts in HOLDFAST_UPSTREAM_ALLOW.
"""

import ipaddress
from collections.abc import Iterable

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.addresses import Exceptions, closed_because
from holdfast.engines.llm.remote.connection import parse_base_url

_NEVER = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "192.0.0.192/32",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fe80::/10",
        "ff00::/8",
    )
]
_NEVER_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})


def refused_because(address: str, *, private: bool) -> str | None:
    """Why nothing may be sent to an address that a connection came to; None when it may."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found in network for network in _NEVER if network.version == found.version):
        return "link-local, a metadata service or a group of machines"
    return None if private else closed_because(found)


def not_loopback_because(address: str) -> str | None:
    """Why nothing may be sent to an address in clear; None when it stays on this machine."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return None if found.is_loopback else "a key goes over plain http only to this machine itself"


class AddressRules:
    """What the operator allows beyond the public internet."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = Exceptions(allowed)

    def is_private(self, base_url: str, *, operator: bool) -> bool:
        """Whether this upstream may be a private machine; Invalid when its address alone rules it out."""
        origin, _ = parse_base_url(base_url)
        host = origin.host.rstrip(".").lower()
        private = operator or self._allowed.name_known(host, origin.port)
        never = "a metadata service" if host in _NEVER_NAMES else _literal_refusal(host, private=True)
        why = never or _literal_refusal(host, private)
        if why is not None:
            remedy = "choose another host" if never else "the operator can allow it with HOLDFAST_UPSTREAM_ALLOW"
            problem = f"{host} is {why}; {remedy}"
            raise Invalid("The upstream's address can't be used.", fields=[FieldError("base_url", problem)])
        return private


def _literal_refusal(host: str, private: bool) -> str | None:
    if not private and (host == "localhost" or host.endswith((".localhost", ".local", ".internal"))):
        return "a private name"
    try:
        return refused_because(host, private=private)
    except ValueError:
        return None
