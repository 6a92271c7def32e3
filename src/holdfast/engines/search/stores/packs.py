"""Owns SQLite's packs: copies of big workspaces' rows in the form that memory has, so that a start need not read each.

Rows are packed in the order of their changes, and every change has a higher number than those before it: what changed
since it was packed stands in a later pack or among the rows after the last one. So packs are never changed, and are
read without a look at the rows they were made of; only what was deleted has to be looked for.
"""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.stores.base import Embedders, listed
from holdfast.engines.search.stores.workspace_index import IndexedEntry, Pack, WorkspaceIndex
from holdfast.storage.database import Database, Tx

ENTRIES = 4096
"""In a pack, and rows that are read at once."""
_VERSION = 1
"""Counted up when the form of packs changes: others are made then, and the old ones deleted."""

# In the order of the index, which holds the number after the change.
_ROWS = """
SELECT e.number, e.type, e.learned_at, e.valid_until, e.occurred_at, e.author, e.source, e.position, e.collection,
    e.traits, k.codes, CASE WHEN e.embedder IN ({embedders}) THEN k.vector END AS vector, e.change
FROM search_entry e JOIN search_kept k ON k.number = e.number
WHERE e.shelf = :shelf AND (e.change, e.number) > (:change, :number) ORDER BY e.change, e.number LIMIT :limit
"""
_COUNT = "SELECT COUNT(*) AS entries FROM search_entry WHERE shelf = :shelf AND (change, number) > (:change, :number)"
_PACKED = """
SELECT COUNT(*) AS packs, COALESCE(SUM(entries), 0) AS entries, COALESCE(MAX(change), -1) AS change,
    (SELECT entry FROM search_pack WHERE shelf = :shelf AND form = :form ORDER BY place DESC LIMIT 1) AS entry
FROM search_pack WHERE shelf = :shelf AND form = :form
"""
_INSERT = """
INSERT INTO search_pack (shelf, form, place, change, entry, entries, words, names, arrays)
SELECT :shelf, :form, :place, :change, :entry, :entries, :words, :names, :arrays
WHERE EXISTS (SELECT 1 FROM search_shelf WHERE number = :shelf)
    AND (SELECT COUNT(*) FROM search_pack WHERE shelf = :shelf AND form = :form) = :place
"""


class Key(NamedTuple):
    """Where an entry stands in the order of changes."""

    change: int
    number: int


BEGINNING = Key(-1, 0)


class Packed(NamedTuple):
    """How far a workspace is packed."""

    shelf: int
    form: str
    packs: int
    entries: int
    last: Key


def form(embedders: Embedders, dimensions: int) -> str:
    """What packs of these embedders' vectors are called; nobody reads those of others."""
    return f"{_VERSION}; {dimensions}; {listed(embedders)}"


def packed(tx: Tx, shelf: int, form: str) -> Packed:
    """How far a workspace is packed in a form."""
    row = tx.one(_PACKED, {"shelf": shelf, "form": form})
    if row is None or not row["packs"]:
        return Packed(shelf, form, 0, 0, BEGINNING)
    return Packed(shelf, form, int(row["packs"]), int(row["entries"]), Key(int(row["change"]), int(row["entry"])))


def useful(tx: Tx, packed: Packed) -> bool:
    """Whether so little of the packs is outdated that a shelf filled from them is not wasteful at once."""
    live = count_after(tx, packed.shelf, BEGINNING)
    outdated = packed.entries + count_after(tx, packed.shelf, packed.last) - live
    return outdated <= max(ENTRIES // 5, live // 3)


def stored(tx: Tx, packed: Packed) -> Iterator[Pack]:
    """The packs, oldest first, one at a time in memory."""
    for place in range(packed.packs):
        row = tx.one(
            "SELECT entries, words, names, arrays FROM search_pack "
            "WHERE shelf = :shelf AND form = :form AND place = :place",
            {"shelf": packed.shelf, "form": packed.form, "place": place},
        )
        if row is None:
            raise AssertionError("packs are deleted together, and this transaction saw them")
        yield Pack(row["entries"], row["words"], row["names"], row["arrays"])


def rows_after(tx: Tx, shelf: int, embedders: Embedders, last: Key) -> Iterator[list[Any]]:
    """The values of an `IndexedEntry`, and the change, of each entry that changed later, in batches."""
    sql = _ROWS.format(embedders=listed(embedders))
    params = {"shelf": shelf, "change": last.change, "number": last.number, "limit": ENTRIES}
    while rows := tx.all(sql, params):
        yield rows
        params |= {"change": rows[-1]["change"], "number": rows[-1]["number"]}


def count_after(tx: Tx, shelf: int, last: Key) -> int:
    """How many they are."""
    row = tx.one(_COUNT, {"shelf": shelf, "change": last.change, "number": last.number})
    return int(row["entries"]) if row else 0


def numbers(tx: Tx, shelf: int) -> NDArray[np.int64]:
    """The numbers of all entries of a workspace."""
    # As one text, which takes a seventh of the time of as many rows.
    row = tx.one("SELECT group_concat(number) AS numbers FROM search_entry WHERE shelf = :shelf", {"shelf": shelf})
    return np.fromstring((row and row["numbers"]) or "", np.int64, sep=",")


async def keep(database: Database, embedders: Embedders, dimensions: int) -> AsyncIterator[str]:
    """Pack what came since in workspaces where that is much, and delete packs of no more use; tells of each."""
    name = form(embedders, dimensions)
    for stale in await database.read(partial(_stale, form=name)):
        await database.write(partial(_delete, packed=stale))
        yield f"packs of workspace {stale.shelf} deleted"
    for shelf in await database.read(partial(_waiting, form=name)):
        while row := await database.read(partial(_next, shelf=shelf, embedders=embedders, dimensions=dimensions)):
            await database.write(partial(_put, row=row))
            yield f"pack {row['place']} of workspace {shelf}"


def wrong(tx: Tx, shelf: int | None) -> list[str]:
    """How many packed entries are not as their rows are, though these did not change since."""
    bad = 0
    for one in _all(tx):
        if one.form.startswith(f"{_VERSION}; ") and shelf in (None, one.shelf):
            bad += _wrong(tx, one)
    return [f"{bad} packed entries that are not as their rows"] if bad else []


def _wrong(tx: Tx, packed: Packed) -> int:
    bad, last = 0, BEGINNING
    _, dimensions, of = packed.form.split("; ")
    embedders = tuple(int(number) for number in of.split(", "))
    for pack, key in zip(stored(tx, packed), _keys(tx, packed), strict=True):
        index = WorkspaceIndex(int(dimensions))
        index.fill(pack.entries, (), [pack])
        for batch in rows_after(tx, packed.shelf, embedders, last):
            within = [row for row in batch if (row["change"], row["number"]) <= key]
            bad += sum(not index.holds(IndexedEntry(*row[:-1])) for row in within)
            if len(within) < len(batch):
                break
        last = key
    return bad


def _keys(tx: Tx, packed: Packed) -> list[Key]:
    sql = "SELECT change, entry FROM search_pack WHERE shelf = :shelf AND form = :form ORDER BY place"
    return [Key(row["change"], row["entry"]) for row in tx.all(sql, {"shelf": packed.shelf, "form": packed.form})]


def _stale(tx: Tx, form: str) -> list[Packed]:
    """Packs in another form, and those of which much is outdated."""
    return [one for one in _all(tx) if one.form != form or not useful(tx, one)]


def _all(tx: Tx) -> list[Packed]:
    rows = tx.all("SELECT DISTINCT shelf, form FROM search_pack")
    return [packed(tx, int(row["shelf"]), str(row["form"])) for row in rows]


def _delete(tx: Tx, packed: Packed) -> None:
    sql = "DELETE FROM search_pack WHERE shelf = :shelf AND form = :form"
    tx.execute(sql, {"shelf": packed.shelf, "form": packed.form})


def _waiting(tx: Tx, form: str) -> list[int]:
    """Workspaces with enough for a pack that is in none."""
    shelves = [int(row["number"]) for row in tx.all("SELECT number FROM search_shelf ORDER BY number")]
    return [shelf for shelf in shelves if count_after(tx, shelf, packed(tx, shelf, form).last) >= ENTRIES]


def _next(tx: Tx, shelf: int, embedders: Embedders, dimensions: int) -> dict[str, Any] | None:
    """The next pack of a workspace; None where too little came since the last."""
    so_far = packed(tx, shelf, form(embedders, dimensions))
    rows = next(rows_after(tx, shelf, embedders, so_far.last), [])
    if len(rows) < ENTRIES:
        return None
    index = WorkspaceIndex(dimensions)
    index.fill(len(rows), [rows])
    place = {"shelf": shelf, "form": so_far.form, "place": so_far.packs}
    return place | {"change": rows[-1]["change"], "entry": rows[-1]["number"]} | index.pack()._asdict()


def _put(tx: Tx, row: dict[str, Any]) -> None:
    # Another process may have packed the same meanwhile, or the workspace may be gone.
    tx.execute(_INSERT, row)
