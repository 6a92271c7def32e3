"""Owns the event bus: what a transaction publishes reaches subscribers here after commit, and other processes soon."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import new_id
from holdfast.engines.events import store
from holdfast.engines.events.model import Event, Subscription
from holdfast.storage.database import Database, Row, Tx

POLL_SECONDS = 1.0
COALESCE_SECONDS = 0.02
TRIM_SECONDS = 60
KEEP_MILLIS = 300_000
CAPACITY = 256
MAX_PAYLOAD = 4000
# A number that was skipped is a transaction still open, or one that was rolled back: after a minute it is the latter.
GAP_SECONDS = 60
MAX_GAPS = 500

_log = logging.getLogger(__name__)


class EventBus:
    """Publishes in transactions, delivers on the event loop, never waits for a subscriber."""

    def __init__(
        self,
        database: Database,
        clock: Clock | None = None,
        *,
        poll_seconds: float = POLL_SECONDS,
        watching: bool = False,
    ) -> None:
        """`watching`: several processes serve one embedded store together, and look for each other's commits."""
        self._database = database
        self._clock = clock or SystemClock()
        self._poll_seconds = poll_seconds
        self._watching = watching
        self._origin = new_id("bus")
        self._subscriptions: set[Subscription] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committed: deque[Event] = deque()
        self._lock = threading.Lock()
        self._draining = False
        self._position: int | None = None
        self._gaps: dict[int, float] = {}
        self._news = asyncio.Event()
        self._to_tell = asyncio.Event()
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def publish(
        self,
        tx: Tx,
        topic: str,
        payload: Mapping[str, Any] = {},
        *,
        workspace_id: str | None = None,
        organization_id: str | None = None,
    ) -> None:
        """Tell subscribers once `tx` is committed: ids and small facts, not contents.

        `organization_id` is for what concerns all of an organization, and none of its workspaces alone.
        """
        told = Event(topic, dict(payload), workspace_id, self._clock.now(), organization_id=organization_id)
        if len(store.encode(payload)) > MAX_PAYLOAD:
            raise ValueError(f"The payload of {topic!r} is over {MAX_PAYLOAD} characters; publish an id instead.")
        event = replace(told, number=store.insert(tx, told, self._origin))
        tx.after_commit(lambda: self._after_commit(event))

    def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        workspace_ids: Collection[str] | None = None,
        organization_id: str | None = None,
        predicate: Callable[[Event], bool] | None = None,
        capacity: int = CAPACITY,
    ) -> Subscription:
        """Events from now on, of these topics (`job.*` for all below) and workspaces; None means any. Close it.

        With workspaces, `organization_id` adds what concerns that whole organization.
        """
        self._loop = asyncio.get_running_loop()
        subscription = Subscription(
            topics, workspace_ids, predicate, capacity, self._subscriptions.discard, organization_id
        )
        self._subscriptions.add(subscription)
        return subscription

    async def newest(self) -> int:
        """The number of the newest event."""
        return await self._database.glance(store.newest)

    async def keeps(self, number: int) -> bool:
        """Whether the event of this number is still there, and with it everything that came after."""
        return await self._database.glance(
            lambda tx: bool(store.among(tx, [number])) or store.newest(tx) == number == 0
        )

    async def kept(self, workspace_ids: Collection[str], organization_id: str, after: int) -> Sequence[Event]:
        """Events of workspaces and their organization after a number: a page of what the last minutes left."""
        rows = await self._database.read(lambda tx: store.after_in(tx, workspace_ids, organization_id, after))
        return [store.decode(row) for row in rows]

    async def ready(self) -> None:
        """Wait until `run` sees what other processes publish from now on."""
        await self._started.wait()

    async def run(self) -> None:
        """Exchange events with other processes until `stop` or cancellation."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        await self._from_now_on()
        tasks = (self._read_forever(), self._tell_forever(), self._trim_forever(), self._listen())
        with suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(task)

    async def stop(self) -> None:
        """End `run` and every subscription."""
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _after_commit(self, event: Event) -> None:
        """Called in a thread of the store: hand over to the loop, once for any number of events."""
        with self._lock:
            loop = self._loop
            if loop is None or loop.is_closed():
                return
            self._committed.append(event)
            if self._draining:
                return
            self._draining = True
        with suppress(RuntimeError):  # The loop has closed by now: nobody is left to tell.
            loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._lock:
            events = list(self._committed)
            self._committed.clear()
            self._draining = False
        for event in events:
            self._deliver(event)
        self._to_tell.set()

    def _deliver(self, event: Event) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.offer(event)

    async def _from_now_on(self) -> None:
        while self._position is None:
            try:
                self._position = await self._database.read(store.newest)
            except HoldfastError as problem:
                _log.warning("Events of other processes are not read yet: %s", problem.message)
                await asyncio.sleep(self._poll_seconds)
        self._started.set()

    async def _listen(self) -> None:
        if self._watching and self._database.dialect == "sqlite":
            await store.watch(self._database, self._news.set)
        await store.listen(self._database, self._news.set)

    async def _read_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            try:
                while await self._read_news():
                    pass
            except HoldfastError as problem:
                _log.warning("Events of other processes could not be read: %s", problem.message)

    async def _read_news(self) -> bool:
        """Deliver what other processes published; whether there may be more at once."""
        position, gaps = self._position or 0, list(self._gaps)
        late, rows = await self._database.read(lambda tx: (store.among(tx, gaps), store.after(tx, position)))
        now = asyncio.get_running_loop().time()
        for row in late:
            self._gaps.pop(int(row["number"]), None)
        for row in rows:
            number = int(row["number"])
            missing = range(max(position + 1, number - MAX_GAPS), number)
            if position:
                self._gaps |= dict.fromkeys(missing, now + GAP_SECONDS)
            position = number
        self._position = position
        self._gaps = {gap: until for gap, until in list(self._gaps.items())[-MAX_GAPS:] if until > now}
        for row in (*late, *rows):
            self._deliver_foreign(row)
        return len(rows) == store.PAGE

    def _deliver_foreign(self, row: Row) -> None:
        if row["origin"] != self._origin:
            self._deliver(store.decode(row))

    async def _tell_forever(self) -> None:
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            try:
                await store.tell_replicas(self._database)
            except HoldfastError as problem:
                _log.warning("Replicas were not told of events (%s); they poll.", problem.message)
            await asyncio.sleep(COALESCE_SECONDS)

    async def _trim_forever(self) -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            try:
                await self._database.write(lambda tx: store.trim(tx, self._clock.now() - KEEP_MILLIS))
            except HoldfastError as problem:
                _log.warning("Old events could not be trimmed: %s", problem.message)
