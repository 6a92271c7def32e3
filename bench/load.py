"""Owns a lean HTTP load: many kept-alive connections that each send the next request when the last was answered."""

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What a load found."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    requests: int = 0


class _Connection(asyncio.Protocol):
    """Sends one fixed request again and again. Answers must carry a content length."""

    def __init__(self, request: bytes, until: float, took: list[float]) -> None:
        self._request = request
        self._until = until
        self._took = took
        self._buffer = b""
        self._began = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        at = head.index(b"content-length:") + 15
        line_end = head.find(b"\r", at)
        length = int(head[at : line_end if line_end >= 0 else len(head)])
        if len(self._buffer) < head_end + 4 + length:
            return
        if not head.startswith(b"http/1.1 200"):
            self.done.set_exception(RuntimeError(self._buffer[:300].decode(errors="replace")))
            self._transport.close()
            return
        self._buffer = b""
        now = time.perf_counter()
        self._took.append(now - self._began)
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, path: str, headers: dict[str, str], *, connections: int, seconds: float) -> Load:
    """GET a path of a server on this machine for a while."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode()
    took: list[float] = []
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(lambda: _Connection(request, began + seconds, took), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(connection.done for connection in opened))
    elapsed = time.perf_counter() - began
    took.sort()
    return Load(len(took) / elapsed, took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000, len(took))
