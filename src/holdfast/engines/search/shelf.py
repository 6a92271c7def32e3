"""Owns the vectors that SQLite's search keeps in memory: one shelf per workspace, followed by a sequence number."""

import threading
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FOREVER = np.iinfo(np.int64).max
EXACT_ENTRIES = 2048
"""Up to here every vector is compared; above, bits first, then bytes of those whose bits are nearest."""
SHORTEST_LIST, LONGEST_LIST = 1500, 3000
SHELVES_BYTES = 1 << 30


class Shelf:
    """The vectors of one workspace. Rows are only appended or overwritten, so a reader's views stay usable."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.sequence = 0
        self.removed = 0
        self.lock = threading.Lock()
        self._types: dict[str, int] = {}
        self._rows: dict[int, int] = {}
        self._count = 0
        self._numbers = np.zeros(0, np.int64)
        self._type = np.zeros(0, np.int32)
        self._learned = np.zeros(0, np.int64)
        self._until = np.zeros(0, np.int64)
        # One row for each 64 dimensions, so that counting runs along memory.
        self._bits = np.zeros(((dimensions + 63) // 64, 0), np.uint64)
        self._bytes = np.zeros((0, dimensions), np.int8)
        self._scales = np.zeros(0, np.float32)

    @property
    def size(self) -> int:
        """Bytes held, roughly."""
        return len(self._numbers) * (self.dimensions + self._bits.shape[0] * 8 + 32) + len(self._rows) * 100

    def put(
        self, number: int, type: str, learned_at: int, valid_until: int | None, vector: NDArray[np.float32]
    ) -> None:
        """Add an entry, or overwrite it."""
        row = self._rows.get(number)
        if row is None:
            if self._count == len(self._numbers):
                self._grow()
            row = self._rows[number] = self._count
            self._count += 1
        self._type[row] = self._types.setdefault(type, len(self._types))
        self._learned[row] = learned_at
        self._until[row] = FOREVER if valid_until is None else valid_until
        self._bits[:, row] = pack(vector[None, :])[:, 0]
        scale = max(float(np.abs(vector).max()), 1e-9) / 127
        self._scales[row] = scale
        self._bytes[row] = np.round(vector / scale)
        self._numbers[row] = number

    def fill(self, entries: list[tuple[int, str, int, int | None]], vectors: NDArray[np.float32]) -> None:
        """Put many at once on an empty shelf."""
        count = len(entries)
        self._numbers = np.array([entry[0] for entry in entries], np.int64)
        self._type = np.array([self._types.setdefault(entry[1], len(self._types)) for entry in entries], np.int32)
        self._learned = np.array([entry[2] for entry in entries], np.int64)
        self._until = np.array([FOREVER if entry[3] is None else entry[3] for entry in entries], np.int64)
        self._bits = pack(vectors)
        self._scales = (np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-9) / 127).astype(np.float32)
        self._bytes = np.round(vectors / self._scales[:, None]).astype(np.int8)
        self._rows = {entry[0]: row for row, entry in enumerate(entries)}
        self._count = count

    def drop(self, number: int) -> None:
        """Take an entry away; its row is never matched again."""
        row = self._rows.pop(number, None)
        if row is not None:
            self._until[row] = 0
            self._learned[row] = FOREVER
            self._numbers[row] = -1

    def keep_only(self, numbers: Iterable[int]) -> None:
        """Drop every entry that is not among these."""
        for number in self._rows.keys() - set(numbers):
            self.drop(number)

    def nearest(
        self,
        vector: NDArray[np.float32],
        limit: int,
        *,
        types: frozenset[str] | None,
        at: int,
        known_by: int | None,
        allowed: NDArray[np.int64] | None,
    ) -> list[int]:
        """The numbers of the entries nearest to a unit vector, within the filter."""
        with self.lock:
            count = self._count
            numbers, type_of, learned, until = self._numbers, self._type, self._learned, self._until
            bits, bytes_, scales = self._bits, self._bytes, self._scales
            codes = None if types is None else [self._types[name] for name in types if name in self._types]
        mask = (until[:count] > at) & (numbers[:count] >= 0)
        if known_by is not None:
            mask &= learned[:count] <= known_by
        if codes is not None:
            mask &= np.isin(type_of[:count], codes)
        if allowed is not None:
            mask &= np.isin(numbers[:count], allowed)
        rows = np.flatnonzero(mask)
        if len(rows) > EXACT_ENTRIES:
            distance = np.zeros(count, np.uint16)
            for line, asked in zip(bits, pack(vector[None, :])[:, 0], strict=True):
                distance += np.bitwise_count(line[:count] ^ asked)
            distance = distance[rows]
            shortlist = max(min(max(len(rows) // 8, SHORTEST_LIST), LONGEST_LIST), 8 * limit)
            rows = rows[_smallest(distance, shortlist)]
        alike = likeness(bytes_[rows].astype(np.float32), vector) * scales[rows]
        return [int(number) for number in numbers[rows[_smallest(-alike, limit)]]]

    def _grow(self) -> None:
        capacity = max(64, len(self._numbers) * 3 // 2)
        for name in ("_numbers", "_type", "_learned", "_until", "_bytes", "_scales"):
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        bits = np.zeros((len(self._bits), capacity), np.uint64)
        bits[:, : self._bits.shape[1]] = self._bits
        self._bits = bits


class Shelves:
    """The shelves in memory, the least recently used let go when they take too much."""

    def __init__(self, most_bytes: int = SHELVES_BYTES) -> None:
        self._most_bytes = most_bytes
        self._shelves: OrderedDict[tuple[int, int], Shelf] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, number: int, embedder: int, dimensions: int) -> Shelf:
        """The shelf of a workspace for an embedder, empty if it is not in memory."""
        with self._lock:
            shelf = self._shelves.get((number, embedder))
            if shelf is None:
                shelf = self._shelves[number, embedder] = Shelf(dimensions)
            self._shelves.move_to_end((number, embedder))
            while len(self._shelves) > 1 and sum(one.size for one in self._shelves.values()) > self._most_bytes:
                self._shelves.popitem(last=False)
            return shelf

    def forget(self, number: int, embedder: int) -> None:
        """Let one go; it is read again when needed."""
        with self._lock:
            self._shelves.pop((number, embedder), None)


def pack(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The signs of each vector's components as bits, one column for each vector."""
    packed = np.packbits(vectors > 0, axis=1)
    width = (vectors.shape[1] + 63) // 64 * 8
    padded = np.zeros((len(vectors), width), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def likeness(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of each vector with one, without the threads that BLAS would wake and leave spinning."""
    found: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
    return found


def _smallest(values: NDArray[np.generic], count: int) -> NDArray[np.intp]:
    """The places of the smallest values, smallest first."""
    if count < len(values):
        values_of = np.argpartition(values, count)[:count]
        return values_of[np.argsort(values[values_of], kind="stable")]
    return np.argsort(values, kind="stable")
