"""A server that never stops: by path, bodies without end, some of them squeezed, some a byte at a time."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PIECE = 65_536
_DRIP_SECONDS = 0.05


def _squeezed(piece: bytes) -> Iterator[bytes]:
    """Gzip whose plain text never ends."""
    stream = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    while True:
        if made := stream.compress(piece):
            yield made


def _padding() -> Iterator[bytes]:
    """Gzip that goes on for ever and says nothing: stored blocks of no bytes."""
    stream = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    yield stream.flush(zlib.Z_SYNC_FLUSH)
    while True:
        yield b"\x00\x00\x00\xff\xff" * 13_000


def _repeated(first: bytes, piece: bytes) -> Iterator[bytes]:
    yield first
    while True:
        yield piece * (PIECE // len(piece) or 1)


def _event(delta: bytes, index: bytes = b"0") -> bytes:
    return b'data: {"choices":[{"index":' + index + b',"delta":' + delta + b"}]}\n\n"


@dataclass
class Flood:
    """A running server. `sent` counts the bytes of each path's body that went out."""

    port: int = 0
    sent: dict[str, int] = field(default_factory=dict)
    heads: dict[str, bytes] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.place}{path}"

    def body(self, path: str) -> tuple[bytes, Iterator[bytes], bool]:
        """The header lines, the body, and whether it drips."""
        text, packed = b"Content-Type: text/plain\r\n", b"Content-Encoding: gzip\r\n"
        events, json = b"Content-Type: text/event-stream\r\n", b"Content-Type: application/json\r\n"
        last = path.split("?")[0].rstrip("/").split("/")
        kind = next((name for name in last if name in _KINDS), "missing")
        many = (_event(b"{}", b"%d" % number) for number in range(10**9))
        made: dict[str, tuple[bytes, Iterator[bytes], bool]] = {
            "plain": (text, _repeated(b"", b"a"), False),
            "squeezed": (text + packed, _squeezed(bytes(1 << 20)), False),
            "padding": (text + packed, _padding(), False),
            "twice": (text + b"Content-Encoding: gzip, gzip\r\n", _squeezed(bytes(1 << 20)), False),
            "drip": (text, _repeated(b"", b"a"), True),
            "robots.txt": (text + packed, _squeezed(b"Disallow: /x\n" * 4096), False),
            "lines": (events, _repeated(b"", b"data: x\n"), False),
            "line": (events, _repeated(b"data: ", b"x"), False),
            "lists": (events, _repeated(b"", _event(b'{"x":[%b0]}' % (b"[]," * 1000))), False),
            "choices": (events, many, False),
            "calls": (events, _repeated(b"", _event(b'{"tool_calls":[{"id":"","function":{"name":"a"}}]}')), False),
            "json": (json, _repeated(b'{"choices":[', b"[],"), False),
            "drips": (json, _repeated(b"{", b" "), True),
        }
        return made.get(kind, (text, iter(()), False))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            self.heads[path] = head
            fields, pieces, drips = self.body(path)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + fields + b"\r\n")
            for piece in pieces:
                writer.write(piece[:1] if drips else piece)
                await writer.drain()
                self.sent[path] = self.sent.get(path, 0) + (1 if drips else len(piece))
                # A drain that need not wait does not let others run.
                await asyncio.sleep(_DRIP_SECONDS if drips else 0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


_KINDS = frozenset(
    (
        *("plain", "squeezed", "padding", "twice", "drip", "robots.txt"),
        *("lines", "line", "lists", "choices", "calls", "json", "drips"),
    )
)


@asynccontextmanager
async def flood() -> AsyncIterator[Flood]:
    """Listen on a free local port."""
    made = Flood()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await made.answer(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
