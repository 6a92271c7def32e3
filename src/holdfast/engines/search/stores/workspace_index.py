"""Owns what SQLite's search keeps in memory: one shelf per workspace, followed by a sequence number."""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.pool import NO_SOURCE, neighbour_key, neighbour_keys
from holdfast.engines.search.stores import segments
from holdfast.engines.search.stores.segments import Segment

FOREVER = np.iinfo(np.int64).max
SHELVES_BYTES = 1 << 30
GETS_BETWEEN_WEIGHINGS = 64
MOST_POSTINGS = 4_000_000
ROWS_AT_ONCE = 512
_COLUMNS = {
    "numbers": np.int64,
    "types": np.int32,
    "collections": np.int32,
    "learned": np.int64,
    "until": np.int64,
    "moments": np.int64,
    "authors": np.int32,
    "neighbours": np.int64,
    "traits": np.int32,
    "ends": np.int64,
    "scales": np.float32,
}
BYTES_IN_COLUMNS = sum(np.dtype(kind).itemsize for kind in _COLUMNS.values()) + 16


class IndexedEntry(NamedTuple):
    """What a shelf keeps of an entry."""

    number: int
    type: str
    learned_at: int
    valid_until: int | None = None
    occurred_at: int | None = None
    author: str = ""
    source: str = ""
    position: int = 0
    collection: str = ""
    traits: int = 0
    codes: bytes = b""
    """Its words as numbers."""
    vector: bytes | None = None
    """In half precision."""


class Pack(NamedTuple):
    """Many entries in the form that a shelf has, ready to be copied onto one."""

    entries: int
    words: int
    names: str
    """What the numbers of types, collections, authors and sources stand for, as JSON."""
    arrays: bytes
    """The columns in their order, then bits, bytes and codes."""


class Postings(NamedTuple):
    """The rows that have a word, ascending, how often each has it, and up to which row that was looked up."""

    rows: NDArray[np.int64]
    counts: NDArray[np.float32]
    looked_up: int


class Lookups(dict[int, Postings]):
    """The postings of words that were asked for, by the words' numbers."""

    rows = 0

    def remember(self, code: int, postings: Postings) -> None:
        """Keep a word's postings for the next query that has it."""
        if self.rows > MOST_POSTINGS:
            self.clear()
            self.rows = 0
        self.rows += len(postings.rows) + 50
        self[code] = postings


class WorkspaceIndex:
    """The words and vectors of one workspace.

    Rows are appended, and changed only in what no word depends on, so that a reader's arrays stay usable and a word's
    postings once looked up stay true.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.sequence = 0
        self.removed = 0
        self.lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.dropped = 0
        self.dropped_words = 0
        self.types: dict[str, int] = {}
        self.collections: dict[str, int] = {}
        self.authors: dict[str, int] = {}
        self._sources: dict[str, int] = {"": -1}
        self._rows_by_number: dict[int, int] | None = None
        self.columns = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}
        # One row for each 64 dimensions, so that counting runs along memory.
        self.bits = np.zeros(((self.dimensions + 63) // 64, 0), np.uint64)
        self.bytes = np.zeros((0, self.dimensions), np.int8)
        self.codes = np.zeros(0, np.uint32)
        self.segments: tuple[Segment, ...] = ()
        self.lookups = Lookups()
        self.arranged = np.zeros(0, np.int64)
        self.arranged_rows = np.zeros(0, np.intp)

    @property
    def size(self) -> int:
        """Bytes held, roughly."""
        row = self.dimensions + len(self.bits) * 8 + BYTES_IN_COLUMNS
        words = len(self.codes) * 4 + sum(segment.size for segment in self.segments)
        return len(self.bytes) * row + self.count * 100 + words + self.lookups.rows * 12

    @property
    def _rows(self) -> dict[int, int]:
        """The row of each entry; made only when something changes."""
        if self._rows_by_number is None:
            numbers = self.columns["numbers"][: self.count].tolist()
            self._rows_by_number = {number: row for row, number in enumerate(numbers) if number >= 0}
        return self._rows_by_number

    @property
    def wasteful(self) -> bool:
        """Whether most of it is rows of entries that are gone or were written again."""
        return self.dropped > max(1000, self.count // 2)

    def put(self, entry: IndexedEntry) -> None:
        """Add an entry, or overwrite it."""
        row = self._rows.get(entry.number)
        if row is not None and not self._same(row, entry):
            self.drop(entry.number)
            row = None
        if row is None:
            row = self._append(entry)
        self.columns["learned"][row] = entry.learned_at
        self.columns["until"][row] = FOREVER if entry.valid_until is None else entry.valid_until
        self.columns["moments"][row] = entry.learned_at if entry.occurred_at is None else entry.occurred_at
        self.columns["traits"][row] = entry.traits
        self.columns["scales"][row] = 0.0
        if entry.vector is not None:
            self._embed(np.array([row]), entry.vector)

    def fill(self, count: int, batches: Iterable[Sequence[Sequence[Any]]], packs: Iterable[Pack] = ()) -> None:
        """Put many on an empty shelf, `count` in all; each has the values of an `IndexedEntry` in its order, or more.

        Packs come first; where several tell of one entry, the last does.
        """
        self._clear()
        self._grow(count)
        codes: list[bytes] = []
        for pack in packs:
            self._unpack(pack, codes)
        for batch in batches:
            self._fill(batch, codes)
        self.codes = np.frombuffer(bytearray().join(codes), np.uint32)
        self._drop_replaced()
        self._arrange()

    def pack(self) -> Pack:
        """Everything on a shelf that was just filled."""
        arrays = [column[: self.count] for column in self.columns.values()]
        arrays += [self.bits[:, : self.count], self.bytes[: self.count], self.codes]
        names = [list(known) for known in (self.types, self.collections, self.authors, self._sources)]
        return Pack(self.count, len(self.codes), json.dumps(names), b"".join(array.tobytes() for array in arrays))

    def _unpack(self, pack: Pack, all_codes: list[bytes]) -> None:
        start, stop, at = self.count, self.count + pack.entries, 0
        for name, kind in _COLUMNS.items():
            self.columns[name][start:stop] = np.frombuffer(pack.arrays, kind, pack.entries, at)
            at += pack.entries * np.dtype(kind).itemsize
        bits = np.frombuffer(pack.arrays, np.uint64, pack.entries * len(self.bits), at)
        self.bits[:, start:stop] = bits.reshape(len(self.bits), pack.entries)
        at += bits.nbytes
        values = np.frombuffer(pack.arrays, np.int8, pack.entries * self.dimensions, at)
        self.bytes[start:stop] = values.reshape(pack.entries, self.dimensions)
        all_codes.append(pack.arrays[at + values.nbytes :])

        column = {name: values[start:stop] for name, values in self.columns.items()}
        *names, sources = json.loads(pack.names)
        for name, known, given in zip(
            ("types", "collections", "authors"), (self.types, self.collections, self.authors), names, strict=True
        ):
            column[name][:] = np.array(_numbered(known, given), np.int32)[column[name]]
        beside = column["neighbours"] >= 0
        theirs = column["neighbours"][beside] >> 32
        column["neighbours"][beside] += (np.array(_numbered(self._sources, sources), np.int64)[theirs] - theirs) << 32
        column["ends"] += self.columns["ends"][start - 1] if start else 0
        self.count = stop

    def _fill(self, batch: Sequence[Sequence[Any]], all_codes: list[bytes]) -> None:
        (
            numbers,
            types,
            learned,
            until,
            occurred,
            authors,
            sources,
            positions,
            collections,
            traits,
            codes,
            vectors,
            *_,
        ) = zip(*batch, strict=True)
        column, start, stop = self.columns, self.count, self.count + len(batch)
        column["numbers"][start:stop] = numbers
        column["types"][start:stop] = _numbered(self.types, types)
        column["collections"][start:stop] = _numbered(self.collections, collections)
        column["learned"][start:stop] = learned
        column["until"][start:stop] = [FOREVER if one is None else one for one in until]
        column["moments"][start:stop] = [
            known if one is None else one for one, known in zip(occurred, learned, strict=True)
        ]
        column["authors"][start:stop] = _numbered(self.authors, authors)
        column["traits"][start:stop] = traits
        column["neighbours"][start:stop] = neighbour_keys(
            np.array(_numbered(self._sources, sources), np.int64), np.array(positions, np.int64)
        )
        used = column["ends"][start - 1] if start else 0
        column["ends"][start:stop] = used + np.cumsum(np.fromiter(map(len, codes), np.int64, len(batch)) // 4)
        all_codes += codes
        self._embed(
            np.array([row for row, vector in enumerate(vectors, start) if vector is not None], np.intp),
            b"".join(vector for vector in vectors if vector is not None),
        )
        self.count = stop

    def _embed(self, rows: NDArray[np.intp], blob: bytes) -> None:
        """Keep the vectors of rows, small pieces at a time, which stay in the processor's cache."""
        vectors = np.frombuffer(blob, np.float16).reshape(len(rows), self.dimensions)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            piece, places = vectors[start : start + ROWS_AT_ONCE].astype(np.float32), rows[start : start + ROWS_AT_ONCE]
            self.bits[:, places] = pack(piece)
            scales = np.maximum(np.abs(piece).max(axis=1), np.float32(1e-9)) / np.float32(127)
            self.columns["scales"][places] = scales
            piece /= scales[:, None]
            self.bytes[places] = np.rint(piece, out=piece)

    def drop(self, number: int) -> None:
        """Take an entry away; its row is never matched again."""
        row = self._rows.get(number)
        if row is not None:
            self._drop_rows(np.array([row]))

    def _drop_rows(self, rows: NDArray[np.intp]) -> None:
        if self._rows_by_number is not None:
            for number in self.columns["numbers"][rows].tolist():
                del self._rows_by_number[number]
        self.columns["until"][rows] = 0
        self.columns["learned"][rows] = FOREVER
        self.columns["numbers"][rows] = -1
        self.dropped += len(rows)
        self.dropped_words += int(lengths(self.columns["ends"], rows).sum())

    def _drop_replaced(self) -> None:
        """Drop all but the last row of each entry."""
        numbers = self.columns["numbers"][: self.count]
        if not np.all(numbers[1:] > numbers[:-1]):
            last = self.count - 1 - np.unique(numbers[::-1], return_index=True)[1]
            self._drop_rows(np.setdiff1d(np.arange(self.count), last))

    def holds(self, entry: IndexedEntry) -> bool:
        """Whether the entry is here just as it is."""
        row = self._rows.get(entry.number)
        if row is None or not self._same(row, entry):
            return False
        alone = WorkspaceIndex(self.dimensions)
        alone.put(entry)
        same = all(
            alone.columns[name][0] == self.columns[name][row]
            for name in ("learned", "until", "moments", "traits", "scales")
        )
        return (
            same
            and np.array_equal(alone.bytes[0], self.bytes[row])
            and np.array_equal(alone.bits[:, 0], self.bits[:, row])
        )

    def keep_only(self, numbers: NDArray[np.int64]) -> None:
        """Drop every entry that is not among these."""
        mine = self.columns["numbers"][: self.count]
        self._drop_rows(np.flatnonzero((mine >= 0) & ~np.isin(mine, numbers)))

    def _neighbour(self, source: str, position: int) -> int:
        return neighbour_key(self._sources.setdefault(source, len(self._sources)), position) if source else NO_SOURCE

    def _same(self, row: int, entry: IndexedEntry) -> bool:
        """Whether the row may stand for the entry as it is now."""
        start = int(self.columns["ends"][row - 1]) if row else 0
        return (
            self.types.get(entry.type) == self.columns["types"][row]
            and self.collections.get(entry.collection) == self.columns["collections"][row]
            and self.authors.get(entry.author) == self.columns["authors"][row]
            and self._neighbour(entry.source, entry.position) == self.columns["neighbours"][row]
            and self.codes[start : self.columns["ends"][row]].tobytes() == entry.codes
        )

    def _append(self, entry: IndexedEntry) -> int:
        row = self.count
        rows = self._rows
        if row == len(self.bytes):
            self._grow(max(64, row * 3 // 2))
        column = self.columns
        used = int(column["ends"][row - 1]) if row else 0
        codes = np.frombuffer(entry.codes, np.uint32)
        if used + len(codes) > len(self.codes):
            grown = np.zeros(max(4096, (used + len(codes)) * 3 // 2), np.uint32)
            grown[:used] = self.codes[:used]
            self.codes = grown
        self.codes[used : used + len(codes)] = codes
        column["ends"][row] = used + len(codes)
        column["types"][row] = self.types.setdefault(entry.type, len(self.types))
        column["collections"][row] = self.collections.setdefault(entry.collection, len(self.collections))
        column["authors"][row] = self.authors.setdefault(entry.author, len(self.authors))
        column["neighbours"][row] = self._neighbour(entry.source, entry.position)
        column["numbers"][row] = entry.number
        rows[entry.number] = row
        self.count += 1
        if self.count - len(self.arranged) > max(1024, len(self.arranged) // 8):
            self._arrange()
        return row

    def order_words(self) -> None:
        """Order a stretch of the words that came since, where they are many: one a query, as the first waits enough."""
        used = int(self.columns["ends"][self.count - 1]) if self.count else 0
        done = self.segments[-1].stop if self.segments else 0
        if used - done >= segments.LEAST_WORDS:
            self.segments += (segments.first_segment(self.codes, done, used),)

    def _arrange(self) -> None:
        """Sort the neighbours; those added later are looked through one by one until the next time."""
        keys = self.columns["neighbours"][: self.count]
        self.arranged_rows = np.argsort(keys, kind="stable")
        self.arranged = keys[self.arranged_rows]

    def _grow(self, capacity: int) -> None:
        self.columns = {name: _longer(column, capacity) for name, column in self.columns.items()}
        self.bytes = _longer(self.bytes, capacity)
        bits = np.zeros((len(self.bits), capacity), np.uint64)
        bits[:, : self.bits.shape[1]] = self.bits
        self.bits = bits


class WorkspaceIndexes:
    """The workspace indexes in memory, the least recently used let go when they take too much."""

    def __init__(self, most_bytes: int = SHELVES_BYTES) -> None:
        self._most_bytes = most_bytes
        self._shelves: OrderedDict[tuple[int, int], WorkspaceIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._gets = 0

    def get(self, number: int, embedder: int, dimensions: int) -> WorkspaceIndex:
        """The index of a workspace for an embedder, empty if it is not in memory."""
        with self._lock:
            shelf = self._shelves.get((number, embedder))
            self._gets += 1
            weigh = shelf is None or self._gets % GETS_BETWEEN_WEIGHINGS == 0
            if shelf is None:
                shelf = self._shelves[number, embedder] = WorkspaceIndex(dimensions)
            self._shelves.move_to_end((number, embedder))
            while (
                weigh and len(self._shelves) > 1 and sum(one.size for one in self._shelves.values()) > self._most_bytes
            ):
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


def lengths(ends: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """How many words rows have, by where the words of each row end."""
    starts = ends[rows - 1]
    starts[rows == 0] = 0
    return ends[rows] - starts


def _numbered(known: dict[str, int], names: Sequence[str]) -> list[int]:
    """The number of each name, the next for a new one."""
    for name in dict.fromkeys(names):
        known.setdefault(name, len(known))
    return list(map(known.__getitem__, names))


def _longer(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    new = np.zeros((capacity, *column.shape[1:]), column.dtype)
    new[: len(column)] = column
    return new
