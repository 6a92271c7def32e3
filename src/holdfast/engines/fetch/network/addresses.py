"""Owns the table of addresses that nobody may reach through us, and the operator's exceptions to it."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's special-purpose registry, without its exceptions: nothing that people read lives there.
_CLOSED_4 = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's host agent",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "AMT relays",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
# Everything outside 2000::/3 is closed as well: loopback, mapped and NAT64 addresses, ULA, link-local, multicast.
_OPEN_6 = ipaddress.IPv6Network("2000::/3")
_CLOSED_6 = {
    "2001::/23": "protocol assignments and Teredo",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "2620:4f:8000::/48": "AS112",
    "3fff::/20": "documentation",
}
_TABLE_4 = [(ipaddress.IPv4Network(network), why) for network, why in _CLOSED_4.items()]
_TABLE_6 = [(ipaddress.IPv6Network(network), why) for network, why in _CLOSED_6.items()]

# An operator who names a host means a machine on their network, never a metadata service or a group of machines.
_NEVER_BY_NAME = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "168.63.129.16/32",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "fe80::/10",
        "ff00::/8",
    )
]


def closed_because(address: Address) -> str | None:
    """Why an address is not the public internet; None for one that is."""
    if isinstance(address, ipaddress.IPv4Address):
        return next((why for network, why in _TABLE_4 if address in network), None)
    if address.scope_id is not None or address not in _OPEN_6:
        return _inner(address)
    return next((why for network, why in _TABLE_6 if address in network), None)


def _inner(address: ipaddress.IPv6Address) -> str:
    if address.ipv4_mapped is not None:
        return "IPv4-mapped"
    return "loopback" if address.is_loopback else "not global unicast"


@dataclass(frozen=True, slots=True)
class AllowedPlace:
    """One entry of the operator's list: a network or a host name, with or without a port."""

    network: Network | None
    host: str | None
    port: int | None

    def names(self, host: str, port: int) -> bool:
        """Whether the entry is about this host by name."""
        return self.host == host and self.port in (None, port)

    def covers(self, address: Address, port: int) -> bool:
        """Whether the entry is about this address by number."""
        return self.network is not None and address in self.network and self.port in (None, port)


class Exceptions:
    """The operator's list of internal places that may be read.

    Entries look like `10.1.0.0/16`, `wiki.lan`, `wiki.lan:8080` or `[fd00::1]:80`.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = [_parse(entry) for entry in entries]

    @property
    def hold_networks(self) -> bool:
        """Whether a local name could resolve into something that is allowed."""
        return any(entry.network is not None and entry.network.num_addresses > 1 for entry in self._entries)

    def name_known(self, host: str, port: int) -> bool:
        """Whether the operator named this host (or wrote its literal address)."""
        literal = _literal(host)
        return any(
            entry.names(host, port) or (literal is not None and entry.covers(literal, port)) for entry in self._entries
        )

    def refusal(self, host: str, port: int, addresses: Sequence[str]) -> str | None:
        """Why a host must not be connected to, given everything it resolved to; None when each address is fine."""
        for text in addresses:
            address = ipaddress.ip_address(text)
            why = closed_because(address)
            if why is not None and not self._excepts(host, port, address):
                return why
        return None

    def _excepts(self, host: str, port: int, address: Address) -> bool:
        if any(entry.covers(address, port) for entry in self._entries):
            return True
        if any(address in network for network in _NEVER_BY_NAME if network.version == address.version):
            return False
        return any(entry.names(host, port) for entry in self._entries)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse(entry: str) -> AllowedPlace:
    text = entry.strip().lower()
    try:
        return AllowedPlace(ipaddress.ip_network(text, strict=False), None, None)
    except ValueError:
        pass
    host, colon, digits = text.rpartition(":")
    if not colon:
        host, digits = text, ""
    port = int(digits) if digits.isdecimal() else None
    if (colon and port is None) or not host:
        raise ValueError(f"{entry!r} is neither a network (10.1.0.0/16) nor a host (wiki.lan, wiki.lan:8080)")
    literal = _literal(host.removeprefix("[").removesuffix("]"))
    if literal is not None:
        return AllowedPlace(ipaddress.ip_network(literal), None, port)
    return AllowedPlace(None, host.rstrip("."), port)
