"""Owns the columns that ranking looks at: what a query's candidates are, side by side in arrays."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

NO_SOURCE = -1
_MIDDLE = 1 << 31


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of a query, each in one place of every array."""

    places: Places
    numbers: Places
    lengths: NDArray[np.float64]
    counts: NDArray[np.float64]
    """How often each has each word of the query."""
    cosines: NDArray[np.float64]
    """Not a number where there is no vector yet."""
    moments: NDArray[np.int64]
    """When it happened, or else when it was learned."""
    named: NDArray[np.bool_]
    """Whether the query names its author."""
    neighbours: NDArray[np.int64]
    """One number for a source and a position; adjacent positions have adjacent numbers."""
    traits: NDArray[np.int64]
    """What is known of words that were said in a conversation, as bits; zero for everything else."""

    def part(self, places: NDArray[np.intp]) -> "Pool":
        """Some of the candidates."""
        return Pool(**{one.name: getattr(self, one.name)[places] for one in fields(self)})


def neighbour_key(source: int, position: int) -> int:
    """The number of a position in a source."""
    return (source << 32) + min(max(position + _MIDDLE, 1), 2 * _MIDDLE - 2)


def neighbour_keys(sources: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for many; a source below zero is none."""
    keys = (sources << 32) + np.clip(positions + _MIDDLE, 1, 2 * _MIDDLE - 2)
    return np.where(sources < 0, NO_SOURCE, keys)


def places_of(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where among `keys` each wanted one is, -1 for nowhere."""
    order = np.argsort(keys, kind="stable")
    arranged = keys[order]
    found = np.searchsorted(arranged, wanted, side="right") - 1
    right = (found >= 0) & (arranged[found] == wanted) & (wanted > 0)
    return np.where(right, order[found], -1)
