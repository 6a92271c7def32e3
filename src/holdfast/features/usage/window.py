"""Owns limits that are told as so many a minute: counted in windows or over the last one, exact over all processes."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from holdfast.core.clock import Clock
from holdfast.features.usage import store
from holdfast.features.usage.model import Limit, Taken
from holdfast.storage.database import Database, StorageFailed, Tx

MAX_HELD = 10_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """A window of this process alone, while the store takes no writes."""

    began_at: int
    left: int


class _Counted(ABC):
    """A limit that every process counts in the store, and each by itself while that takes no writes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def take(self, key: str, limit: Limit) -> Taken:
        """Take one, or learn when to come back."""
        now = self._clock.now()
        try:
            left, again_at = await self._database.write(lambda tx: self._take(tx, key, limit, now))
        except StorageFailed as problem:
            _log.warning("Limits hold for each process by itself for now: %s", problem.message)
            left, again_at = self._take_alone(key, limit, now)
        wait = 0.0 if left >= 0 else (again_at - now) / 1000
        return Taken(left >= 0, limit.count, max(0, left), again_at, wait)

    @abstractmethod
    def _take(self, tx: Tx, key: str, limit: Limit, now: int) -> tuple[int, int]:
        """What is left then (-1: nothing was), and when there is more."""

    @abstractmethod
    def _take_alone(self, key: str, limit: Limit, now: int) -> tuple[int, int]: ...


class Windows(_Counted):
    """Gives out no more than a limit in one window, which begins with the first taken and ends for all at once.

    A bucket would refill while a slow caller takes from it; whoever was told sixty a minute gets sixty.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self._held: dict[str, _Held] = {}

    def _take(self, tx: Tx, key: str, limit: Limit, now: int) -> tuple[int, int]:
        return store.take_from_window(tx, key, limit, now)

    def _take_alone(self, key: str, limit: Limit, now: int) -> tuple[int, int]:
        length = round(limit.per_seconds * 1000)
        held = self._held.get(key)
        if held is None or not held.began_at <= now < held.began_at + length:
            if len(self._held) >= MAX_HELD:
                self._held.clear()
            held = self._held[key] = _Held(now, limit.count)
        held.left = max(-1, held.left - 1)
        return held.left, held.began_at + length


class LastMinute(_Counted):
    """Gives out no more than a limit in any stretch of its length, wherever that begins."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self._alone: dict[str, deque[int]] = {}

    def _take(self, tx: Tx, key: str, limit: Limit, now: int) -> tuple[int, int]:
        return store.take_from_last(tx, key, limit, now)

    def _take_alone(self, key: str, limit: Limit, now: int) -> tuple[int, int]:
        length = round(limit.per_seconds * 1000)
        if len(self._alone) >= MAX_HELD:
            self._alone.clear()
        taken = self._alone.setdefault(key, deque())
        while taken and not now - length < taken[0] <= now:
            taken.popleft()
        left = limit.count - len(taken) - 1
        if left >= 0:
            taken.append(now)
        return max(-1, left), taken[0] + length
