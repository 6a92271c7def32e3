"""Owns keeping an answer's stream open while whoever makes it is silent."""

import asyncio
from types import TracebackType
from typing import Protocol

from holdfast.core.text.sse import PING_SECONDS


class Pinged(Protocol):
    """A stream that can tell that it is still there."""

    @property
    def spoke_at(self) -> float:
        """The loop's time of the last write, 0 before the first."""
        ...

    async def ping(self) -> None: ...


class pinged:  # noqa: N801 – read as a phrase: `async with pinged(stream):`
    """Pings a stream whenever nothing was written to it for a while, until the block ends.

    A timer, not a task that waits: most answers are over long before, and pay for nothing else.
    """

    __slots__ = ("_loop", "_ping", "_seconds", "_since", "_stream", "_timer")

    def __init__(self, stream: Pinged, seconds: float | None = None) -> None:
        self._stream = stream
        self._seconds = PING_SECONDS if seconds is None else seconds
        self._ping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._seconds, self._look)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._ping is None:
            return
        if kind is not None:
            self._ping.cancel()
        # Otherwise it is let through: half of an answer's beginning would be none.
        await asyncio.gather(self._ping, return_exceptions=True)

    def _look(self) -> None:
        due = max(self._stream.spoke_at, self._since) + self._seconds
        now = self._loop.time()
        # A ping that is still being written waits for the reader; a second one would say nothing more.
        if now >= due and (self._ping is None or self._ping.done()):
            self._ping = self._loop.create_task(self._stream.ping())
            self._since, due = now, now + self._seconds
        self._timer = self._loop.call_later(max(due - now, self._seconds / 10), self._look)
