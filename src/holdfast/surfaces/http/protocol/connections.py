"""Owns how many connections are open, in all and from each address, so that nobody takes them all."""

import ipaddress
from typing import Protocol

from holdfast.surfaces.http.protocol.proxies import Proxies


class OpenConnection(Protocol):
    """One that is open."""

    def hang_up(self) -> None:
        """Close it; it is between two requests."""
        ...


class OpenElsewhere(Protocol):
    """What all processes of one server have open, this one's among them: connections, or streams of events."""

    def opened(self, holder: str) -> None:
        """One more is open here."""
        ...

    def closed(self, holder: str) -> None:
        """One fewer is open here."""
        ...

    def of_all(self) -> int:
        """How many are open in all."""
        ...

    def held_by(self, holder: str) -> int:
        """How many one address or key has open."""
        ...


class Connections:
    """The open connections of one process, held against what its server may have in all."""

    def __init__(
        self, *, most: int, most_per_address: int, proxies: Proxies, elsewhere: OpenElsewhere | None = None
    ) -> None:
        self._most = most
        # However the two are set, one address leaves room for others.
        self._most_per_address = min(most_per_address, max(1, most * 3 // 4))
        self._proxies = proxies
        self._elsewhere = elsewhere
        self._open: dict[OpenConnection, str] = {}
        self._by_address: dict[str, int] = {}
        self._idle: dict[OpenConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: OpenConnection, address: str) -> bool:
        """Count a new connection; False when there is no room for it."""
        shared = _shared(address)
        from_address = self._elsewhere.held_by(shared) if self._elsewhere else self._by_address.get(shared, 0)
        if from_address >= self._most_per_address and not self._proxies.trusts(address):
            return False
        of_all = self._elsewhere.of_all() if self._elsewhere else len(self._open)
        if of_all >= self._most and not self._make_room():
            return False
        self._open[connection] = shared
        self._by_address[shared] = self._by_address.get(shared, 0) + 1
        self._idle[connection] = None
        if self._elsewhere is not None:
            self._elsewhere.opened(shared)
        return True

    def leave(self, connection: OpenConnection) -> None:
        """It is closed, or about to be; saying so twice does nothing."""
        address = self._open.pop(connection, None)
        if address is None:
            return
        self._idle.pop(connection, None)
        if self._elsewhere is not None:
            self._elsewhere.closed(address)
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

    def busy(self, connection: OpenConnection) -> None:
        """A request has begun on it."""
        self._idle.pop(connection, None)

    def idle(self, connection: OpenConnection) -> None:
        """It waits for its next request."""
        if connection in self._open:
            self._idle[connection] = None

    def _make_room(self) -> bool:
        """End the connection that has waited longest for a request; its client opens another when it needs one."""
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.hang_up()
        return True


def _shared(address: str) -> str:
    """What counts as one address: an IPv4 address, or the network of 64 bits that an IPv6 host can choose from."""
    if ":" not in address:
        return address
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
