"""Owns the connections that a sandboxed program makes to a port of its own loopback, which Holdfast answers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_PIECE_BYTES = 131_072


class Connections:
    """A LoopbackService that gives each connection to a function; what it raises for a broken one ends that one."""

    def __init__(self, answer: Answer, *, limit_bytes: int = 65_536, at_once: int | None = None) -> None:
        self._answer = answer
        self._limit_bytes = limit_bytes
        self._at_once = at_once
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._busy)

    async def open(self, listener: socket.socket) -> None:
        """Begin to answer."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=self._limit_bytes)

    async def close(self) -> None:
        """Break everything off."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._busy):
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            if self._at_once is None or len(self._busy) <= self._at_once:
                await self._answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Either side hung up or stayed silent; the program sees a closed connection.
            pass
        except asyncio.CancelledError:
            # By `close` alone, at whose end nobody is left; the server would log it as an error.
            pass
        finally:
            self._busy.discard(task)
            writer.close()


def relay(host: str, port: int, *, at_once: int = 64) -> Connections:
    """A LoopbackService that leads every connection to one place of ours, as bytes."""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        up = asyncio.ensure_future(_pump(reader, back))
        try:
            await _pump(there, writer)
        finally:
            up.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await up
            back.close()

    return Connections(lead, at_once=at_once)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE_BYTES):
        target.write(piece)
        await target.drain()
    with suppress(OSError):
        target.write_eof()
