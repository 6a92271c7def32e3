"""Owns reading a URL the one way in which it will also be connected to."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

import idna

from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid

MAX_URL = 8_000
_DEFAULT_PORTS = {"http": 80, "https": 443}
# The Fetch standard's bad ports above 1023, and where data stores and control planes listen.
_CLOSED_PORTS = frozenset(
    {1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5900}
    | {6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9200, 9300, 10080, 10250, 11211, 27017}
)
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_KEEP = "%/:=&?~#+!$,;'@()*[]"
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".corp", ".home")


class BadUrl(Invalid):
    """The text is not a URL that we fetch."""

    code = "invalid_url"

    def __init__(self, url: str, problem: str) -> None:
        shown = url if len(url) <= 200 else url[:200] + "…"
        super().__init__(f"This URL can't be fetched: {problem}.", fields=[FieldError("url", f"{shown!r}: {problem}")])


@dataclass(frozen=True, slots=True)
class Url:
    """A URL taken apart: `host` is lower-case ASCII without a trailing dot, `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The `Host` header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as robots.txt and cookies see them."""
        return f"{self.scheme}://{self.authority}"

    @property
    def place(self) -> Place:
        """Who reads what is sent there."""
        return Place.at(self.host, self.port, tls=self.scheme == "https")

    @property
    def is_local_name(self) -> bool:
        """Whether the name can only mean a machine on some internal network."""
        if ":" in self.host or _is_quad(self.host):
            return False
        return "." not in self.host or self.host.endswith(_LOCAL_ENDINGS)

    @property
    def port_is_closed(self) -> bool:
        """Whether something other than the web listens there."""
        return self.port not in (80, 443) and (self.port < 1024 or self.port in _CLOSED_PORTS)

    def __str__(self) -> str:
        return self.origin + self.target

    def join(self, reference: str) -> "Url":
        """The URL that a link or a `Location` on this page leads to."""
        try:
            return parse_url(urljoin(str(self), reference.strip()))
        except ValueError:
            raise BadUrl(reference, "it could not be read") from None


def parse_url(text: str) -> Url:
    """Read an http or https URL; BadUrl for anything that two readers could understand differently."""
    text = text.strip()
    if not text or len(text) > MAX_URL:
        raise BadUrl(text, f"a URL has 1 to {MAX_URL:,} characters")
    if "\\" in text.partition("?")[0] or any(character < " " or character == "\x7f" for character in text):
        raise BadUrl(text, "it holds a backslash or a control character")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadUrl(text, "its host or port could not be read") from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise BadUrl(text, "only http:// and https:// are fetched")
    if "@" in parts.netloc:
        raise BadUrl("(with credentials)", "it carries a user name or password")
    if port == 0:
        raise BadUrl(text, "port 0 does not exist")
    host = _host(text, parts.hostname or "", bracketed=parts.netloc.startswith("["))
    target = quote(parts.path or "/", safe=_KEEP) + (f"?{quote(parts.query, safe=_KEEP)}" if parts.query else "")
    return Url(scheme, host, port or _DEFAULT_PORTS[scheme], target)


def _host(text: str, host: str, *, bracketed: bool) -> str:
    if bracketed:
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError:
            raise BadUrl(text, "the brackets hold no IPv6 address") from None
    if "%" in host:
        raise BadUrl(text, "its host is percent-encoded")
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode()
        except idna.IDNAError:
            raise BadUrl(text, "its host name is not a valid international name") from None
    host = host.lower().removesuffix(".")
    if _HOST.fullmatch(host) is None:
        raise BadUrl(text, "it has no valid host name")
    # 127.1, 0x7f.0.0.1 and 2130706433 are addresses to some readers and names to others.
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_quad(host):
        raise BadUrl(text, "its host is a number; write an address as four plain numbers")
    return host


def _is_quad(host: str) -> bool:
    try:
        return str(ipaddress.IPv4Address(host)) == host
    except ValueError:
        return False
