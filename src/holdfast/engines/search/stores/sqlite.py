"""Owns the index in SQLite: words as numbers and float16 vectors in rows, searched on shelves in memory."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from holdfast.engines.search.freed_memory import give_back
from holdfast.engines.search.model import Entry, Scalar
from holdfast.engines.search.pool import Places, Pool
from holdfast.engines.search.stores import packs
from holdfast.engines.search.stores.base import (
    Embedders,
    Filter,
    Pending,
    Prepared,
    Statistics,
    Store,
    Vector,
    View,
    listed,
)
from holdfast.engines.search.stores.index_view import IndexView, likeness
from holdfast.engines.search.stores.workspace_index import IndexedEntry, WorkspaceIndex, WorkspaceIndexes
from holdfast.engines.search.text import analyser
from holdfast.engines.search.text.agreement import wrong_words
from holdfast.storage.database import Row, Tx

MOST_NUMBER = 2**63 - 1

_KNOWN = """
SELECT e.number, j.key AS place FROM json_each(:keys) j CROSS JOIN search_entry e ON e.shelf = :shelf
    AND e.type = j.value ->> 0 AND e.id = j.value ->> 1 AND e.part = j.value ->> 2
"""
_PUT_ENTRY = """
INSERT INTO search_entry (number, shelf, type, id, part, change, embedder, length, learned_at, occurred_at, valid_until,
    author, source, position, collection, traits)
VALUES (:number, :shelf, :type, :id, :part, :change, :embedder, :length, :learned_at, :occurred_at, :valid_until,
    :author, :source, :position, :collection, :traits)
ON CONFLICT (number) DO UPDATE SET change = excluded.change, embedder = excluded.embedder,
    length = excluded.length, learned_at = excluded.learned_at, occurred_at = excluded.occurred_at,
    valid_until = excluded.valid_until, author = excluded.author, source = excluded.source,
    position = excluded.position, collection = excluded.collection, traits = excluded.traits
"""
_PUT_TEXT = """
INSERT INTO search_text (number, title, text, meta) VALUES (:number, :title, :text, :meta)
ON CONFLICT (number) DO UPDATE SET title = excluded.title, text = excluded.text, meta = excluded.meta
"""
_PUT_KEPT = """
INSERT INTO search_kept (number, codes, vector) VALUES (:number, :codes, :vector)
ON CONFLICT (number) DO UPDATE SET codes = excluded.codes, vector = excluded.vector
"""
_ON_SHELF = "(:shelf IS NULL OR e.shelf = :shelf)"
_CHECKS = {
    "entries without text": "SELECT COUNT(*) AS bad FROM search_entry e LEFT JOIN search_text t ON t.number = e.number "
    f"WHERE t.number IS NULL AND {_ON_SHELF}",
    "texts without an entry": "SELECT COUNT(*) AS bad FROM search_text WHERE :shelf IS NULL AND number NOT IN "
    "(SELECT number FROM search_entry)",
    "entries without words": "SELECT COUNT(*) AS bad FROM search_entry e LEFT JOIN search_kept k "
    f"ON k.number = e.number WHERE k.number IS NULL AND {_ON_SHELF}",
    "words without an entry": "SELECT COUNT(*) AS bad FROM search_kept WHERE :shelf IS NULL AND number NOT IN "
    "(SELECT number FROM search_entry)",
    "entries whose vector is missing": "SELECT COUNT(*) AS bad FROM search_entry e JOIN search_kept k "
    f"ON k.number = e.number WHERE (e.embedder <> 0) <> (k.vector IS NOT NULL) AND {_ON_SHELF}",
    "entries whose vector is not as long as its embedder's": "SELECT COUNT(*) AS bad FROM search_entry e "
    "JOIN search_kept k ON k.number = e.number LEFT JOIN search_embedder m ON m.number = e.embedder "
    f"WHERE k.vector IS NOT NULL AND length(k.vector) IS NOT 2 * m.dimensions AND {_ON_SHELF}",
    "entries that no refresh would read": "SELECT COUNT(*) AS bad FROM search_entry e JOIN search_shelf s "
    f"ON s.number = e.shelf WHERE e.change > s.sequence AND {_ON_SHELF}",
}
_WORDS = f"""
SELECT e.number, e.author, e.length, t.title, t.text, k.codes FROM search_entry e
JOIN search_text t ON t.number = e.number JOIN search_kept k ON k.number = e.number
WHERE e.number > :after AND {_ON_SHELF} ORDER BY e.number LIMIT :limit
"""


class SqliteStore(Store):
    """The index of the embedded store."""

    among = "IN (SELECT value FROM json_each(:numbers))"

    def __init__(self, shelves: WorkspaceIndexes) -> None:
        self._shelves = shelves

    def codes(self, searched: str) -> bytes | None:
        return analyser.coded(searched)

    def numbers(self, numbers: Sequence[int]) -> object:
        return json.dumps(list(numbers))

    def meta_test(self, key: str, value: Scalar, name: str, params: dict[str, Any]) -> str:
        path = f"'$.\"{key}\"'"
        if value is None:
            return f"json_extract(m.meta, {path}) IS NULL"
        params[name] = int(value) if isinstance(value, bool) else value
        # A scalar yields one row, a list one per element.
        return f"EXISTS (SELECT 1 FROM json_each(m.meta, {path}) j WHERE j.value = :{name})"

    def next_change(self, tx: Tx, shelf: int) -> int:
        row = tx.one(
            "UPDATE search_shelf SET sequence = sequence + 1 WHERE number = :shelf RETURNING sequence", {"shelf": shelf}
        )
        return int(row["sequence"]) if row else 0

    def put(self, tx: Tx, shelf: int, prepared: Sequence[Prepared], vectors: Vector | None, embedder: int) -> None:
        change = self.next_change(tx, shelf)
        numbers = _numbered(tx, shelf, prepared)
        codes = [item.codes for item in prepared]
        made_by = 0 if vectors is None else embedder
        tx.many(
            _PUT_ENTRY,
            [
                {"number": number, "shelf": shelf, "change": change, "embedder": made_by, "length": len(words) // 4}
                | _entry_row(item.entry)
                | {"traits": item.traits}
                for number, item, words in zip(numbers, prepared, codes, strict=True)
            ],
        )
        tx.many(_PUT_TEXT, [_text_row(number, item) for number, item in zip(numbers, prepared, strict=True)])
        blobs = [None] * len(prepared) if vectors is None else _blobs(vectors)
        tx.many(
            _PUT_KEPT,
            [
                {"number": number, "codes": words, "vector": blob}
                for number, words, blob in zip(numbers, codes, blobs, strict=True)
            ],
        )

    def view(self, tx: Tx, filter: Filter, embedders: Embedders, dimensions: int) -> View:
        return SqliteView(self, tx, filter, embedders, self._refreshed(tx, filter.shelf, embedders, dimensions))

    def set_vectors(self, tx: Tx, pending: Sequence[Pending], vectors: Vector, embedder: int) -> int:
        changes: dict[int, int] = {}
        done = 0
        for item, blob in zip(pending, _blobs(vectors), strict=True):
            row = tx.one(
                "SELECT shelf FROM search_entry WHERE number = :number AND change = :change",
                {"number": item.number, "change": item.change},
            )
            if row is None:
                continue
            shelf = int(row["shelf"])
            change = changes[shelf] if shelf in changes else changes.setdefault(shelf, self.next_change(tx, shelf))
            tx.execute(
                "UPDATE search_entry SET embedder = :embedder, change = :change WHERE number = :number",
                {"embedder": embedder, "change": change, "number": item.number},
            )
            tx.execute(
                "UPDATE search_kept SET vector = :vector WHERE number = :number",
                {"vector": blob, "number": item.number},
            )
            done += 1
        return done

    def check(self, tx: Tx, shelf: int | None) -> list[str]:
        return self.findings(tx, _CHECKS, shelf) + wrong_words(tx, _WORDS, _right, shelf) + packs.wrong(tx, shelf)

    def _refreshed(self, tx: Tx, number: int, embedders: Embedders, dimensions: int) -> WorkspaceIndex:
        """The shelf in memory, brought to this transaction's state."""
        row = tx.one("SELECT sequence, removed FROM search_shelf WHERE number = :shelf", {"shelf": number})
        sequence, removed = (int(row["sequence"]), int(row["removed"])) if row else (0, 0)
        shelf = self._shelves.get(number, embedders[0], dimensions)
        with shelf.lock:
            if shelf.sequence >= sequence:
                shelf.order_words()
                # A newer snapshot filled it; what is not in ours is left out when its row is read.
                return shelf
            if shelf.sequence == 0 or shelf.wasteful:
                fill(tx, shelf, number, embedders)
            else:
                _follow(tx, shelf, number, embedders)
                if shelf.removed != removed:
                    shelf.keep_only(packs.numbers(tx, number))
            shelf.sequence, shelf.removed = sequence, removed
        return shelf


class SqliteView(View):
    """A query's look at a shelf; rows are read only where the filter or the exact cosine needs them."""

    def __init__(self, store: SqliteStore, tx: Tx, filter: Filter, embedders: Embedders, shelf: WorkspaceIndex) -> None:
        self._store, self._tx, self._filter, self._embedders = store, tx, filter, embedders
        self._shelf = IndexView(
            shelf,
            types=filter.types,
            collections=filter.collections,
            at=filter.at,
            known_by=filter.known_by,
            allowed=self._allowed(),
        )

    def _allowed(self) -> Places | None:
        """The numbers within a filter that the shelf cannot judge; None where it can."""
        if not self._filter.looks_inside:
            return None
        params: dict[str, Any] = {}
        conditions = " AND ".join(self._store.conditions(self._filter, params))
        rows = self._tx.all(f"SELECT e.number FROM search_entry e WHERE {conditions}", params)
        return np.array([row["number"] for row in rows], np.int64)

    def statistics(self, words: Sequence[str]) -> Statistics:
        entries, length = self._shelf.totals
        return Statistics(entries, self._shelf.within(), length / max(entries, 1), self._shelf.frequencies(words))

    def lexical(self, weights: Mapping[str, float], mean_length: float, limit: int) -> Places:
        return self._shelf.lexical(weights, mean_length, limit)

    def nearest(self, vector: Vector, limit: int) -> Places:
        return self._shelf.nearest(vector, limit)

    def around(self, places: Places, before: int = 1, after: int = 1) -> Places:
        return self._shelf.around(places, before, after)

    def pool(self, places: Places, words: Sequence[str], vector: Vector | None, authors: Collection[str]) -> Pool:
        return self._shelf.pool(places, words, vector, authors)

    def cosines(self, places: Places, vector: Vector) -> list[tuple[str, float]]:
        rows = self._tx.all(
            "SELECT e.id, k.vector FROM search_entry e JOIN search_kept k ON k.number = e.number "
            f"WHERE e.number {self._store.among} AND e.embedder IN ({listed(self._embedders)})",
            {"numbers": self._store.numbers(self._shelf.numbers(places).tolist())},
        )
        matrix = np.frombuffer(b"".join(row["vector"] for row in rows), np.float16).astype(np.float32)
        alike = likeness(matrix.reshape(len(rows), len(vector)), vector)
        return [(str(row["id"]), cosine) for row, cosine in zip(rows, alike.tolist(), strict=True)]


def fill(tx: Tx, shelf: WorkspaceIndex, number: int, embedders: Embedders) -> None:
    packed = packs.packed(tx, number, packs.form(embedders, shelf.dimensions))
    if not packs.useful(tx, packed):
        packed = packed._replace(packs=0, entries=0, last=packs.BEGINNING)
    count = packed.entries + packs.count_after(tx, number, packed.last)
    shelf.fill(count, packs.rows_after(tx, number, embedders, packed.last), packs.stored(tx, packed))
    if shelf.count - shelf.dropped != packs.count_after(tx, number, packs.BEGINNING):
        shelf.keep_only(packs.numbers(tx, number))
    if shelf.count > packs.ENTRIES:
        # Reading takes several times the memory of what is kept.
        give_back()


def _follow(tx: Tx, shelf: WorkspaceIndex, number: int, embedders: Embedders) -> None:
    for batch in packs.rows_after(tx, number, embedders, packs.Key(shelf.sequence, MOST_NUMBER)):
        for row in batch:
            shelf.put(IndexedEntry(*row[:-1]))


def _numbered(tx: Tx, shelf: int, prepared: Sequence[Prepared]) -> list[int]:
    """The number of each entry: the one it has, or the next that was never given; only the one writer gives them."""
    keys = json.dumps([[item.entry.type, item.entry.id, item.entry.part] for item in prepared])
    known = {int(row["place"]): int(row["number"]) for row in tx.all(_KNOWN, {"keys": keys, "shelf": shelf})}
    row = tx.one("SELECT seq FROM sqlite_sequence WHERE name = 'search_entry'")
    following = count(int(row["seq"]) + 1 if row else 1)
    return [known[place] if place in known else next(following) for place in range(len(prepared))]


def _entry_row(entry: Entry) -> dict[str, Any]:
    return {
        "type": entry.type,
        "id": entry.id,
        "part": entry.part,
        "learned_at": entry.learned_at,
        "occurred_at": entry.occurred_at,
        "valid_until": entry.valid_until,
        "author": entry.author,
        "source": entry.source,
        "position": entry.position,
        "collection": entry.collection,
    }


def _text_row(number: int, item: Prepared) -> dict[str, Any]:
    return {"number": number, "title": item.entry.title, "text": item.entry.text, "meta": item.meta}


def _blobs(vectors: Vector) -> list[bytes]:
    """Each vector as it is stored."""
    blob, size = vectors.astype(np.float16).tobytes(), vectors.shape[1] * 2
    return [blob[start : start + size] for start in range(0, len(blob), size)]


def _right(row: Row, words: Sequence[str]) -> bool:
    """Whether what is stored of an entry's words is these."""
    return (int(row["length"]), row["codes"]) == (len(words), analyser.codes(words))
