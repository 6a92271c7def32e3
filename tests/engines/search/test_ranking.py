"""Owns the proofs of what a score makes of nearness and of words, whatever the embedder."""

import numpy as np
import pytest

from holdfast.engines.search import Query, ranking
from holdfast.engines.search.pool import NO_SOURCE, Pool
from holdfast.engines.search.scoring import RankedQuestion
from holdfast.engines.search.stores.base import Filter, Store
from holdfast.engines.search.stores.postgres import PostgresStore
from holdfast.engines.search.stores.sqlite import SqliteStore
from holdfast.engines.search.stores.workspace_index import WorkspaceIndexes
from holdfast.engines.search.text.moments import moments
from holdfast.storage.database import Database, Tx
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.support.clock import MovableClock

SEPARATES = 0.3
NOTES = (
    "make a backup before the schema is changed",
    "the recipe of the ranking is a table of weights",
    "how long a job may run is set by its lease",
    "we serve pages from memory",
    "people sign in by a link",
    "secrets are kept encrypted",
    "the parser reads numbers and brackets",
    "searches answer within milliseconds",
)


def score(cosine: float, entries: int) -> float:
    """Of one candidate without a word of the query, among so many entries."""
    one = np.zeros(1, np.int64)
    pool = Pool(
        places=one,
        numbers=one + 1,
        lengths=np.full(1, 20.0),
        counts=np.zeros((1, 1)),
        cosines=np.full(1, cosine),
        moments=one + NOW,
        named=np.zeros(1, np.bool_),
        neighbours=np.full(1, NO_SOURCE),
        traits=np.zeros(1, np.int64),
    )
    question = RankedQuestion({"word": 3.0}, 20.0, moments("word", NOW), entries, frozenset())
    return ranking.rank(pool, question, 1)[0].score


def test_what_is_somewhat_near_is_related_among_few_entries_and_chance_among_many() -> None:
    assert score(0.35, 100) >= SEPARATES
    assert score(0.35, 10_000) < SEPARATES
    assert score(0.35, 1_000_000) < SEPARATES


def test_what_says_the_same_is_related_among_any_number_of_entries() -> None:
    assert all(score(0.55, entries) >= SEPARATES for entries in (0, 1, 100, 10_000, 1_000_000))
    assert all(score(0.9, entries) > 0.8 for entries in (0, 1, 100, 10_000, 1_000_000))


@pytest.mark.contract("KS-4")
async def test_before_there_are_vectors_queries_of_unknown_words_find_nothing_related(
    database: Database, clock: MovableClock
) -> None:
    clock.millis = NOW
    search = engine(database, clock)
    here = await database.write(lambda tx: workspace(tx, "waiting"))
    await put(search, database, [entry(here, f"e{n}", text) for n, text in enumerate(NOTES)], embedded=False)

    for elsewhere in (
        "How do I make a sandwich?",
        "recipe for chocolate cake",
        "how long to boil eggs",
        "tennis serve technique",
    ):
        assert all(hit.score < SEPARATES for hit in await search.search(Query(here, elsewhere))), elsewhere
    for about, id in (("how do people sign in", "e4"), ("encrypted secrets", "e5"), ("lease of a job", "e2")):
        best = (await search.search(Query(here, about)))[0]
        assert best.id == id and best.score >= SEPARATES, about


async def test_only_entries_that_may_be_found_count_as_many(database: Database, clock: MovableClock) -> None:
    clock.millis = NOW
    search = engine(database, clock)
    here = await database.write(lambda tx: workspace(tx, "kinds"))
    entries = [entry(here, f"m{n}", f"note {n}") for n in range(5)]
    entries += [entry(here, f"f{n}", f"line {n}", type="file", collection="one") for n in range(7)]
    entries += [entry(here, f"c{n}", f"change {n}", type="commit", collection="two") for n in range(11)]
    await put(search, database, entries)
    await database.write(lambda tx: search.remove(tx, here, "file", "f0"))

    store: Store = SqliteStore(WorkspaceIndexes()) if database.dialect == "sqlite" else PostgresStore()

    async def within(types: frozenset[str] | None, collections: frozenset[str] | None) -> int:
        def look(tx: Tx) -> int:
            shelf = store.shelf(tx, here)
            assert shelf is not None
            view = store.view(tx, Filter(shelf, NOW, types, collections=collections), (1,), 64)
            return view.statistics([]).within

        return await database.read(look)

    assert await within(None, None) == 22
    assert await within(frozenset({"memory"}), None) == 5
    assert await within(frozenset({"file", "commit"}), frozenset({"one"})) == 6
    assert await within(None, frozenset({"one", "two"})) == 17
    assert await within(frozenset({"memory"}), frozenset({"one"})) == 0
