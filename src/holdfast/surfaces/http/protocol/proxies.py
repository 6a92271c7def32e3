"""Owns whom we believe about where a request came from: nobody but the proxies that the operator named."""

import ipaddress
from collections.abc import Iterable

from starlette.types import Scope

from holdfast.core.settings import SettingsError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies:
    """The named proxies. They speak by `X-Forwarded-For` and `X-Forwarded-Proto` and by nothing else.

    `Forwarded` and `X-Real-IP` are never read: a proxy that writes the one kind lets a client's own other kind through.
    """

    def __init__(self, named: Iterable[str]) -> None:
        self._networks = tuple(_network(name) for name in named)
        self._known: dict[str, bool] = {}

    def trusts(self, address: str) -> bool:
        """Whether that address is one of the proxies."""
        if not self._networks:
            return False
        known = self._known.get(address)
        if known is None:
            parsed = _address(address)
            known = parsed is not None and any(parsed in network for network in self._networks)
            if len(self._known) >= 1024:
                self._known.clear()
            self._known[address] = known
        return known

    def unwrap(self, scope: Scope) -> None:
        """Put the real client and scheme into the scope of a request that a proxy sent on."""
        client = scope.get("client")
        if client is None or not self.trusts(client[0]):
            return
        hops = _values(scope, b"x-forwarded-for")
        for hop in reversed(hops):
            parsed = _address(_without_port(hop))
            if parsed is None:
                # Nobody we trust writes that: whoever handed it to our proxy is as far as we can see.
                break
            scope["client"] = (str(parsed), 0)
            if not self.trusts(str(parsed)):
                break
        schemes = _values(scope, b"x-forwarded-proto")
        if schemes and schemes[-1].lower() in ("http", "https"):
            scope["scheme"] = schemes[-1].lower()


def _values(scope: Scope, name: bytes) -> list[str]:
    found = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return [part.strip() for part in ",".join(found).split(",")] if found else []


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> _Address | None:
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _network(name: str) -> _Network:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        raise SettingsError(
            f"HOLDFAST_TRUSTED_PROXIES names {name!r}, which is no address or network such as 10.0.0.0/8; mend it."
        ) from None
