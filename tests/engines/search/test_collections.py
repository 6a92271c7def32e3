"""Owns the proof that collections narrow a search, are counted and go as one, on both stores."""

import pytest

from holdfast.engines.search import Query, SearchEngine
from holdfast.engines.search.text.analyser import codes, words
from holdfast.storage.database import Database
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.support.clock import MovableClock


@pytest.fixture
def search(database: Database, clock: MovableClock) -> SearchEngine:
    return engine(database, clock)


@pytest.fixture
async def here(database: Database) -> str:
    return await database.write(lambda tx: workspace(tx, "here"))


async def _found(search: SearchEngine, here: str, *collections: str, text: str = "river") -> set[str]:
    hits = await search.search(Query(here, text, collections=frozenset(collections), limit=100))
    return {hit.id for hit in hits}


async def test_a_query_finds_only_what_belongs_to_the_collections_it_names(
    database: Database, search: SearchEngine, here: str
) -> None:
    entries = [
        entry(here, "a1", "river crossing", collection="rep_a", source="s", position=1),
        entry(here, "b1", "river fishing", collection="rep_b", source="s", position=2),
        entry(here, "c1", "river map", collection="rep_c", type="document"),
        entry(here, "m1", "river notes"),
    ]
    await put(search, database, entries)

    assert await _found(search, here, "rep_a") == {"a1"}
    assert await _found(search, here, "rep_a", "rep_c", "rep_gone") == {"a1", "c1"}
    assert await _found(search, here, "rep_gone") == set()
    assert await _found(search, here) == set()
    assert await _found(search, here, "") == {"m1"}
    both = Query(here, "river", collections=frozenset({"rep_a", "rep_c"}), types=frozenset({"document"}))
    assert [(hit.id, hit.collection) for hit in await search.search(both)] == [("c1", "rep_c")]
    assert len(await search.search(Query(here, "river"))) == 4


async def test_an_entry_that_moves_to_another_collection_is_found_there(
    database: Database, search: SearchEngine, here: str
) -> None:
    await put(search, database, [entry(here, "a1", "river crossing", collection="rep_a")])
    assert await _found(search, here, "rep_a") == {"a1"}

    await put(search, database, [entry(here, "a1", "river crossing", collection="rep_b")])

    assert await _found(search, here, "rep_a") == set()
    assert await _found(search, here, "rep_b") == {"a1"}


async def test_a_collection_is_counted_and_goes_as_one(database: Database, search: SearchEngine, here: str) -> None:
    other = await database.write(lambda tx: workspace(tx, "other"))
    mine = [entry(here, f"a{number}", "river", collection="rep_a", part=number % 2) for number in range(30)]
    rest = [entry(here, "b", "river", collection="rep_b"), entry(other, "a", "river", collection="rep_a")]
    await put(search, database, [*mine, *rest, entry(here, "m", "river")])
    assert await database.read(lambda tx: search.count(tx, here, "rep_a")) == 30
    assert len(await _found(search, here, "rep_a")) == 30

    await database.write(lambda tx: search.remove_collection(tx, here, "rep_a"))

    assert await database.read(lambda tx: search.count(tx, here, "rep_a")) == 0
    assert await database.read(lambda tx: search.count(tx, other, "rep_a")) == 1
    assert {hit.id for hit in await search.search(Query(here, "river"))} == {"b", "m"}
    assert await search.check() == []


async def test_no_name_is_no_collection_to_remove(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "m", "river")])

    with pytest.raises(ValueError, match="no collection"):
        await database.write(lambda tx: search.remove_collection(tx, here, ""))

    assert await database.read(lambda tx: search.count(tx, here, "")) == 0
    assert len(await search.search(Query(here, "river"))) == 1


async def test_many_entities_are_removed_at_once_with_all_their_parts(
    database: Database, search: SearchEngine, here: str
) -> None:
    entries = [entry(here, f"a{number // 2}", "river", part=number % 2) for number in range(2400)]
    await put(search, database, [*entries, entry(here, "a5", "river", type="document")], embedded=False)

    await database.write(lambda tx: search.remove_many(tx, here, "memory", [f"a{number}" for number in range(1198)]))
    await database.write(lambda tx: search.remove_many(tx, here, "memory", []))

    hits = await search.search(Query(here, "river", limit=100))
    assert sorted((hit.type, hit.id, hit.part) for hit in hits) == [
        ("document", "a5", 0),
        ("memory", "a1198", 0),
        ("memory", "a1198", 1),
        ("memory", "a1199", 0),
        ("memory", "a1199", 1),
    ]
    assert await search.check() == []


async def test_entries_written_before_there_were_collections_are_found(
    tmp_path_factory: pytest.TempPathFactory, clock: MovableClock
) -> None:
    database = SqliteDatabase(tmp_path_factory.mktemp("old") / "old.db")
    try:
        await migrate(database, up_to=15)
        here = await database.write(lambda tx: workspace(tx, "here"))
        row = {"now": NOW - 1000, "length": 2, "codes": codes(words("old river")), "workspace": here}

        def fill(tx: object) -> None:
            run = tx.execute  # type: ignore[attr-defined]
            run("INSERT INTO search_shelf (number, workspace_id, sequence) VALUES (1, :workspace, 1)", row)
            run(
                "INSERT INTO search_entry (number, shelf, type, id, part, change, length, learned_at, author, source, "
                "position) VALUES (1, 1, 'memory', 'old', 0, 1, :length, :now, '', '', 0)",
                row,
            )
            run("INSERT INTO search_text (number, title, text, meta) VALUES (1, '', 'old river', '{}')")
            run("INSERT INTO search_kept (number, codes) VALUES (1, :codes)", row)

        await database.write(fill)
        await migrate(database)
        search = engine(database, clock)
        await put(search, database, [entry(here, "new", "new river", collection="rep_a")])

        assert {hit.id for hit in await search.search(Query(here, "river"))} == {"old", "new"}
        assert await _found(search, here, "rep_a") == {"new"}
        assert await search.check() == []
    finally:
        await database.close()
