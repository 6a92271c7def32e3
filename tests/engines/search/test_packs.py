"""Owns the proof that packs give what the rows alone give, whatever was written, changed and deleted between them."""

import random
import shutil
from pathlib import Path

import pytest

from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.stores import packs
from holdfast.engines.search.stores.sqlite import fill
from holdfast.engines.search.stores.workspace_index import WorkspaceIndex
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

WORDS = ("owl", "fox", "heron", "lamp", "red", "river", "stone", "winter")
IN_A_PACK = 8


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "ENTRIES", IN_A_PACK)


def _some(chance: random.Random, here: str) -> list[Entry]:
    """Entries of a few names, so that many are written again."""
    return [
        entry(
            here,
            f"m{number}",
            " ".join(chance.choices(WORDS, k=chance.randint(1, 6))),
            type=chance.choice(("memory", "chunk")),
            author=chance.choice(("", "Ana", "Bo")),
            source=chance.choice(("", "s1", "s2")),
            position=chance.randint(0, 9),
            collection=chance.choice(("", "repo")),
            occurred_at=chance.choice((None, NOW - 5000)),
            spoken=chance.random() < 0.3,
        )
        for number in chance.sample(range(60), chance.randint(1, 12))
    ]


class Pair:
    """The same done in two databases, of which one is packed again and again."""

    def __init__(self, path: Path, clock: MovableClock) -> None:
        self._clock = clock
        other = Path(shutil.copyfile(path, path.with_name("rows.db")))
        self.databases = SqliteDatabase(path), SqliteDatabase(other)
        self.packed, self.rows = (engine(database, clock) for database in self.databases)

    async def do(self, turn: int, here: str) -> None:
        """One step: something is written, embedded, expired, deleted or packed."""
        for database, search in zip(self.databases, (self.packed, self.rows), strict=True):
            chance = random.Random(turn)
            what = chance.random()
            if what < 0.55:
                await put(search, database, _some(chance, here), embedded=chance.random() < 0.6)
            elif what < 0.65:
                await search.tend()
            elif what < 0.75:
                id = f"m{chance.randrange(60)}"
                await database.write(lambda tx, s=search, i=id: s.expire(tx, here, "memory", i, NOW - 1))  # type: ignore[misc]
            elif what < 0.85:
                id = f"m{chance.randrange(60)}"
                await database.write(lambda tx, s=search, i=id: s.remove(tx, here, "memory", i))  # type: ignore[misc]
        if turn % 3 == 0:
            await self.packed.index()

    async def same(self, here: str) -> None:
        """Assert that both find the same, in the processes that wrote and after a start; go on with those started."""
        started = tuple(engine(database, self._clock) for database in self.databases)
        for word in WORDS:
            question = Query(here, f"{word} winter", limit=30, explain=True)
            assert await started[0].search(question) == await started[1].search(question)
            assert await self.packed.search(question) == await self.rows.search(question)
            of_kind = Query(here, word, types=frozenset({"chunk"}), collections=frozenset({"repo"}), limit=30)
            assert await started[0].search(of_kind) == await started[1].search(of_kind)
            vector = (await started[0].embed([word]))[0]
            assert await started[0].nearest(here, None, vector, 50) == await started[1].nearest(here, None, vector, 50)
        assert await started[0].check() == []
        self.packed, self.rows = started

    async def close(self) -> None:
        for database in self.databases:
            await database.close()


async def _packs(search: SearchEngine, database: SqliteDatabase) -> int:
    return len(await database.read(lambda tx: tx.all("SELECT place FROM search_pack")))


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_found_after_a_start_is_what_the_rows_alone_give(
    sqlite_path: Path, clock: MovableClock, seed: int
) -> None:
    pair = Pair(sqlite_path, clock)
    for database in pair.databases:
        here = await database.write(lambda tx: workspace(tx, "here"))
    most = 0
    for turn in range(40):
        await pair.do(1000 * seed + turn, here)
        most = max(most, await _packs(pair.packed, pair.databases[0]))
        if turn % 5 == 4:
            await pair.same(here)
    assert most >= 3
    await pair.close()


async def test_packs_of_which_much_is_outdated_are_made_anew(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    search = engine(sqlite_database, clock)
    here = await sqlite_database.write(lambda tx: workspace(tx, "here"))
    for turn in range(8):
        await put(search, sqlite_database, [entry(here, f"m{number}", f"owl {turn}") for number in range(IN_A_PACK)])
        await search.index()
        assert await _packs(search, sqlite_database) == 1
        hits = await engine(sqlite_database, clock).search(Query(here, "owl", limit=50))
        assert {hit.text for hit in hits} == {f"owl {turn}"} and len(hits) == IN_A_PACK


async def test_a_start_does_not_read_packs_of_which_much_is_outdated(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    shelf = WorkspaceIndex(64)
    search = engine(sqlite_database, clock)
    here = await sqlite_database.write(lambda tx: workspace(tx, "here"))
    for turn in range(2):
        await put(search, sqlite_database, [entry(here, f"m{number}", f"owl {turn}") for number in range(IN_A_PACK)])
        if not turn:
            await search.index()

    await sqlite_database.read(lambda tx: fill(tx, shelf, 1, (1,)))
    assert (shelf.count, shelf.dropped) == (IN_A_PACK, 0)


async def test_packs_of_another_model_are_not_read_and_go(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    search = engine(sqlite_database, clock)
    here = await sqlite_database.write(lambda tx: workspace(tx, "here"))
    await put(search, sqlite_database, [entry(here, f"m{number}", "owl") for number in range(IN_A_PACK)])
    assert await search.index() == ["pack 0 of workspace 1"]

    other = engine(sqlite_database, clock, WordEmbedder(32))
    vector = (await other.embed(["owl"]))[0]
    assert await other.nearest(here, None, vector, 9) == []
    await other.tend()
    assert len(await other.nearest(here, None, vector, 9)) == IN_A_PACK
    assert await other.index() == ["packs of workspace 1 deleted", "pack 0 of workspace 1"]
    assert len(await engine(sqlite_database, clock, WordEmbedder(32)).nearest(here, None, vector, 9)) == IN_A_PACK


async def test_a_workspace_that_ends_takes_its_packs_along(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    search = engine(sqlite_database, clock)
    here = await sqlite_database.write(lambda tx: workspace(tx, "here"))
    await put(search, sqlite_database, [entry(here, f"m{number}", "owl") for number in range(IN_A_PACK)])
    await search.index()
    await sqlite_database.write(lambda tx: tx.execute("DELETE FROM workspace WHERE id = :id", {"id": here}))
    assert await _packs(search, sqlite_database) == 0


async def test_check_finds_packs_that_are_not_as_their_rows(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    search = engine(sqlite_database, clock)
    here = await sqlite_database.write(lambda tx: workspace(tx, "here"))
    await put(search, sqlite_database, [entry(here, f"m{number}", "owl") for number in range(IN_A_PACK)])
    await search.index()
    await sqlite_database.write(
        lambda tx: tx.execute("UPDATE search_entry SET valid_until = 1 WHERE id IN ('m1', 'm2')")
    )
    assert await search.check() == ["2 packed entries that are not as their rows"]
