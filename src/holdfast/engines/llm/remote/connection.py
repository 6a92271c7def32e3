"""Owns the connections to upstreams: kept alive by origin, lean HTTP/1.1 over asyncio, every answer a byte stream."""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import idna

from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid, UpstreamFailed
from holdfast.engines.llm.remote.wire import (
    HIGH_WATER_BYTES,
    Headers,
    UpstreamCut,
    UpstreamTimeout,
    UpstreamUnreachable,
    Wire,
)

IDLE_CONNECTIONS = 256
IDLE_SECONDS = 30.0
MOST_ADDRESSES = 4
_PACKINGS = frozenset({b"gzip", b"x-gzip", b"deflate"})
_EITHER_HEADER = 32 + zlib.MAX_WBITS
_EVENTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_FAILURES = (b'{"error":', b'{"type":"error"', b'{"type": "error"')
_BLANKS = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an upstream may take: to connect, to begin its answer, between pieces of it, and in all."""

    connect_seconds: float = 10.0
    first_byte_seconds: float = 120.0
    idle_seconds: float = 60.0
    total_seconds: float = 1_800.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go."""

    host: str
    port: int
    tls: bool

    @property
    def place(self) -> Place:
        """Who reads what is sent there."""
        return Place.at(self.host, self.port, tls=self.tls)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_base_url(text: str) -> tuple[Origin, str]:
    """The origin and the path of `https://host[:port]/v1`; Invalid says what is wrong with it."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname or "", parts.port
        # The same reading as everywhere else, so that a secret's host and an upstream's are one when they look alike.
        host = (host if host.isascii() else idna.encode(host, uts46=True).decode()).removesuffix(".")
    except ValueError:
        raise _wrong(f"{text[:200]!r} is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong("must begin with http:// or https:// and name a host, such as http://127.0.0.1:11434/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise _wrong("must hold no user, query or fragment; keys belong in a secret")
    tls = parts.scheme == "https"
    return Origin(host, port or (443 if tls else 80), tls), check_target(parts.path.rstrip("/"))


def check_target(path: str) -> str:
    """A path that can't break out of its request line."""
    if not path.isascii() or any(character <= " " or character == "\x7f" for character in path):
        raise _wrong("must hold no spaces, control or non-ASCII characters; percent-encode them")
    return path


def _wrong(problem: str) -> Invalid:
    return Invalid("The upstream's address can't be used.", fields=[FieldError("base_url", problem)])


class UpstreamAnswer:
    """An upstream's answer: its head is known, its body comes as it comes. Close it, or read it to its end."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._done = False
        self._first: bytes | None = None
        self._is_read = False
        self.status = wire.status
        self.headers: Headers = wire.headers
        packing = (self.header(b"content-encoding") or b"").lower()
        # Some compress whether or not they are asked to.
        self._packed = zlib.decompressobj(_EITHER_HEADER) if packing in _PACKINGS else None
        if self._packed is not None:
            self.headers = [pair for pair in wire.headers if pair[0] not in (b"content-encoding", b"content-length")]

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        return next((value for key, value in self.headers if key == name), None)

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self._done:
            return b""
        data = await (self._wire.read() if self._packed is None else self._unpacked(self._packed))
        self._done = not data
        return data

    async def _unpacked(self, packed: "zlib._Decompress") -> bytes:
        while True:
            piece = packed.unconsumed_tail
            if not piece and not self._is_read:
                piece = await self._wire.read()
                self._is_read = not piece
            try:
                data = packed.decompress(piece, HIGH_WATER_BYTES)
            except zlib.error:
                self.close()
                raise UpstreamCut("The upstream's answer is not compressed as it says.") from None
            if data or self._is_read:
                return data

    @property
    def is_events(self) -> bool:
        """Whether the body, of which the first bytes are known, is a stream of events: some name its type wrongly."""
        begin = (self._first or b"").lstrip(_BLANKS)
        return begin.startswith(_EVENTS) or (self._is_named(b"text/event-stream") and not begin.startswith(b"{"))

    @property
    def is_object(self) -> bool:
        """The same of one JSON text."""
        begin = (self._first or b"").lstrip(_BLANKS)
        return begin.startswith(b"{") or (self._is_named(b"application/json") and not begin.startswith(_EVENTS))

    @property
    def may_be_failure(self) -> bool:
        """Whether the body begins as one that tells of a failure, which some send with the status of an answer."""
        return (self._first or b"").lstrip(_BLANKS).startswith(_FAILURES)

    def check(self) -> None:
        """UpstreamFailed where there is nothing, or a page for people, such as a proxy's to sign in."""
        kind = b"nothing"
        if self._first:
            kind = self.header(b"content-type") or kind
            if not kind.lower().startswith(b"text/html") or self.is_events or self.is_object:
                return
        self.close()
        raise UpstreamFailed(
            f"The upstream answered with {kind.decode('latin-1')[:100]}, which is no answer of a model."
        )

    def _is_named(self, kind: bytes) -> bool:
        return (self.header(b"content-type") or b"").lower().startswith(kind)

    async def ready(self) -> None:
        """Wait for the first bytes of the body, or its end: until then the same request may still go elsewhere."""
        try:
            self._first = await self.read()
        except BaseException:
            self.close()
            raise

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Closing the iterator early hangs up."""
        try:
            while data := await self.read():
                yield data
        finally:
            self.close()

    async def whole(self, limit: int) -> bytes:
        """The whole body, or its first `limit` bytes."""
        found: list[bytes] = []
        size = 0
        try:
            while size < limit and (data := await self.read()):
                found.append(data)
                size += len(data)
        finally:
            self.close()
        whole = found[0] if len(found) == 1 else b"".join(found)
        return whole if size <= limit else whole[:limit]

    def close(self) -> None:
        """Hang up, unless the answer came whole. The connection may serve others by now: only the first call acts."""
        if not self._done:
            self._done = True
            self._wire.finish()


class UpstreamConnections:
    """A pool for every upstream of the process."""

    def __init__(
        self,
        refused_because: Callable[[str], str | None] | None = None,
        *,
        resolve: Callable[[Origin], Awaitable[list[str]]] | None = None,
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`refused_because` judges the address that a name led to before anything is sent; `resolve` does both."""
        self._refused_because = refused_because
        self._resolve = resolve or self._addresses
        self._idle_seconds = idle_seconds
        self._idle: dict[Origin, list[Wire]] = {}
        self._origins: dict[Wire, Origin] = {}
        self._tls = tls

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._origins)

    async def send(self, origin: Origin, data: bytes, timeouts: Timeouts, *, may_repeat: bool = True) -> UpstreamAnswer:
        """Send a written-out request and wait for the head of its answer; UpstreamUnreachable when none came.

        What may not be repeated is not sent again where a kept connection closes before it answered.
        """
        while True:
            wire = self._kept(origin)
            fresh = wire is None
            if wire is None:
                wire = await self._connect(origin, timeouts.connect_seconds)
            try:
                wire.send(
                    data,
                    first_byte_seconds=timeouts.first_byte_seconds,
                    idle_seconds=timeouts.idle_seconds,
                    total_seconds=timeouts.total_seconds,
                )
                await wire.wait_head()
                return UpstreamAnswer(wire)
            except UpstreamTimeout:
                raise
            except UpstreamUnreachable:
                # A kept connection may have been closed by its server just now; a new one tells.
                if fresh or not may_repeat:
                    raise
            except BaseException:
                wire.close()
                raise

    async def aclose(self) -> None:
        """Hang up everywhere."""
        for wire in list(self._origins):
            wire.close()
        # One turn of the loop lets the transports close their sockets.
        await asyncio.sleep(0)

    def keep(self, wire: Wire) -> None:
        """Take a connection back after a whole answer."""
        kept = self._idle.setdefault(self._origins[wire], [])
        if len(kept) >= IDLE_CONNECTIONS:
            wire.close()
            return
        wire.idle_since = asyncio.get_running_loop().time()
        kept.append(wire)

    def forget(self, wire: Wire) -> None:
        """A connection closed."""
        origin = self._origins.pop(wire, None)
        kept = self._idle.get(origin) if origin is not None else None
        if origin is not None and kept is not None and wire in kept:
            kept.remove(wire)
            if not kept:
                del self._idle[origin]

    def _kept(self, origin: Origin) -> Wire | None:
        kept = self._idle.get(origin)
        oldest = asyncio.get_running_loop().time() - self._idle_seconds
        while kept:
            wire = kept.pop()
            if wire.closed:
                continue
            if wire.idle_since >= oldest:
                return wire
            wire.close()
        return None

    async def _connect(self, origin: Origin, seconds: float) -> Wire:
        try:
            async with asyncio.timeout(seconds):
                if origin.tls and self._tls is None:
                    # Reading the trusted roots takes tens of milliseconds.
                    self._tls = await asyncio.to_thread(ssl.create_default_context)
                wire = await self._connect_to_any(origin, await self._resolve(origin))
        except TimeoutError:
            raise UpstreamTimeout(f"No connection to {origin.authority} within {seconds:g} seconds.") from None
        except (OSError, UnicodeError) as problem:
            raise UpstreamUnreachable(f"No connection to {origin.authority} ({type(problem).__name__}).") from problem
        self._origins[wire] = origin
        return wire

    async def _addresses(self, origin: Origin) -> list[str]:
        """Where a name leads now. Connections go to exactly what was judged here: names can change their minds."""
        found = await asyncio.get_running_loop().getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in addresses:
            why = self._refused_because(address) if self._refused_because is not None else None
            if why is not None:
                raise UpstreamFailed(f"{origin.authority} is at an address that may not be used: {why}.")
        return addresses

    async def _connect_to_any(self, origin: Origin, addresses: Sequence[str]) -> Wire:
        loop = asyncio.get_running_loop()
        tls, name = (self._tls, origin.host) if origin.tls else (None, None)
        problem: OSError = OSError("no address")
        for address in addresses[:MOST_ADDRESSES]:
            try:
                _, wire = await loop.create_connection(
                    lambda: Wire(self), address, origin.port, ssl=tls, server_hostname=name
                )
                return wire
            except OSError as failed:
                problem = failed
        raise problem


def request_head(origin: Origin, method: str, target: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """The request line and what every request to this target says."""
    line = f"{method} {check_target(target)} HTTP/1.1\r\nhost: {origin.authority}\r\n".encode("ascii")
    return line + _lines(headers)


def request_bytes(head: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes | None) -> bytes:
    """A whole request: a head, what this one says besides, and its body."""
    if body is None:
        return head + _lines(headers) + b"\r\n"
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head, _lines(headers), len(body), body)


def _lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise Invalid("A header holds a line break.")
    return lines
