"""The index and what it stands for stay one: after a start, in every process, when a workspace ends."""

import pytest

from holdfast.engines.search import Hit, Query, SearchEngine
from holdfast.engines.search.stores import packs
from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.engines.search.corpus import engine, entry, put, workspace
from tests.support.clock import MovableClock


@pytest.fixture
def search(database: Database, clock: MovableClock) -> SearchEngine:
    return engine(database, clock)


@pytest.fixture
async def here(database: Database) -> str:
    return await database.write(lambda tx: workspace(tx, "here"))


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


async def test_a_second_process_sees_every_change(
    open_database: OpenDatabase, database: Database, search: SearchEngine, here: str, clock: MovableClock
) -> None:
    other_database = open_database()
    other = engine(other_database, clock)
    vector = (await search.embed(["owl"]))[0]
    try:
        await put(search, database, [entry(here, "m1", "owl"), entry(here, "m2", "owl nest")])
        assert [id for id, _ in await other.nearest(here, None, vector, 5)] == ["m1", "m2"]

        await put(search, database, [entry(here, "m3", "owl owl fox"), entry(here, "m2", "quite different")])
        await database.write(lambda tx: search.remove(tx, here, "memory", "m1"))

        assert [id for id, _ in await other.nearest(here, None, vector, 1)] == ["m3"]
        assert ids(await other.search(Query(here, "owl")))[0] == "m3"
        assert "m1" not in ids(await other.search(Query(here, "owl")))
    finally:
        await other_database.close()


async def test_after_a_start_everything_is_found_however_many_pages_it_takes_to_read(
    database: Database, search: SearchEngine, here: str, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "ENTRIES", 3)
    first = [entry(here, f"a{number}", f"owl number {number}") for number in range(10)]
    await put(search, database, first)
    await put(search, database, [entry(here, f"b{number}", "owl unembedded") for number in range(4)], embedded=False)
    await put(search, database, [entry(here, "a4", "heron instead")])
    wanted = {one.id for one in first if one.id != "a4"} | {f"b{number}" for number in range(4)}

    started = engine(database, clock)
    hits = await started.search(Query(here, "owl", limit=50))
    assert {hit.id for hit in hits if "owl" in hit.text} == wanted
    assert len(await started.nearest(here, None, (await started.embed(["owl"]))[0], 50)) == 10

    await put(search, database, [entry(here, f"c{number}", "owl later") for number in range(7)])
    hits = await started.search(Query(here, "owl", limit=50))
    assert {hit.id for hit in hits if "owl" in hit.text} == wanted | {f"c{number}" for number in range(7)}


async def test_a_workspace_that_was_emptied_can_be_searched_after_a_start(
    database: Database, search: SearchEngine, here: str, clock: MovableClock
) -> None:
    await put(search, database, [entry(here, "m1", "owl")])
    await database.write(lambda tx: search.remove(tx, here, "memory", "m1"))

    started = engine(database, clock)
    assert await started.search(Query(here, "owl")) == []
    await put(search, database, [entry(here, "m2", "owl again")])
    assert ids(await started.search(Query(here, "owl"))) == ["m2"]


async def test_a_workspace_that_ends_leaves_nothing_in_the_index(
    database: Database, search: SearchEngine, here: str
) -> None:
    other = await database.write(lambda tx: workspace(tx, "other"))
    await put(search, database, [entry(here, "m1", "shared words"), entry(other, "m2", "shared words")])
    await search.search(Query(here, "shared words"))

    await database.write(lambda tx: tx.execute("DELETE FROM workspace WHERE id = :id", {"id": here}))

    assert await search.search(Query(here, "shared words")) == []
    assert ids(await search.search(Query(other, "shared words"))) == ["m2"]
    assert await search.check() == []
    left = await database.read(lambda tx: tx.all("SELECT number FROM search_text"))
    assert len(left) == 1


async def test_check_finds_a_row_whose_text_is_gone(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "m1", "some words"), entry(here, "m2", "more words")])
    await database.write(lambda tx: tx.execute("DELETE FROM search_text WHERE title = '' AND text = 'some words'"))

    assert await search.check() == ["1 entries without text"]
    assert await search.check(here) == ["1 entries without text"]
    assert await search.check("ws_elsewhere") == []


async def test_check_finds_words_that_are_not_those_of_the_text(
    database: Database, search: SearchEngine, here: str
) -> None:
    await put(search, database, [entry(here, "m1", "some words"), entry(here, "m2", "more words", author="Ana")])
    assert await search.check() == []

    await database.write(lambda tx: tx.execute("UPDATE search_text SET text = 'other' WHERE text = 'some words'"))

    assert await search.check() == ["1 entries whose words are not those of their text"]
    assert await search.check("ws_elsewhere") == []


async def test_check_finds_vectors_of_the_wrong_length(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "m1", "some words")])

    await database.write(lambda tx: tx.execute("UPDATE search_embedder SET dimensions = 3"))

    assert await search.check() == ["1 entries whose vector is not as long as its embedder's"]
