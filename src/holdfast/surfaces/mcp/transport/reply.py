"""Owns the HTTP response to one request: plain JSON if nothing is said before the result, a stream of events else."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import anyio
from starlette.types import Receive, Send

from holdfast.core.errors import HoldfastError
from holdfast.core.text.sse import PING_SECONDS
from holdfast.surfaces.http.sse import EventWriter
from holdfast.surfaces.mcp.transport.wire import Form, message_event, send_message

ATTEND_AFTER_SECONDS = 0.25
TICK_SECONDS = 1.0
SLOW_READER_SECONDS = 30.0
RETRY_MILLIS = 500

Record = Callable[[bytes, bool], Awaitable[int | None]]
"""Keeps a message for resuming (and whether it is the last one); the event's id."""


class Answering(Protocol):
    """Says things to the client while its request runs, and the result at the end."""

    async def tell(self, raw: bytes) -> None: ...

    async def finish(self, raw: bytes, *, status: int = 200) -> None: ...

    async def close_stream(self) -> None: ...


class RpcReply:
    """Says things to the client while its request runs, and the result at the end.

    A request that takes a while is attended by a task that keeps the connection alive and sees the client hang up.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        headers: Mapping[str, str],
        quiet_seconds: float,
        form: Form = "events",
        record: Record | None = None,
        primes: bool = False,
        on_gone: Callable[[], None] | None = None,
        on_tick: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers
        self._quiet_seconds = quiet_seconds
        self._may_stream = form == "events"
        self._record = record
        self._primes = primes
        self._on_gone = on_gone
        self._on_tick = on_tick
        self._events = EventWriter(send, headers)
        self._streaming = False
        self._reachable = True
        self._lock = asyncio.Lock()
        self._last_sent = 0.0
        self._attendant: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def __enter__(self) -> "RpcReply":
        self._alarm = asyncio.get_running_loop().call_later(ATTEND_AFTER_SECONDS, self._start_attending)
        return self

    def __exit__(self, *_: object) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._attendant is not None:
            self._attendant.cancel()

    async def tell(self, raw: bytes) -> None:
        """Say something before the result; this makes the response a stream, where the client takes one."""
        if not self._may_stream:
            return
        async with self._lock:
            await self._open()
            await self._say(raw, is_final=False)

    async def finish(self, raw: bytes, *, status: int = 200) -> None:
        """The result. Nothing can be said after it."""
        async with self._lock:
            if self._streaming:
                await self._say(raw, is_final=True)
                await self._end()
            elif self._reachable:
                await self._guarded(send_message(self._send, raw, status=status, headers=self._headers))
                self._reachable = False

    async def close_stream(self) -> None:
        """Let the client come back for the rest: what follows is kept for it."""
        async with self._lock:
            await self._open()
            await self._end()

    async def _open(self) -> None:
        if self._streaming:
            return
        self._streaming = True
        self._last_sent = time.monotonic()
        if self._reachable:
            await self._guarded(self._events.start())
        if self._primes and self._record is not None:
            await self._say(b"", is_final=False)

    async def _say(self, raw: bytes, *, is_final: bool) -> None:
        event_id = None if self._record is None else await self._record(raw, is_final)
        if self._reachable:
            self._last_sent = time.monotonic()
            event = message_event(raw, event_id, retry_millis=None if raw else RETRY_MILLIS)
            await self._guarded(self._events.write(event))

    async def _end(self) -> None:
        if self._reachable:
            await self._guarded(self._events.end())
        self._reachable = False

    async def _guarded(self, sending: Awaitable[None]) -> None:
        """A client that stops reading must not hold the request forever."""
        try:
            async with asyncio.timeout(SLOW_READER_SECONDS):
                await sending
        except (TimeoutError, OSError):
            self._gone()

    def _gone(self) -> None:
        self._reachable = False
        if self._on_gone is not None:
            self._on_gone()

    def _start_attending(self) -> None:
        self._attendant = asyncio.ensure_future(self._attend())

    async def _attend(self) -> None:
        started = time.monotonic()
        hang_up = asyncio.ensure_future(_disconnected(self._receive))
        try:
            while True:
                done, _ = await asyncio.wait({hang_up}, timeout=min(TICK_SECONDS, self._quiet_seconds))
                if done and self._reachable:
                    self._gone()
                await self._tick(time.monotonic() - started)
                if done:
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            hang_up.cancel()

    async def _tick(self, elapsed: float) -> None:
        if self._on_tick is not None:
            # A store that is away for a moment is no reason to leave the client unattended.
            with suppress(HoldfastError):
                await self._on_tick()
        if self._may_stream and not self._streaming and elapsed >= self._quiet_seconds:
            async with self._lock:
                await self._open()
        elif self._streaming and self._reachable and time.monotonic() - self._last_sent >= PING_SECONDS:
            async with self._lock:
                self._last_sent = time.monotonic()
                await self._guarded(self._events.ping())


async def _disconnected(receive: Receive) -> None:
    with suppress(OSError):
        while (await receive())["type"] != "http.disconnect":
            continue


async def cancellable(
    scope: anyio.CancelScope, work: Awaitable[tuple[bytes, int | None]]
) -> tuple[bytes, int | None] | None:
    """What the work gives, or None when the scope was cancelled meanwhile."""
    with scope:
        return await work
    return None
