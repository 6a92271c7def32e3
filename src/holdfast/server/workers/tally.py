"""Owns how many connections each worker has open, in memory that all share: what limits are held against."""

import mmap
from zlib import crc32

ADDRESSES = 16_384
"""Addresses whose digests meet share a place: hardly ever with a few hundred, and then one limit holds for both."""
_ROW = ADDRESSES + 1


class ConnectionCounts:
    """A row of numbers for each worker, made before they are forked. Each writes its own row only."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._numbers = memoryview(mmap.mmap(-1, workers * _ROW * 4)).cast("I")

    def of(self, place: int) -> "OpenHere":
        """The row that this worker writes."""
        return OpenHere(self._numbers, place, self._workers)

    def open(self, place: int) -> int:
        """How many connections a worker has open."""
        return self._numbers[place * _ROW]

    def forget(self, place: int) -> None:
        """The worker is gone, and its connections with it."""
        self._numbers[place * _ROW : (place + 1) * _ROW] = memoryview(bytes(_ROW * 4)).cast("I")


class OpenHere:
    """One worker's row, and the sums over all of them."""

    def __init__(self, numbers: memoryview, place: int, workers: int) -> None:
        self._numbers = numbers
        self._place = place
        self._workers = workers

    def opened(self, address: str) -> None:
        """One more is open here."""
        self._numbers[self._place * _ROW] += 1
        self._numbers[self._place * _ROW + _slot(address)] += 1

    def closed(self, address: str) -> None:
        """One fewer is open here."""
        self._numbers[self._place * _ROW] -= 1
        self._numbers[self._place * _ROW + _slot(address)] -= 1

    def of_all(self) -> int:
        """How many are open in all workers."""
        return sum(self._numbers[place * _ROW] for place in range(self._workers))

    def from_address(self, address: str) -> int:
        """How many are open from an address in all workers."""
        slot = _slot(address)
        return sum(self._numbers[place * _ROW + slot] for place in range(self._workers))


def _slot(address: str) -> int:
    return 1 + crc32(address.encode()) % ADDRESSES
