"""Owns a count of what tools truly did: sandboxed servers tell it each run, and it outlives whoever is killed."""

import asyncio
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Runs by tool and name."""

    place: str
    runs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def twice(self) -> list[tuple[str, str]]:
        """What ran more than once."""
        return [each for each, times in self.runs.items() if times > 1]


@asynccontextmanager
async def tally() -> AsyncIterator[Tally]:
    """Listen for runs on a free port of this machine: `GET /TOOL/NAME`."""
    made = Tally("")

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            _, tool, name = head.split(b" ")[1].decode().split("/", 2)
            made.runs[urllib.parse.unquote(tool), urllib.parse.unquote(name)] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    made.place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made
