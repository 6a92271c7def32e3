"""Owns the only way out for a process that clones: to one place, at an address that was checked as it was connected."""

import asyncio
import base64
import re
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass

import httpcore

from holdfast.core.credential import Place
from holdfast.core.errors import HoldfastError
from holdfast.engines.fetch.network.addresses import Exceptions
from holdfast.engines.fetch.network.connect import Blocked, PinnedBackend, Resolver, SystemResolver
from holdfast.engines.fetch.network.url import Url
from holdfast.engines.git.model import GitFailed

GIT_PORTS = frozenset({22, 9418})
_HEAD_BYTES = 65_536
_PIECE_BYTES = 262_144
_CONNECT_SECONDS = 15.0
_AT_ONCE = 8
_HOST_LINE = re.compile(rb"\r\nhost:[^\r]*", re.IGNORECASE)
_CONNECTION_LINE = re.compile(rb"\r\n(proxy-)?connection:[^\r]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rules:
    """Which places may be reached: the public internet, and what the operator allows besides."""

    allow_private: tuple[str, ...] = ()
    resolver: Resolver | None = None
    ca_file: str = ""
    """Certificates to trust instead of the machine's own."""
    silent_seconds: float = 120.0
    """How long a server may say nothing."""


@dataclass(frozen=True, slots=True)
class CloneTarget:
    """The one place a clone goes to. `path` is the repository's."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def place(self) -> Place:
        """Who reads what is sent there."""
        return Place.at(self.host, self.port, tls=self.scheme == "https")

    @property
    def authority(self) -> str:
        """Host and port as a proxy and a git server are told them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """What a web server is told: the port only where it is not the usual one."""
        return self.authority.removesuffix(":80")


class Tunnel:
    """Takes connections from one child and leads each to the target, and nowhere else."""

    def __init__(self, target: CloneTarget, rules: Rules) -> None:
        self._target = target
        self._exceptions = Exceptions(rules.allow_private)
        self._backend = PinnedBackend(rules.resolver or SystemResolver(2), self._exceptions)
        self._silent_seconds = rules.silent_seconds
        # Where the child can't have a network of its own, others on this machine see its port.
        self.secret = secrets.token_hex(16)
        self.received = 0
        """Bytes from the server so far."""
        self.problem: HoldfastError | None = None
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    async def open(self, listener: socket.socket) -> None:
        """Begin to take connections from the child's socket."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=_HEAD_BYTES)

    async def close(self) -> None:
        """Break off everything."""
        if self._server is not None:
            self._server.close()
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            if len(self._busy) <= _AT_ONCE:
                await self._lead(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, httpcore.NetworkError):
            # Either side hung up; the child says what that means.
            pass
        except HoldfastError as problem:
            self.problem = self.problem or problem
        finally:
            self._busy.discard(task)
            writer.close()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await self._first(reader, writer)
        if first is None:
            return
        stream = await self._connect()
        try:
            if self._target.scheme == "https":
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                await stream.write(first)
            await self._pump(reader, writer, stream)
        finally:
            await stream.aclose()

    async def _first(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """What to send first to the server, as it must look there; None for one who does not know the secret."""
        if self._target.scheme == "git":
            return await self._git_request(reader)
        head = await reader.readuntil(b"\r\n\r\n")
        if self._target.scheme == "http":
            return self._http_head(head)
        if not self._may_connect(head):
            writer.write(
                b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="clone"\r\n'
                b"Content-Length: 0\r\nConnection: keep-alive\r\n\r\n"
            )
            head = await reader.readuntil(b"\r\n\r\n")
        return b"" if self._may_connect(head) else None

    def _may_connect(self, head: bytes) -> bool:
        expected = base64.b64encode(f"clone:{self.secret}".encode())
        line, _, rest = head.partition(b"\r\n")
        asked = line.split(b" ")[:2]
        is_known = b"\r\nproxy-authorization: basic " + expected.lower() + b"\r\n" in b"\r\n" + rest.lower()
        return is_known and asked == [b"CONNECT", self._target.authority.encode()]

    def _http_head(self, head: bytes) -> bytes | None:
        line, _, rest = head.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        prefix = f"/{self.secret}".encode()
        if not target.startswith(prefix + b"/"):
            return None
        # One request for each connection, so that every head is seen here.
        fields = _CONNECTION_LINE.sub(b"", _HOST_LINE.sub(b"", b"\r\n" + rest))
        host = b"\r\nHost: " + self._target.host_header.encode()
        return method + b" " + target.removeprefix(prefix) + host + b"\r\nConnection: close" + fields

    async def _git_request(self, reader: asyncio.StreamReader) -> bytes | None:
        size = int(await reader.readexactly(4), 16)
        if not 4 < size < 4096:
            return None
        command, _, rest = (await reader.readexactly(size - 4)).partition(b" ")
        path, *fields = rest.split(b"\0")
        prefix = f"/{self.secret}".encode()
        if command != b"git-upload-pack" or not path.startswith(prefix + b"/"):
            return None
        host = b"host=" + self._target.authority.encode()
        told = [host if field.startswith(b"host=") else field for field in fields]
        body = b"\0".join([command + b" " + path.removeprefix(prefix), *told])
        return f"{len(body) + 4:04x}".encode() + body

    async def _connect(self) -> httpcore.AsyncNetworkStream:
        host, port = self._target.host, self._target.port
        url = Url("http", host, port, "/")
        if not self._exceptions.name_known(host, port):
            if url.is_local_name and not self._exceptions.hold_networks:
                raise Blocked(host, "a local name")
            if url.port_is_closed and port not in GIT_PORTS:
                raise GitFailed(f"Port {port} is not one that git servers use.", code="refused_address")
        try:
            return await self._backend.connect_tcp(host, port, _CONNECT_SECONDS)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            why = str(error).strip() or "it does not answer"
            raise GitFailed(f"{host} could not be reached: {why[:200]}.", code="unreachable") from None

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: httpcore.AsyncNetworkStream
    ) -> None:
        up = asyncio.ensure_future(_upward(reader, stream))
        try:
            if self._target.scheme == "http":
                writer.write(await self._http_answer(stream))
            while piece := await self._piece(stream):
                writer.write(piece)
                await writer.drain()
        finally:
            up.cancel()
            with suppress(asyncio.CancelledError, OSError, httpcore.NetworkError):
                await up

    async def _http_answer(self, stream: httpcore.AsyncNetworkStream) -> bytes:
        """The beginning of the answer, made to say that the connection ends with it, as it does."""
        begun = b""
        while b"\r\n\r\n" not in begun and len(begun) < _HEAD_BYTES and (piece := await self._piece(stream)):
            begun += piece
        head, blank, rest = begun.partition(b"\r\n\r\n")
        return _CONNECTION_LINE.sub(b"", head) + b"\r\nConnection: close" + blank + rest

    async def _piece(self, stream: httpcore.AsyncNetworkStream) -> bytes:
        try:
            piece = await stream.read(_PIECE_BYTES, self._silent_seconds)
        except httpcore.ReadTimeout:
            silence = f"{self._target.host} sent nothing for {self._silent_seconds:.0f} seconds."
            raise GitFailed(silence, code="too_slow") from None
        self.received += len(piece)
        return piece


async def _upward(reader: asyncio.StreamReader, stream: httpcore.AsyncNetworkStream) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        await stream.write(piece)
