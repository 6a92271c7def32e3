"""Owns the work behind search: vectors for entries that wait for one, and big workspaces' indexes on PostgreSQL."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from holdfast.core.clock import Clock
from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.core.text.counting import many
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.model import VectorCount
from holdfast.engines.search.stores import hnsw, packs
from holdfast.engines.search.stores.base import Pending, Store
from holdfast.engines.search.text.speech import meant_text
from holdfast.storage.database import Database, Tx

log = logging.getLogger(__name__)

BATCH = 32
LEAST_MEASURED = 8
"""A batch of fewer says more about one call than about the rate."""
RATE_HOLDS_MILLIS = 600_000
"""A rate that was measured longer ago says nothing about when somebody goes on."""
MUCH, TOLD_SECONDS = 500, 60.0
"""After so many the log tells how far it is, and then every minute."""
IDLE_SECONDS = 15.0
SHARED_IDLE_SECONDS = 1.0
"""Where other processes save what this one embeds for them all."""
LONGEST_PAUSE_SECONDS = 60.0
INDEX_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """How far the vectors are: entries in all, and those that wait for one of the present embedder."""

    entries: int
    pending: int
    embedder: str
    rate: float = 0.0
    """How many get theirs in a second; 0 where that was not measured lately."""
    renewed: int = 0
    """Those of the waiting that are found by a vector of an earlier embedder until then."""

    @property
    def said(self) -> str:
        """What operators are told."""
        if not self.pending:
            return f"{many(self.entries, 'passage')}, each with its vector"
        rate = f", {self.rate:.0f} a second" if self.rate else ""
        without = self.pending - self.renewed
        count = VectorCount(self.entries - without, without, self._seconds).said.rstrip(".")
        anew = f"{many(self.renewed, 'vector')} of an earlier model made anew meanwhile" if self.renewed else ""
        return f"{'; '.join(filter(None, (count, anew)))}{rate}"

    @property
    def _seconds(self) -> float | None:
        return self.pending / self.rate if self.rate else None


class IndexUpkeep:
    """Finds what waits and does it in small steps, so that searches and writes go on meanwhile."""

    def __init__(
        self,
        database: Database,
        store: Store,
        embedder: Embedder,
        clock: Clock,
        *,
        index_above: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._database = database
        self._clock = clock
        self._rate = 0.0
        self._store = store
        self._embedder = embedder
        self._index_above = index_above
        self._woken: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._stopped = False
        self._indexed_at = float("-inf")

    def wake(self) -> None:
        """Say that something waits; from any thread."""
        loop, woken = self._loop, self._woken
        if loop is not None and woken is not None and not loop.is_closed():
            loop.call_soon_threadsafe(woken.set)

    async def run(self) -> None:
        """Work until stopped. A failing upstream is asked again later, ever more rarely."""
        self._loop, self._woken, self._ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        try:
            await self._work(self._woken)
        finally:
            self._ended.set()

    async def _work(self, woken: asyncio.Event) -> None:
        pause = 1.0
        while not self._stopped:
            try:
                await self.tend()
                await self._index_now_and_then()
                pause, wait = 1.0, self._idle_seconds
            except (UpstreamFailed, Unavailable) as problem:
                if not self._stopped:
                    log.warning("Search could not embed what waits: %s", problem.message)
                wait, pause = pause, min(pause * 2, LONGEST_PAUSE_SECONDS)
                woken.clear()
            if not self._stopped:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), wait)
            woken.clear()

    def stop(self) -> None:
        """Have `run` end after the step at hand."""
        self._stopped = True
        self.wake()

    async def ended(self) -> None:
        """Wait until `run` is over; at once if it never began."""
        if self._ended is not None:
            await self._ended.wait()

    async def tend(self) -> int:
        """Embed everything that waits now; how many entries got a vector."""
        done = 0
        number = await self._database.write(
            lambda tx: self._store.embedder(tx, self._embedder.id, self._embedder.dimensions)
        )
        shelf, tells_at = 0, time.monotonic()
        while not self._stopped:
            waiting = await self._database.read(
                partial(self._store.pending, embedder=number, limit=BATCH, after_shelf=shelf)
            )
            if not waiting:
                await self._forget_others(number)
                break
            shelf = waiting[-1].shelf
            done += await self._embed(waiting, number)
            if done >= MUCH and time.monotonic() >= tells_at:
                tells_at = time.monotonic() + TOLD_SECONDS
                log.info("Embedding: %s.", (await self.progress()).said)
        return done

    async def _forget_others(self, number: int) -> None:
        """Nobody need look for vectors of embedders that are gone, nor keep indexes of them."""
        if await self._database.read(lambda tx: len(self._store.comparable(tx, self._embedder.id))) > 1:
            await self._database.write(lambda tx: self._store.forget_embedders(tx, number))

    async def index(self) -> list[str]:
        """Make big workspaces' indexes, on SQLite their packs, and drop what is stale; what was done."""
        embedders = await self._database.glance(lambda tx: self._store.comparable(tx, self._embedder.id))
        if self._database.dialect == "sqlite":
            done = []
            async for what in packs.keep(self._database, embedders, self._embedder.dimensions):
                done.append(what)
                if self._stopped:
                    break
            return done
        return await hnsw.keep(self._database, embedders, self._embedder.dimensions, self._index_above)

    async def progress(self) -> EmbeddingProgress:
        """How many entries there are, how many wait, and how fast they get their vectors."""

        def look(tx: Tx) -> EmbeddingProgress:
            number = self._store.embedder_number(tx, self._embedder.id)
            entries, waiting = self._store.entry_count(tx), self._store.pending_count(tx, number)
            renewed = sum(self._store.made_by(tx, older) for older in self._store.comparable(tx, self._embedder.id)[1:])
            return EmbeddingProgress(entries, waiting, self._embedder.id, self._recent_rate(tx, number), renewed)

        return await self._database.read(look)

    def _recent_rate(self, tx: Tx, number: int) -> float:
        rate, measured_at = self._store.rate(tx, number)
        return rate if self._clock.now() - measured_at <= RATE_HOLDS_MILLIS else 0.0

    def count(self, tx: Tx, shelf: int, collection: str) -> VectorCount:
        """How far a collection's vectors are, and when all that wait in the store will have theirs."""
        number = self._store.embedder_number(tx, self._embedder.id)
        have = self._store.embedded_count(tx, shelf, collection, self._store.comparable(tx, self._embedder.id))
        waiting = self._store.count(tx, shelf, collection) - have
        rate = self._recent_rate(tx, number)
        if not waiting or rate <= 0:
            return VectorCount(have, waiting)
        # Workspaces take turns, so what waits elsewhere comes in between.
        return VectorCount(have, waiting, self._store.pending_count(tx, number) / rate)

    async def _embed(self, waiting: list[Pending], number: int) -> int:
        began = time.monotonic()
        vectors = await self._embedder.embed([vector_text(one.title, one.text, bool(one.traits)) for one in waiting])

        def work(tx: Tx) -> int:
            done = self._store.set_vectors(tx, waiting, vectors, number)
            if len(waiting) >= LEAST_MEASURED:
                now = len(waiting) / max(1e-6, time.monotonic() - began)
                self._rate = now if not self._rate else 0.8 * self._rate + 0.2 * now
                self._store.set_rate(tx, number, self._rate, self._clock.now())
            return done

        return await self._database.write(work)

    async def _index_now_and_then(self) -> None:
        if time.monotonic() - self._indexed_at >= INDEX_SECONDS:
            self._indexed_at = time.monotonic()
            await self.index()


def vector_text(title: str, text: str, spoken: bool) -> str:
    """What an entry's vector is made of: what is searched of it; in conversations without the speaker's name."""
    return meant_text(title, text) if spoken else embedded_text(title, text)


def embedded_text(title: str, text: str) -> str:
    """What is searched of an entry: its title before its text, unless the text begins with it anyway."""
    return text if not title or text.startswith(title.rstrip("….")) else f"{title}\n{text}"
