"""Owns the only way out of a sandbox: a proxy that leads to the listed places, at addresses that it resolved itself."""

import asyncio
import base64
import hmac
import ipaddress
import logging
import re
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpcore

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.addresses import Exceptions
from holdfast.engines.fetch.network.connect import Blocked, PinnedBackend, Resolver, SystemResolver
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url
from holdfast.engines.runtime.loopback import LoopbackConnections

_HEAD_BYTES = 32_768
_PIECE_BYTES = 131_072
_CONNECT_SECONDS = 15.0
_HEAD_SECONDS = 30.0
_SILENT_SECONDS = 600.0
_AT_ONCE = 64
_KEPT_REFUSALS = 20
_PROXY_LINE = re.compile(
    rb"\r\n(?:proxy-connection|proxy-authorization|connection|keep-alive|host):[^\r]*", re.IGNORECASE
)

_SHOWN = re.compile(rb"\r\nproxy-authorization:[ \t]*basic[ \t]+([A-Za-z0-9+/=]+)[ \t]*\r\n", re.IGNORECASE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EgressRules:
    """What holds for every sandbox: the operator's own list of private places, and how names are resolved."""

    allow_private: tuple[str, ...] = ()
    resolver: Resolver = field(default_factory=lambda: SystemResolver(4))


class _Refused(Exception):
    """The request goes nowhere; `status` and the text are told to the program."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def parse_places(places: Sequence[str], field: str = "egress") -> list[Url]:
    """The `host:port`s of an allow-list; Invalid, with the entry, for what is none."""
    read: list[Url] = []
    for index, place in enumerate(places):
        host, colon, port = place.strip().rpartition(":")
        try:
            if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536 or "/" in place:
                raise ValueError
            read.append(parse_url(f"http://{host}:{port}"))
        except (ValueError, BadUrl):
            problem = f"{place!r} is not a host and a port, like api.example.com:443"
            raise Invalid(
                f"The allow-list can't be read: {problem}.", fields=[FieldError(f"{field}[{index}]", problem)]
            ) from None
    return read


class EgressProxy:
    """Takes the connections of one sandbox."""

    def __init__(self, name: str, places: Sequence[str], rules: EgressRules, token: str | None = None) -> None:
        """`token` is the password that clients show where others share the sandbox's loopback."""
        allowed = parse_places(places)
        self._name = name
        self._shown = None if token is None else base64.b64encode(f"holdfast:{token}".encode())
        self._allowed = {(url.host, url.port) for url in allowed}
        # Whoever lists a private address or a local name means it, and it opens exactly itself. A name of the public
        # internet does not: whoever answers for it could make it mean anything. For those there is the operator's list.
        private = [_entry(url) for url in allowed if url.is_local_name or _is_address(url.host)]
        self._backend = PinnedBackend(rules.resolver, Exceptions((*rules.allow_private, *private)))
        self._connections = LoopbackConnections(self._accept, limit_bytes=_HEAD_BYTES)
        self.refused: deque[str] = deque(maxlen=_KEPT_REFUSALS)
        """The last places that the program wanted and did not get, for whoever reads its log."""

    async def open(self, listener: socket.socket) -> None:
        """Begin to answer on the sandbox's socket."""
        await self._connections.open(listener)

    async def close(self) -> None:
        """Break everything off."""
        await self._connections.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > _AT_ONCE:
                raise _Refused("503 Service Unavailable", f"more than {_AT_ONCE} connections at once")
            await self._lead(reader, writer)
        except _Refused as refusal:
            text = f"{refusal}\n".encode()
            fields = f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {refusal.status}\r\n{fields}\r\n\r\n".encode() + text)
            await writer.drain()
        except (httpcore.NetworkError, httpcore.TimeoutException):
            # The place hung up or stayed silent; the program sees a closed connection.
            pass

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        if self._shown is not None and not _shows(fields, self._shown):
            raise _Refused("407 Proxy Authentication Required", "this proxy is another program's")
        method, target = _request_line(line)
        if method == "CONNECT":
            url, first = _authority(target), b""
        else:
            url = _absolute(target)
            first = f"{method} {url.target} HTTP/1.1\r\nHost: {url.authority}\r\nConnection: close".encode()
            first += _PROXY_LINE.sub(b"", b"\r\n" + fields)
        stream = await self._connect(url)
        try:
            if first:
                await stream.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
            await _pump(reader, writer, stream)
        finally:
            await stream.aclose()

    async def _connect(self, url: Url) -> httpcore.AsyncNetworkStream:
        if (url.host, url.port) not in self._allowed:
            raise self._refusal(url, "it is not on the allow-list of this server")
        try:
            return await self._backend.connect_tcp(url.host, url.port, _CONNECT_SECONDS)
        except Blocked:
            raise self._refusal(url, "it leads to a private address") from None
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise _Refused("502 Bad Gateway", f"{url.host}:{url.port} could not be reached") from None

    def _refusal(self, url: Url, why: str) -> _Refused:
        place = f"{url.host}:{url.port}"
        if place not in self.refused:
            self.refused.append(place)
            _log.warning("%s wanted to reach %s: refused, %s", self._name, place, why)
        return _Refused("403 Forbidden", f"{place} is refused: {why}")


def _shows(fields: bytes, token: bytes) -> bool:
    shown = _SHOWN.search(b"\r\n" + fields)
    return shown is not None and hmac.compare_digest(shown.group(1), token)


def _request_line(line: bytes) -> tuple[str, str]:
    parts = line.decode("latin-1").split(" ")
    if len(parts) != 3 or not parts[0].isascii() or not parts[0].isalpha() or not parts[2].startswith("HTTP/1."):
        raise _Refused("400 Bad Request", "this is no HTTP/1.1 request to a proxy")
    return parts[0], parts[1]


def _authority(target: str) -> Url:
    host, colon, port = target.rpartition(":")
    if not colon or not port.isdecimal() or "/" in target:
        raise _Refused("400 Bad Request", "CONNECT takes host:port")
    return _absolute(f"http://{host}:{port}")


def _absolute(target: str) -> Url:
    try:
        url = parse_url(target)
    except BadUrl as problem:
        raise _Refused("400 Bad Request", problem.message) from None
    if url.scheme != "http":
        raise _Refused("400 Bad Request", "https:// is reached with CONNECT")
    return url


def _entry(url: Url) -> str:
    return f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: httpcore.AsyncNetworkStream
) -> None:
    up = asyncio.ensure_future(_upward(reader, stream))
    try:
        while piece := await stream.read(_PIECE_BYTES, _SILENT_SECONDS):
            writer.write(piece)
            await writer.drain()
    finally:
        up.cancel()
        with suppress(asyncio.CancelledError, OSError, httpcore.NetworkError):
            await up


async def _upward(reader: asyncio.StreamReader, stream: httpcore.AsyncNetworkStream) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        await stream.write(piece)
