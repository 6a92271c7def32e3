"""Owns the events of a background response: written down while it is made, to be followed from any point."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from holdfast.engines.jobs.run import JobRun
from holdfast.engines.llm.model import Json
from holdfast.features.responses import store

POLL_SECONDS = 1.0
"""How late a follower in another process hears of events."""
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a response was told: the next event's number, and the next item's place."""

    number: int = 0
    index: int = 0


def told(events: Iterable[Json]) -> StreamPosition:
    """How far these events go."""
    number, index = 0, 0
    for event in events:
        number = max(number, event["sequence_number"] + 1)
        index = max(index, event.get("output_index", -1) + 1)
    return StreamPosition(number, index)


class EventLog:
    """Writes events down and wakes whoever follows them in this process; others look again each second."""

    def __init__(self) -> None:
        self._followers: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def followed(self, response_id: str) -> Iterator[asyncio.Event]:
        """Set whenever there may be news."""
        news = asyncio.Event()
        self._followers.setdefault(response_id, set()).add(news)
        try:
            yield news
        finally:
            known = self._followers[response_id]
            known.discard(news)
            if not known:
                del self._followers[response_id]

    def wake(self, response_id: str) -> None:
        """Tell followers to look."""
        for news in self._followers.get(response_id, ()):
            news.set()

    @asynccontextmanager
    async def writing(self, run: JobRun, response_id: str) -> AsyncIterator["LogWriter"]:
        """Write down what is added, in transactions of as many events as came during the one before."""
        writer = LogWriter(self, run, response_id)
        task = asyncio.create_task(writer.run())
        try:
            yield writer
        finally:
            await writer.close()
            # What failed there fails the job: a lease that is lost, a store that is away.
            await task


class LogWriter:
    """The events of one attempt, on their way into the store."""

    def __init__(self, log: EventLog, run: JobRun, response_id: str) -> None:
        self._log = log
        self._run = run
        self._id = response_id
        self._waiting: list[Json] = []
        self._added = asyncio.Event()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, events: Iterable[Json]) -> None:
        self._waiting += events
        self._added.set()

    async def close(self) -> None:
        """Write nothing more; what still waits is in `take`."""
        self._closed = True
        self._added.set()
        await self._idle.wait()

    def take(self) -> list[Json]:
        """What was not written yet, for the transaction that ends the response."""
        waiting, self._waiting = self._waiting, []
        return waiting

    async def run(self) -> None:
        while not self._closed:
            await self._added.wait()
            self._added.clear()
            if self._closed:
                return
            events = self.take()
            if events:
                await self._write(events)

    async def _write(self, events: list[Json]) -> None:
        self._idle.clear()
        try:
            await self._run.write(lambda tx: store.add_events(tx, self._id, events))
        finally:
            self._idle.set()
        self._log.wake(self._id)
