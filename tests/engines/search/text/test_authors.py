"""Owns the proof of whom a query names."""

import pytest

from holdfast.engines.search.stores.sqlite import SqliteStore
from holdfast.engines.search.stores.workspace_index import WorkspaceIndexes
from holdfast.engines.search.text.authors import Authors
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import workspace

CROWD = [f"Person{number} Other" for number in range(30)]


def _named(tx: Tx, authors: Authors, shelf: int, text: str) -> set[str]:
    named = authors.named(tx, shelf, text)
    return set(authors.named_anew(tx, shelf, text) if named is None else named)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what has Ana read", {"Ana Ruiz"}),
        ("did Ana or Mark read it", {"Ana Ruiz", "Mark Pilgrim"}),
        ("what did mark pilgrim change", {"Mark Pilgrim"}),
        ("mark messages as read", set()),
        ("Mark messages as read", set()),
        ("Two steps. Mark messages as read", set()),
        ("why does the test fail", set()),
        ("github token", set()),
        ("nobody at all", set()),
    ],
)
async def test_among_many_a_name_must_be_written_like_one(
    sqlite_database: SqliteDatabase, text: str, expected: set[str]
) -> None:
    def work(tx: Tx) -> set[str]:
        store = SqliteStore(WorkspaceIndexes())
        shelf = store.open_shelf(tx, workspace(tx, "here"))
        store.add_authors(tx, shelf, [*CROWD, "Ana Ruiz", "Mark Pilgrim", "test", "github-actions[bot]"])
        return _named(tx, Authors(store), shelf, text)

    assert await sqlite_database.write(work) == expected


async def test_among_few_a_single_name_is_known_in_small_letters_too(sqlite_database: SqliteDatabase) -> None:
    def work(tx: Tx) -> list[set[str]]:
        store = SqliteStore(WorkspaceIndexes())
        authors, shelf = Authors(store), store.open_shelf(tx, workspace(tx, "here"))
        store.add_authors(tx, shelf, ["Caroline", "Ana Ruiz"])
        before = _named(tx, authors, shelf, "do caroline and melanie and ana hike")
        store.add_authors(tx, shelf, ["Melanie"])
        return [before, _named(tx, authors, shelf, "do caroline and melanie and ana hike")]

    assert await sqlite_database.write(work) == [{"Caroline"}, {"Caroline", "Melanie"}]
