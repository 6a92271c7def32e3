"""Owns the proof that vectors in memory give what comparing every vector would."""

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.engines.search.embedders.base import unit
from holdfast.engines.search.stores import index_view as module
from holdfast.engines.search.stores import segments
from holdfast.engines.search.stores.index_view import IndexView
from holdfast.engines.search.stores.workspace_index import IndexedEntry, WorkspaceIndex, WorkspaceIndexes
from holdfast.engines.search.text import analyser


def _vectors(count: int, dimensions: int = 64) -> NDArray[np.float32]:
    random = np.random.default_rng(11)
    middle = random.standard_normal((40, dimensions))
    found = middle[random.integers(0, 40, count)] + 0.7 * random.standard_normal((count, dimensions))
    return unit(found.astype(np.float32))


def _exact(vectors: NDArray[np.float32], row: int, limit: int) -> set[int]:
    return {int(place) for place in np.argsort(-(vectors @ vectors[row]))[:limit]}


def _fill(shelf: WorkspaceIndex, entries: list[IndexedEntry], vectors: NDArray[np.float32]) -> None:
    shelf.fill(len(entries), [[_with(*pair) for pair in zip(entries, vectors, strict=True)]])


def _with(entry: IndexedEntry, vector: NDArray[np.float32]) -> IndexedEntry:
    return entry._replace(vector=vector.astype(np.float16).tobytes())


def _nearest(
    shelf: WorkspaceIndex,
    vector: NDArray[np.float32],
    limit: int,
    types: frozenset[str] | None = None,
    known_by: int | None = None,
) -> list[int]:
    view = IndexView(shelf, types=types, at=1, known_by=known_by, allowed=None)
    return [int(number) for number in view.numbers(view.nearest(vector, limit))]


@pytest.mark.parametrize("exact_entries", [10_000, 500], ids=["every vector", "bits first"])
def test_the_nearest_are_found(monkeypatch: pytest.MonkeyPatch, exact_entries: int) -> None:
    monkeypatch.setattr(module, "EXACT_ENTRIES", exact_entries)
    vectors = _vectors(5000)
    shelf = WorkspaceIndex(64)
    _fill(shelf, [IndexedEntry(number, "memory", 0) for number in range(5000)], vectors)

    shares = []
    for row in range(0, 1000, 50):
        found = _nearest(shelf, vectors[row], 20)
        shares.append(len(_exact(vectors, row, 20) & set(found)) / 20)

    assert min(shares) >= 0.7
    assert sum(shares) / len(shares) >= 0.9


def test_one_by_one_and_at_once_give_the_same() -> None:
    vectors = _vectors(300)
    at_once, one_by_one = WorkspaceIndex(64), WorkspaceIndex(64)
    entries = [IndexedEntry(number, f"t{number % 3}", number) for number in range(300)]
    _fill(at_once, entries, vectors)
    for number in range(300):
        one_by_one.put(_with(entries[number], vectors[number]))

    for row in (0, 17, 299):
        found = [
            _nearest(shelf, vectors[row], 15, types=frozenset({"t0", "t1"}), known_by=250)
            for shelf in (at_once, one_by_one)
        ]
        assert found[0] == found[1]
        assert all(number % 3 != 2 and number <= 250 for number in found[0])


def test_dropped_entries_are_not_found_and_may_come_back() -> None:
    vectors = _vectors(50)
    shelf = WorkspaceIndex(64)
    _fill(shelf, [IndexedEntry(number, "memory", 0) for number in range(50)], vectors)

    shelf.keep_only(np.array([number for number in range(50) if number != 7]))
    assert 7 not in _nearest(shelf, vectors[7], 50)

    shelf.put(_with(IndexedEntry(7, "memory", 0), vectors[7]))
    assert _nearest(shelf, vectors[7], 1) == [7]


def test_the_least_recently_used_shelf_is_let_go() -> None:
    shelves = WorkspaceIndexes(most_bytes=60_000)
    for number in range(5):
        _fill(shelves.get(number, 1, 64), [IndexedEntry(row, "memory", 0) for row in range(100)], _vectors(100))

    last = shelves.get(4, 1, 64)
    assert _nearest(last, _vectors(1)[0], 1) != []
    assert _nearest(shelves.get(0, 1, 64), _vectors(1)[0], 1) == []


def _words(*words: str) -> bytes:
    return analyser.codes(words)


def _holding(shelf: WorkspaceIndex, word: str) -> tuple[list[int], int]:
    """The numbers of the entries that have a word, and how many the shelf says have it."""
    view = IndexView(shelf, types=None, at=1, known_by=None, allowed=None)
    found = view.numbers(view.lexical({word: 1.0}, 2.0, 100))
    return sorted(int(number) for number in found), view.frequencies([word])[word]


def test_words_are_found_as_entries_come_change_and_go() -> None:
    shelf = WorkspaceIndex(64)
    vectors = _vectors(4)
    _fill(shelf, [IndexedEntry(1, "memory", 0, codes=_words("lamp", "red")), IndexedEntry(2, "memory", 0)], vectors[:2])
    assert _holding(shelf, "lamp") == ([1], 1)

    shelf.put(IndexedEntry(3, "memory", 0, codes=_words("lamp", "lamp")))
    assert _holding(shelf, "lamp") == ([1, 3], 2)

    shelf.put(_with(IndexedEntry(1, "memory", 0, codes=_words("chair")), vectors[2]))
    assert _holding(shelf, "lamp") == ([3], 1)
    assert _holding(shelf, "chair") == ([1], 1)

    shelf.drop(3)
    assert _holding(shelf, "lamp") == ([], 0)


def test_neighbours_are_those_of_the_same_source_at_adjacent_positions() -> None:
    shelf = WorkspaceIndex(64)
    entries = [IndexedEntry(number, "memory", 0, source=f"s{number % 2}", position=number // 2) for number in range(20)]
    _fill(shelf, entries[:10], _vectors(10))
    for entry in entries[10:]:
        shelf.put(entry)
    shelf.put(IndexedEntry(100, "memory", 0))

    view = IndexView(shelf, types=None, at=1, known_by=None, allowed=None)
    assert sorted(view.numbers(view.around(np.array([9])))) == [7, 9, 11]
    assert sorted(view.numbers(view.around(np.array([0, 19])))) == [0, 2, 17, 19]
    assert list(view.around(np.array([20]))) == []


def test_a_shelf_filled_in_batches_is_the_same_as_at_once_and_can_be_written_to() -> None:
    vectors = _vectors(90)
    entries = [
        _with(
            IndexedEntry(number, "memory", 0, source="s", position=number, codes=_words("lamp", f"w{number}")),
            vectors[number],
        )
        for number in range(90)
    ]
    at_once, in_batches = WorkspaceIndex(64), WorkspaceIndex(64)
    at_once.fill(90, [entries])
    in_batches.fill(90, [entries[:40], entries[40:41], entries[41:]])

    for shelf in (at_once, in_batches):
        shelf.put(IndexedEntry(91, "memory", 0, codes=_words("lamp")))
        shelf.drop(3)
        assert _holding(shelf, "lamp") == ([number for number in (*range(90), 91) if number != 3], 90)
        assert _holding(shelf, "w41") == ([41], 1)
        view = IndexView(shelf, types=None, at=1, known_by=None, allowed=None)
        assert view.totals == (90, 2 * 89 + 1)
        assert sorted(view.numbers(view.around(np.array([40])))) == [39, 40, 41]
    assert _nearest(at_once, vectors[41], 20) == _nearest(in_batches, vectors[41], 20)


def test_every_word_of_a_big_shelf_is_found_as_entries_come_change_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LEAST_WORDS", 100)
    monkeypatch.setattr(segments, "MOST_WORDS", 250)
    random = np.random.default_rng(5)
    vocabulary = [f"word{number}" for number in range(40)]
    present = {number: list(random.choice(vocabulary, random.integers(0, 9))) for number in range(300)}
    shelf = WorkspaceIndex(64)
    shelf.fill(300, [[IndexedEntry(number, "memory", 0, codes=_words(*words)) for number, words in present.items()]])
    for _ in range(4):
        shelf.order_words()
    filled = shelf.segments
    assert len(filled) > 2

    for turn in range(4):
        shelf.order_words()
        for word in (*vocabulary[turn % 2 :: 2], "missing"):
            expected = [number for number, words in present.items() if word in words]
            assert _holding(shelf, word) == (sorted(expected), len(expected)), word
        changed = {
            number: list(random.choice(vocabulary, 5)) for number in (turn, *range(300 + 30 * turn, 330 + 30 * turn))
        }
        for number, words in changed.items():
            shelf.put(IndexedEntry(number, "memory", 0, codes=_words(*words)))
        shelf.drop(50 + turn)
        present |= changed
        del present[50 + turn]

    assert len(shelf.segments) > len(filled)
