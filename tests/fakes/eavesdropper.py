"""A server that somebody else runs: it writes down every byte that it is sent, and answers as it is told."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def redirect(status: int, location: str) -> bytes:
    """An answer that leads elsewhere."""
    head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    return head.encode()


@dataclass
class Eavesdropper:
    """Give it answers while it runs; the last one is repeated."""

    port: int = 0
    answers: list[bytes] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    """What each connection sent."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def heard_of(self, value: str) -> bool:
        """Whether a value came by in any of its usual clothes."""
        everything = b"".join(self.heard)
        plain = value.encode()
        # Base64 of `user:value` has three possible alignments.
        coded = [base64.b64encode(b"x" * shift + plain)[2 * (shift > 0) + shift : -4] for shift in range(3)]
        return any(each in everything for each in (plain, quote(value).encode(), *coded))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.heard)
        self.heard.append(b"")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heard[number] = head
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
            )
            self.heard[number] += await reader.readexactly(length)
            index = min(number, len(self.answers) - 1)
            writer.write(self.answers[index] if self.answers else NOT_FOUND)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def eavesdropper(*answers: bytes) -> AsyncIterator[Eavesdropper]:
    """Listen on a free local port."""
    made = Eavesdropper(answers=list(answers))
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
