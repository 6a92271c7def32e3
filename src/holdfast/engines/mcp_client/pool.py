"""Owns which servers are open: one for each key, started when first used, shared, and stopped when nobody needs it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress

from holdfast.core.errors import RateLimited
from holdfast.engines.mcp_client.base import Connection, ServerFailed

Open = Callable[[], Awaitable[Connection]]

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_CALM_SECONDS = 60.0


class _Slot:
    """One key: its connection, who uses it, and how often it failed lately."""

    def __init__(self) -> None:
        self.opening: asyncio.Task[Connection] | None = None
        self.users = 0
        self.idle_since = 0.0
        self.opened_at = 0.0
        self.failures = 0
        self.retry_at = 0.0
        self.problem: ServerFailed | None = None
        self.is_over = False
        """Taken out of the pool; whoever still waits must not open it again."""

    @property
    def connection(self) -> Connection | None:
        """The open one; None while it starts, and after it failed."""
        if self.opening is None or not self.opening.done() or self.opening.cancelled():
            return None
        return self.opening.result() if self.opening.exception() is None else None


class ConnectionPool:
    """Connections by key: a server and the environment that it runs with."""

    def __init__(
        self, *, most: int = 32, idle_seconds: float = 300.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._now = now
        self._slots: dict[Hashable, _Slot] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._is_closed = False

    @asynccontextmanager
    async def connection(self, key: Hashable, open: Open) -> AsyncIterator[Connection]:
        """The connection for a key, opened by `open` where there is none; it stays open while somebody is in here."""
        slot = self._slots.setdefault(key, _Slot())
        slot.users += 1
        try:
            yield await self._ready(key, slot, open)
        finally:
            slot.users -= 1
            slot.idle_since = self._now()
            self._tidy(key, slot)

    def running(self, key: Hashable) -> Connection | None:
        """The open connection for a key; None where there is none."""
        slot = self._slots.get(key)
        connection = None if slot is None else slot.connection
        return None if connection is None or connection.closed else connection

    async def discard(self, key: Hashable) -> None:
        """Close a key's connection: its server was changed or removed. Calls in flight fail."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            await self._end(slot)

    async def discard_unused(self, key: Hashable) -> None:
        """The same, unless somebody is using it at this moment."""
        slot = self._slots.get(key)
        if slot is not None and slot.users == 0:
            await self.discard(key)

    async def close(self) -> None:
        """Close everything, and open nothing any more."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        slots = list(self._slots.values())
        self._slots.clear()
        await asyncio.gather(*(self._end(slot) for slot in slots), *self._closing)

    async def stop_idle(self) -> None:
        """Close what nobody used for `idle_seconds`; done by itself while anything is open."""
        late = self._now() - self._idle_seconds
        for key, slot in list(self._slots.items()):
            if slot.users == 0 and slot.idle_since <= late:
                self._slots.pop(key, None)
                await self._end(slot)

    async def _ready(self, key: Hashable, slot: _Slot, open: Open) -> Connection:
        while True:
            if self._is_closed:
                raise ServerFailed("Holdfast is shutting down.")
            if slot.is_over:
                raise ServerFailed("The server was changed or removed while it started; call again.")
            connection = slot.connection
            if connection is not None and not connection.closed:
                return connection
            if slot.opening is None or slot.opening.done():
                self._note_crash(slot, connection)
                self._check_pause(slot)
                self._make_room(key)
                slot.opening = asyncio.create_task(self._open(slot, open))
                self._sweep()
            opening = slot.opening
            # Waited for, not awaited: the first user may give up while others wait for the same start.
            await asyncio.wait({opening})
            if not opening.cancelled():
                return opening.result()

    async def _open(self, slot: _Slot, open: Open) -> Connection:
        try:
            connection = await open()
        except ServerFailed as problem:
            self._note_failure(slot, problem)
            raise
        slot.opened_at = self._now()
        return connection

    def _note_crash(self, slot: _Slot, connection: Connection | None) -> None:
        if connection is None:
            return
        if self._now() - slot.opened_at > _CALM_SECONDS:
            slot.failures = 0
        # One crash is an accident; from the second on there is a pause before each start.
        slot.failures += 1
        if slot.failures > 1:
            slot.retry_at = self._now() + _pause(slot.failures - 1)
        words = connection.logs()[-300:].strip()
        slot.problem = ServerFailed(f"The server ended {slot.failures} times shortly after its start. {words}".strip())
        slot.opening = None

    def _note_failure(self, slot: _Slot, problem: ServerFailed) -> None:
        slot.failures += 1
        slot.retry_at = self._now() + _pause(slot.failures)
        slot.problem = problem

    def _check_pause(self, slot: _Slot) -> None:
        left = slot.retry_at - self._now()
        if left > 0 and slot.problem is not None:
            raise ServerFailed(f"{slot.problem.message} It is started again in {left:.0f} seconds at the earliest.")

    def _make_room(self, key: Hashable) -> None:
        open = [(other, slot) for other, slot in self._slots.items() if other != key and slot.opening is not None]
        if len(open) < self._most:
            return
        idle = [(slot.idle_since, index) for index, (_, slot) in enumerate(open) if slot.users == 0]
        if not idle:
            raise RateLimited(
                f"All {self._most} servers that may run at once are in use. Try again in a moment.",
                headers={"Retry-After": "5"},
            )
        other, slot = open[min(idle)[1]]
        self._slots.pop(other)
        self._later(self._end(slot))

    def _tidy(self, key: Hashable, slot: _Slot) -> None:
        """Forget a key whose start failed long enough ago that it may be tried at once."""
        if slot.users == 0 and slot.connection is None and slot.opening is not None and slot.opening.done():
            slot.opening = None
        if slot.users == 0 and slot.opening is None and slot.failures == 0 and self._slots.get(key) is slot:
            del self._slots[key]

    async def _end(self, slot: _Slot) -> None:
        slot.is_over = True
        opening, slot.opening = slot.opening, None
        if opening is None:
            return
        opening.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await opening
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _sweep(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._swept())

    async def _swept(self) -> None:
        while self._slots:
            await asyncio.sleep(max(1.0, self._idle_seconds / 10))
            await self.stop_idle()


def _pause(failures: int) -> float:
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (failures - 1)))
