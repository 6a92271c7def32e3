"""Owns where words stand among the many words of a big shelf: stretches of it, sorted enough to find a word at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST_WORDS = 1 << 20
"""Fewer are looked through as they are, which takes less than a millisecond."""
MOST_WORDS = 1 << 22
"""So many at once, so that sorting takes little memory."""
_BUCKETS = 1 << 16


class Segment(NamedTuple):
    """The words from `start` to `stop`, their places ordered by the upper half of their codes, then as they stand."""

    start: int
    stop: int
    places: NDArray[np.uint32]
    """Counted from `start`."""
    bounds: NDArray[np.uint32]
    """Where each bucket begins among the places."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.places.nbytes + self.bounds.nbytes

    def find(self, codes: NDArray[np.uint32], code: int) -> NDArray[np.int64]:
        """Where the word stands, ascending."""
        bucket = code >> 16
        near: NDArray[np.int64] = self.places[self.bounds[bucket] : self.bounds[bucket + 1]].astype(np.int64)
        near += self.start
        found: NDArray[np.int64] = near[codes[near] == np.uint32(code)]
        return found


def first_segment(codes: NDArray[np.uint32], start: int, stop: int) -> Segment:
    """A segment of the first of the words from `start` to `stop`, as many as fit."""
    stop = min(stop, start + MOST_WORDS)
    # Numbers of sixteen bits are sorted without comparing them, in time that grows with their count only.
    buckets = (codes[start:stop] >> np.uint32(16)).astype(np.uint16)
    places = np.argsort(buckets, kind="stable").astype(np.uint32)
    bounds = np.zeros(_BUCKETS + 1, np.uint32)
    np.cumsum(np.bincount(buckets, minlength=_BUCKETS), out=bounds[1:])
    return Segment(start, stop, places, bounds)
