"""Owns how many connections, or streams of events, each worker has open: numbers that all share, for limits."""

import mmap
from zlib import crc32

HOLDERS = 16_384
"""Addresses or keys whose digests meet share a place: hardly ever with a few hundred, and then one limit is both's."""
_ROW = HOLDERS + 1


class OpenCounts:
    """A row of numbers for each worker, made before they are forked. Each writes its own row only."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._numbers = memoryview(mmap.mmap(-1, workers * _ROW * 4)).cast("I")

    def of(self, place: int) -> "OpenHere":
        """The row that this worker writes."""
        return OpenHere(self._numbers, place, self._workers)

    def open(self, place: int) -> int:
        """How many a worker has open."""
        return self._numbers[place * _ROW]

    def forget(self, place: int) -> None:
        """The worker is gone, and what it had open with it."""
        self._numbers[place * _ROW : (place + 1) * _ROW] = memoryview(bytes(_ROW * 4)).cast("I")


class OpenHere:
    """One worker's row, and the sums over all of them."""

    def __init__(self, numbers: memoryview, place: int, workers: int) -> None:
        self._numbers = numbers
        self._place = place
        self._workers = workers

    def opened(self, holder: str) -> None:
        """One more is open here."""
        self._numbers[self._place * _ROW] += 1
        self._numbers[self._place * _ROW + _slot(holder)] += 1

    def closed(self, holder: str) -> None:
        """One fewer is open here."""
        self._numbers[self._place * _ROW] -= 1
        self._numbers[self._place * _ROW + _slot(holder)] -= 1

    def of_all(self) -> int:
        """How many are open in all workers."""
        return sum(self._numbers[place * _ROW] for place in range(self._workers))

    def held_by(self, holder: str) -> int:
        """How many one address or key has open in all workers."""
        slot = _slot(holder)
        return sum(self._numbers[place * _ROW + slot] for place in range(self._workers))


def _slot(holder: str) -> int:
    return 1 + crc32(holder.encode()) % HOLDERS
