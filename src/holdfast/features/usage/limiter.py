"""Owns the limiter: token buckets in the store, exact over all processes, a few microseconds where there is plenty."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.errors import HoldfastError
from holdfast.features.usage import store
from holdfast.features.usage.model import Limit, Taken
from holdfast.features.usage.store import Grant, Want
from holdfast.storage.database import Database, StorageFailed

# Tokens taken to spare go back after this long without use.
HOLD_SECONDS = 1.0
# A refusal is repeated without asking the store for this long at most.
REFUSE_SECONDS = 0.2
MAX_SPARE = 65_536
TRIM_SECONDS = 3600
# After a write that the store refused it is left alone for this long.
ALONE_SECONDS = 1.0
# What a steady clock may be off from the wall clock's milliseconds.
SLACK_SECONDS = 0.005
GIVE_BACK_AT_ONCE = 64

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """What this process has of one bucket."""

    limit: Limit
    tokens: int = 0
    spare: int = 0
    used: int = 0
    left: float = 0.0
    looked_at: float = -math.inf
    refused_until: float = -math.inf
    refused: int = 0
    asking: bool = False
    waiting: list[tuple[int, "asyncio.Future[bool]"]] = field(default_factory=list)


class Limiter:
    """Token buckets shared by every process on the store.

    Never more than the limit is given out. Limits under 600 are counted one by one in the store. Of larger ones a
    process that asks often takes up to a 64th of what is left to spare, and gives it back after a second without use:
    until then other processes may be refused that many early.
    """

    def __init__(
        self, database: Database, clock: Clock | None = None, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._steady = steady
        self._held: dict[str, _Held] = {}
        self._alone_until = -math.inf
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, key: str, limit: Limit, n: int = 1) -> Taken:
        """Take `n` from the bucket `key`, or learn when to come back."""
        held = self._held.get(key)
        if held is None or (held.limit is not limit and held.limit != limit):
            held = self._held[key] = _Held(limit)
        steady = self._steady()
        if held.tokens >= n and steady - held.looked_at < HOLD_SECONDS:
            held.tokens -= n
            held.used += n
            return self._taken(held, n, True)
        if steady < held.refused_until and n >= held.refused:
            return self._taken(held, n, False)
        return self._taken(held, n, await self._ask(key, held, n))

    async def run(self) -> None:
        """Give spare tokens back and forget full buckets, until `stop`."""
        trimmed_at = -math.inf
        while not self._stopping.is_set():
            try:
                await self.give_back()
                if self._steady() - trimmed_at >= TRIM_SECONDS:
                    trimmed_at = self._steady()
                    before = self._clock.now() - TRIM_SECONDS * 1000
                    await self._database.write(partial(store.trim_buckets, before=before))
            except HoldfastError as problem:
                _log.warning("Limits could not be settled: %s", problem.message)
            try:
                await asyncio.wait_for(self._stopping.wait(), HOLD_SECONDS)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Give everything back and end `run`."""
        self._stopping.set()
        await self.give_back(everything=True)

    async def give_back(self, *, everything: bool = False) -> None:
        """Return tokens that were not used within a second, and forget buckets that nobody asks for."""
        steady = self._steady()
        returning = []
        for key, held in list(self._held.items()):
            idle_seconds = math.inf if everything else steady - held.looked_at
            if held.asking or idle_seconds < HOLD_SECONDS:
                continue
            if held.tokens:
                returning.append((key, held))
            elif idle_seconds >= held.limit.per_seconds:
                del self._held[key]
        for start in range(0, len(returning), GIVE_BACK_AT_ONCE):
            # As askers of nothing, so that whoever comes meanwhile waits for the same answer.
            some = returning[start : start + GIVE_BACK_AT_ONCE]
            await asyncio.gather(*(self._ask(key, held, 0) for key, held in some))

    async def _ask(self, key: str, held: _Held, n: int) -> bool:
        """Ask the store, together with everybody here who asks for the same bucket at this time."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        held.waiting.append((n, future))
        if not held.asking:
            held.asking = True
            # A task of its own, so that a caller who goes away takes nobody's answer along.
            task = asyncio.create_task(self._answer_all(key, held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _answer_all(self, key: str, held: _Held) -> None:
        try:
            while held.waiting:
                asked, held.waiting = held.waiting, []
                await self._answer(key, held, asked)
                # Who came meanwhile may find what was taken to spare.
                held.waiting = [(n, future) for n, future in held.waiting if not self._spared(held, n, future)]
        finally:
            held.asking = False

    async def _answer(self, key: str, held: _Held, asked: list[tuple[int, "asyncio.Future[bool]"]]) -> None:
        want = self._want(key, held, sum(n for n, _ in asked))
        try:
            grant = await self._lease(held, want)
        except BaseException as problem:
            for _, future in asked:
                if isinstance(problem, Exception) and not future.done():
                    future.set_exception(problem)
                future.cancel()
            if isinstance(problem, Exception):
                return
            raise
        held.tokens += grant.granted
        held.left = grant.left
        for n, future in asked:
            if held.tokens >= n:
                self._give(held, n, future)
                continue
            self._refuse(held, n)
            if not future.done():
                future.set_result(False)

    def _spared(self, held: _Held, n: int, future: "asyncio.Future[bool]") -> bool:
        """Whether the asker was served without the store. Who asks for nothing gives back, to the store alone."""
        if not 0 < n <= held.tokens:
            return False
        self._give(held, n, future)
        return True

    @staticmethod
    def _give(held: _Held, n: int, future: "asyncio.Future[bool]") -> None:
        if not future.done():
            held.tokens -= n
            held.used += n
            future.set_result(True)

    async def _lease(self, held: _Held, want: Want) -> Grant:
        """Ask the store; while it takes no writes (a full disk), limit this process by itself, so that reads go on."""
        if self._steady() >= self._alone_until:
            try:
                return await self._database.write(lambda tx: store.lease(tx, want))
            except StorageFailed as problem:
                _log.warning("Limits hold for each process by itself for now: %s", problem.message)
                self._alone_until = self._steady() + ALONE_SECONDS
        count = want.limit.count
        added = want.elapsed_at_most * count / want.limit.per_seconds
        tokens = min(float(count), held.left + added + want.given_back)
        granted = min(want.need, math.floor(tokens + 1e-9))
        return Grant(granted, tokens - granted)

    def _want(self, key: str, held: _Held, need: int) -> Want:
        steady = self._steady()
        elapsed = steady - held.looked_at
        held.looked_at = steady
        # Whoever is busy takes twice as many as they used lately. Others take what they need.
        lately = math.floor(2 * held.used / max(1.0, elapsed / HOLD_SECONDS)) if need else 0
        held.spare = min(MAX_SPARE, max(lately, held.spare) if elapsed < HOLD_SECONDS else lately)
        held.used = 0
        given_back, held.tokens = held.tokens, 0
        return Want(
            _storable(key), held.limit, need, held.spare, given_back, self._clock.now(), elapsed + SLACK_SECONDS
        )

    def _refuse(self, held: _Held, n: int) -> None:
        wait = min(REFUSE_SECONDS, _seconds_until(held, n))
        held.refused_until, held.refused = self._steady() + wait, n

    def _taken(self, held: _Held, n: int, allowed: bool) -> Taken:
        limit = held.limit
        there = held.tokens + held.left
        missing = max(0.0, limit.count - there)
        reset_at = self._clock.now() + math.ceil(missing / limit.count * limit.per_seconds * 1000)
        retry = 0.0 if allowed else _seconds_until(held, n)
        return Taken(allowed, limit.count, max(0, math.floor(there + 1e-9)), reset_at, retry)


def _seconds_until(held: _Held, n: int) -> float:
    """How long until `n` tokens are there, if nobody else takes any."""
    limit = held.limit
    return max(0.0, (min(n, limit.count) - held.tokens - held.left) / limit.count * limit.per_seconds)


def _storable(key: str) -> str:
    """A key that both stores take: it may hold what a stranger typed."""
    return key.replace("\x00", "�").encode("utf-8", "replace").decode()[:400]
