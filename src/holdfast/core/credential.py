"""Owns credentials on their way out: where one may go, asked again at the very moment that it is attached."""

import contextlib
import ipaddress
from dataclasses import dataclass

from holdfast.core.errors import Forbidden

HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Place:
    """One server: who would read what is sent there. Made by `at`, so that two spellings of one host are equal."""

    host: str
    port: int
    tls: bool

    @classmethod
    def at(cls, host: str, port: int, *, tls: bool) -> "Place":
        """The place of a host in ASCII, as it will be connected to."""
        name = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        with contextlib.suppress(ValueError):
            name = str(ipaddress.ip_address(name))
        return cls(name, port, tls)

    @property
    def name(self) -> str:
        """`host` at the port of https, else `host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nothing sent there leaves this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_overheard(self) -> bool:
        """Whether others on the way could read along: plain http to another machine."""
        return not self.tls and not self.is_loopback


class CredentialMisplaced(Forbidden):
    """A credential was about to go where it does not belong; nothing was sent."""

    code = "credential_misplaced"

    def __init__(self, place: Place, meant_for: Place) -> None:
        super().__init__(f"A credential for {meant_for.name} is not sent to {place.name}; nothing was sent.")


class Credential:
    """A value for one place. Whoever attaches it says where it goes, and gets it only there."""

    __slots__ = ("_value", "place")

    def __init__(self, value: str, place: Place) -> None:
        self._value = value
        self.place = place

    def __repr__(self) -> str:
        return f"Credential(for {self.place.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Credential) and (self._value, self.place) == (other._value, other.place)

    def __hash__(self) -> int:
        return hash((self._value, self.place))

    def sent_to(self, place: Place) -> str:
        """The value, for a request to this very place; CredentialMisplaced for any other."""
        if place != self.place:
            raise CredentialMisplaced(place, self.place)
        return self._value
