"""Owns the proof that vectors in memory give what comparing every vector would."""

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.engines.search import shelf as module
from holdfast.engines.search.embedder import unit
from holdfast.engines.search.shelf import Shelf, Shelves


def _vectors(count: int, dimensions: int = 64) -> NDArray[np.float32]:
    random = np.random.default_rng(11)
    middle = random.standard_normal((40, dimensions))
    found = middle[random.integers(0, 40, count)] + 0.7 * random.standard_normal((count, dimensions))
    return unit(found.astype(np.float32))


def _exact(vectors: NDArray[np.float32], row: int, limit: int) -> set[int]:
    return {int(place) for place in np.argsort(-(vectors @ vectors[row]))[:limit]}


@pytest.mark.parametrize("exact_entries", [10_000, 500], ids=["every vector", "bits first"])
def test_the_nearest_are_found(monkeypatch: pytest.MonkeyPatch, exact_entries: int) -> None:
    monkeypatch.setattr(module, "EXACT_ENTRIES", exact_entries)
    vectors = _vectors(5000)
    shelf = Shelf(64)
    shelf.fill([(number, "memory", 0, None) for number in range(5000)], vectors)

    shares = []
    for row in range(0, 1000, 50):
        found = shelf.nearest(vectors[row], 20, types=None, at=1, known_by=None, allowed=None)
        shares.append(len(_exact(vectors, row, 20) & set(found)) / 20)

    assert min(shares) >= 0.7
    assert sum(shares) / len(shares) >= 0.9


def test_one_by_one_and_at_once_give_the_same() -> None:
    vectors = _vectors(300)
    at_once, one_by_one = Shelf(64), Shelf(64)
    at_once.fill([(number, f"t{number % 3}", number, None) for number in range(300)], vectors)
    for number in range(300):
        one_by_one.put(number, f"t{number % 3}", number, None, vectors[number])

    for row in (0, 17, 299):
        found = [
            shelf.nearest(vectors[row], 15, types=frozenset({"t0", "t1"}), at=1, known_by=250, allowed=None)
            for shelf in (at_once, one_by_one)
        ]
        assert found[0] == found[1]
        assert all(number % 3 != 2 and number <= 250 for number in found[0])


def test_dropped_entries_are_not_found_and_may_come_back() -> None:
    vectors = _vectors(50)
    shelf = Shelf(64)
    shelf.fill([(number, "memory", 0, None) for number in range(50)], vectors)

    shelf.keep_only(number for number in range(50) if number != 7)
    assert 7 not in shelf.nearest(vectors[7], 50, types=None, at=1, known_by=None, allowed=None)

    shelf.put(7, "memory", 0, None, vectors[7])
    assert shelf.nearest(vectors[7], 1, types=None, at=1, known_by=None, allowed=None) == [7]


def test_the_least_recently_used_shelf_is_let_go() -> None:
    shelves = Shelves(most_bytes=60_000)
    for number in range(5):
        shelves.get(number, 1, 64).fill([(row, "memory", 0, None) for row in range(100)], _vectors(100))

    last = shelves.get(4, 1, 64)
    assert last.nearest(_vectors(1)[0], 1, types=None, at=1, known_by=None, allowed=None) != []
    assert shelves.get(0, 1, 64).nearest(_vectors(1)[0], 1, types=None, at=1, known_by=None, allowed=None) == []
