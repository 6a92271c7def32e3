"""Owns a load of chat requests: many kept-alive connections that each ask again when the last answer ended."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class ChatLoad:
    """What a load found; the first-chunk figure only where the upstream stamped its chunks."""

    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    first_chunk_p50_ms: float


class _Client(asyncio.Protocol):
    def __init__(self, request: bytes, until: float, most: int, took: list[float], relayed: list[float]) -> None:
        self._request, self._until, self._most = request, until, most
        self._took, self._relayed = took, relayed
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not descend from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._stamped = False
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._stamped and b"left=" in self._buffer:
            self._stamped = True
            left = float(self._buffer.split(b"left=", 1)[1].split(b";", 1)[0])
            self._relayed.append(time.perf_counter() - left)
        if not self._ended():
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._buffer[:400].decode(errors="replace")))
            self._transport.close()
            return
        self._buffer = b""
        now = time.perf_counter()
        self._took.append(now - self._began)
        if now < self._until and len(self._took) < self._most:
            self._send()
        else:
            self._transport.close()

    def _ended(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        if at >= 0:
            return len(self._buffer) >= end + 4 + int(head[at + 15 :].split(b"\r", 1)[0])
        return self._buffer.endswith(b"0\r\n\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def chat_load(
    port: int,
    path: str,
    key: str | None,
    body: object,
    *,
    connections: int,
    seconds: float,
    most: int = 10**9,
    headers: Mapping[str, str] = {},
) -> ChatLoad:
    """Post a chat for a while, or `most` times."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join([*lines, f"Content-Length: {len(data)}"]).encode() + b"\r\n\r\n" + data
    took: list[float] = []
    relayed: list[float] = []
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    opened = [
        (
            await loop.create_connection(
                lambda: _Client(request, began + seconds, most, took, relayed), "127.0.0.1", port
            )
        )[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in opened))
    elapsed = time.perf_counter() - began
    took.sort()
    relayed.sort()
    middle = relayed[len(relayed) // 2] * 1000 if relayed else 0.0
    return ChatLoad(
        len(took), len(took) / elapsed, took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000, middle
    )
