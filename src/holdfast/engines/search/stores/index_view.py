"""Owns how a shelf in memory is searched: by words, by meaning and for neighbours, in arrays and without rows."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.pool import Places, Pool
from holdfast.engines.search.scoring import RECIPE
from holdfast.engines.search.stores.workspace_index import Postings, WorkspaceIndex, lengths, pack
from holdfast.engines.search.text.analyser import code

EXACT_ENTRIES = 2048
"""Up to here every vector is compared; above, bits first, then bytes of those whose bits are nearest."""
SHORTEST_LIST, LONGEST_LIST = 1500, 3000
MOST_NEIGHBOURS = 1000

Mask = NDArray[np.bool_]


class IndexView:
    """A shelf as it is at one moment, within a filter. A place is a row of it."""

    def __init__(
        self,
        shelf: WorkspaceIndex,
        *,
        types: frozenset[str] | None,
        at: int,
        known_by: int | None,
        allowed: NDArray[np.int64] | None,
        collections: frozenset[str] | None = None,
    ) -> None:
        with shelf.lock:
            self._count = shelf.count
            self._columns = {name: column[: shelf.count] for name, column in shelf.columns.items()}
            self._bits, self._bytes, self._codes = shelf.bits, shelf.bytes, shelf.codes
            self._segments = shelf.segments
            self._arranged, self._arranged_rows = shelf.arranged, shelf.arranged_rows
            self._dropped, self._lookups, self._authors = shelf.dropped, shelf.lookups, shelf.authors
            used = int(shelf.columns["ends"][shelf.count - 1]) if shelf.count else 0
            self.totals = (shelf.count - shelf.dropped, used - shelf.dropped_words)
            self._types = _numbers_of(shelf.types, types)
            self._collections = _numbers_of(shelf.collections, collections)
        self._at, self._known_by, self._allowed = at, known_by, allowed

    @cached_property
    def _of_kind(self) -> Mask | None:
        """The rows of the filter's types and collections; None for all."""
        column = self._columns
        mask: Mask | None = column["numbers"] >= 0 if self._dropped else None
        for name, wanted in (("types", self._types), ("collections", self._collections)):
            if wanted is not None:
                right = _any_of(column[name], wanted)
                mask = right if mask is None else mask & right
        return mask

    @cached_property
    def _mask(self) -> Mask:
        """The rows within the filter."""
        column = self._columns
        mask: Mask = column["until"] > self._at
        if self._of_kind is not None:
            mask &= self._of_kind
        if self._known_by is not None:
            mask &= column["learned"] <= self._known_by
        if self._allowed is not None:
            mask &= np.isin(column["numbers"], self._allowed)
        return mask

    def within(self) -> int:
        """How many entries are of the filter's types and collections."""
        return self._count if self._of_kind is None else int(np.count_nonzero(self._of_kind))

    def numbers(self, places: Places) -> Places:
        """The numbers of the entries in these places."""
        return self._columns["numbers"][places]

    def frequencies(self, words: Sequence[str]) -> dict[str, int]:
        """How many entries have each word, whatever the filter."""
        found = {}
        for word in words:
            rows = self._postings(word).rows
            found[word] = int((self._columns["numbers"][rows] >= 0).sum()) if self._dropped else len(rows)
        return found

    def lexical(self, weights: Mapping[str, float], mean_length: float, limit: int) -> Places:
        """The rows that hold the words, best first."""
        scores = np.zeros(self._count, np.float32)
        steady, share = RECIPE.saturation * (1 - RECIPE.length_weight), RECIPE.saturation * RECIPE.length_weight
        for word, weight in weights.items():
            rows, counts, _ = self._postings(word)
            damping = steady + share / max(mean_length, 1.0) * self._lengths(rows)
            scores[rows] += weight * (RECIPE.saturation + 1) * counts / (counts + damping)
        rows = np.flatnonzero((scores > 0) & self._mask)
        return rows[smallest(-scores[rows], limit)]

    def nearest(self, vector: NDArray[np.float32], limit: int) -> Places:
        """The rows nearest to a unit vector, nearest first."""
        rows = np.flatnonzero(self._mask & (self._columns["scales"] > 0))
        if len(rows) > EXACT_ENTRIES:
            distance = np.zeros(self._count, np.uint16)
            for line, asked in zip(self._bits, pack(vector[None, :])[:, 0], strict=True):
                distance += np.bitwise_count(line[: self._count] ^ asked)
            shortlist = max(min(max(len(rows) // 8, SHORTEST_LIST), LONGEST_LIST), 8 * limit)
            rows = rows[smallest(distance[rows], shortlist)]
        return rows[smallest(-self._cosines(rows, vector), limit)]

    def around(self, places: Places, before: int = 1, after: int = 1) -> Places:
        """The rows so many places before and after these in their sources, these included, within the filter."""
        keys = self._columns["neighbours"][places]
        keys = keys[keys >= 0]
        wanted = np.unique(np.concatenate([keys + step for step in range(-before, after + 1)]))
        first = np.searchsorted(self._arranged, wanted)
        sizes = np.searchsorted(self._arranged, wanted, side="right") - first
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        old = self._arranged_rows[np.repeat(first, sizes) + within]
        late = self._columns["neighbours"][len(self._arranged) :]
        new = np.flatnonzero(np.isin(late, wanted)) + len(self._arranged)
        rows = np.concatenate((old, new))
        found: Places = rows[self._mask[rows]][:MOST_NEIGHBOURS]
        return found

    def pool(
        self, places: Places, words: Sequence[str], vector: NDArray[np.float32] | None, authors: Collection[str]
    ) -> Pool:
        """What ranking needs of these rows."""
        column = self._columns
        counts = np.zeros((len(places), len(words)))
        for index, word in enumerate(words):
            rows, often, _ = self._postings(word)
            if len(rows):
                at = np.minimum(np.searchsorted(rows, places), len(rows) - 1)
                counts[:, index] = np.where(rows[at] == places, often[at], 0)
        cosines = np.full(len(places), np.nan)
        if vector is not None:
            known = column["scales"][places] > 0
            cosines[known] = self._cosines(places[known], vector)
        codes = [self._authors[author] for author in authors if author in self._authors]
        return Pool(
            places=places,
            numbers=column["numbers"][places],
            lengths=self._lengths(places).astype(np.float64),
            counts=counts,
            cosines=cosines,
            moments=column["moments"][places],
            named=np.isin(column["authors"][places], codes) if codes else np.zeros(len(places), np.bool_),
            neighbours=column["neighbours"][places],
            traits=column["traits"][places].astype(np.int64),
        )

    def _lengths(self, rows: Places) -> NDArray[np.int64]:
        return lengths(self._columns["ends"], rows)

    def _cosines(self, rows: Places, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        return likeness(self._bytes[rows].astype(np.float32), vector) * self._columns["scales"][rows]

    def _postings(self, word: str) -> Postings:
        """The rows that have a word: looked up once, and for rows added since."""
        number = code(word)
        known = self._lookups.get(number)
        looked_up = known.looked_up if known else 0
        if known is not None and looked_up >= self._count:
            if looked_up == self._count:
                return known
            last = int(np.searchsorted(known.rows, self._count))
            return Postings(known.rows[:last], known.counts[:last], self._count)
        ends = self._columns["ends"]
        start = int(ends[looked_up - 1]) if looked_up else 0
        stop = int(ends[-1]) if self._count else 0
        hits = self._places(number, start, stop)
        owners = np.searchsorted(ends, hits, side="right")
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        rows = owners[first].astype(np.int64)
        counts = np.diff(first, append=len(owners)).astype(np.float32)
        if known is not None:
            rows, counts = np.concatenate((known.rows, rows)), np.concatenate((known.counts, counts))
        found = Postings(rows, counts, self._count)
        self._lookups.remember(number, found)
        return found

    def _places(self, number: int, start: int, stop: int) -> NDArray[np.int64]:
        """Where a word stands among those from `start` to `stop`, ascending."""
        pieces = []
        for segment in self._segments:
            if segment.stop > start:
                found = segment.find(self._codes, number)
                pieces.append(found if segment.start >= start else found[found >= start])
                start = segment.stop
        pieces.append(np.flatnonzero(self._codes[start:stop] == np.uint32(number)) + start)
        return np.concatenate(pieces)


def _numbers_of(known: Mapping[str, int], names: frozenset[str] | None) -> list[int] | None:
    return None if names is None else [known[name] for name in names if name in known]


def _any_of(column: NDArray[np.int32], wanted: Sequence[int]) -> Mask:
    """Where the column has one of a few numbers: comparing with each takes a tenth of what `isin` does."""
    found = np.zeros(len(column), np.bool_)
    for number in wanted:
        found |= column == number
    return found


def likeness(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of each vector with one, without the threads that BLAS would wake and leave spinning."""
    found: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
    return found


def smallest(values: NDArray[np.generic], count: int) -> NDArray[np.intp]:
    """The places of the smallest values, smallest first."""
    if count < len(values):
        values_of = np.argpartition(values, count)[:count]
        return values_of[np.argsort(values[values_of], kind="stable")]
    return np.argsort(values, kind="stable")
