"""Owns talking to a server in plain bytes, for what no HTTP client would send."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATIENCE_SECONDS = 60
"""Far more than any answer takes; a server that goes on waiting fails the test instead of hanging it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One parsed answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["error"]["code"])


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Each piece in a packet of its own, as far as the system lets us; a closed connection is no error here."""
        try:
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            return

    def end(self) -> None:
        """Say that nothing more will come."""
        self._writer.write_eof()

    async def answer(self, *, head: bool = False) -> Answer | None:
        """The next answer; None when the connection ended instead."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                raw = await self._reader.readuntil(b"\r\n\r\n")
                lines = raw.decode("latin-1").split("\r\n")
                fields = (line.split(": ", 1) for line in lines[1:] if line)
                headers = {name.lower(): value for name, value in fields}
                length = 0 if head else int(headers.get("content-length", "0"))
                return Answer(int(lines[0].split(" ")[1]), headers, await self._reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None

    async def closed(self) -> bool:
        """Wait for the end; whether nothing came before it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


async def dial(url: str) -> Wire:
    """A new connection to a server."""
    parts = urlsplit(url)
    return Wire(*await asyncio.open_connection(parts.hostname, parts.port))


async def exchange(url: str, *pieces: bytes) -> tuple[Answer | None, bool]:
    """Send bytes on a connection of their own; the first answer, and whether the connection then ended silently."""
    wire = await dial(url)
    await wire.send(*pieces)
    answer = await wire.answer()
    silent = await wire.closed()
    await wire.close()
    return answer, silent
