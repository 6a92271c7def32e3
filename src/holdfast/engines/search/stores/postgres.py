"""Owns the index in PostgreSQL: tsvector postings and halfvec vectors in the row, an HNSW index for big workspaces."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.model import Scalar
from holdfast.engines.search.pool import NO_SOURCE, Places, Pool, neighbour_key
from holdfast.engines.search.scoring import RECIPE
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
from holdfast.engines.search.text.agreement import wrong_words
from holdfast.engines.search.text.analyser import code, codes
from holdfast.storage.database import Row, Tx

EXACT_STATISTICS = 2000
STATISTICS_SECONDS = 60.0
REMEMBERED_WORDS = 100_000

_PUT_ENTRIES = """
INSERT INTO search_entry (shelf, type, id, part, change, embedder, length, learned_at, occurred_at, valid_until, author,
    source, position, collection, traits, vector, lexemes)
SELECT :shelf, x.type, x.id, x.part, nextval('search_change'), :embedder, x.length, x.learned_at, x.occurred_at,
    x.valid_until, x.author, x.source, x.position, x.collection, x.traits, x.vector::halfvec,
    array_to_tsvector(string_to_array(x.lexemes, ' '))
FROM unnest(:type::text[], :id::text[], :part::bigint[], :length::bigint[], :learned_at::bigint[],
    :occurred_at::bigint[], :valid_until::bigint[], :author::text[], :source::text[], :position::bigint[],
    :collection::text[], :traits::bigint[], :vector::text[], :lexemes::text[])
    AS x(type, id, part, length, learned_at, occurred_at, valid_until, author, source, position, collection, traits,
    vector, lexemes)
ON CONFLICT (shelf, type, id, part) DO UPDATE SET change = excluded.change, embedder = excluded.embedder,
    length = excluded.length, learned_at = excluded.learned_at, occurred_at = excluded.occurred_at,
    valid_until = excluded.valid_until, author = excluded.author, source = excluded.source,
    position = excluded.position, collection = excluded.collection, traits = excluded.traits, vector = excluded.vector,
    lexemes = excluded.lexemes
RETURNING number, type, id, part
"""
_PUT_TEXTS = """
INSERT INTO search_text (number, title, text, codes, meta)
SELECT x.number, x.title, x.text, x.codes, x.meta
FROM unnest(:number::bigint[], :title::text[], :text::text[], :codes::bytea[], :meta::text[])
    AS x(number, title, text, codes, meta)
ON CONFLICT (number) DO UPDATE SET title = excluded.title, text = excluded.text, codes = excluded.codes,
    meta = excluded.meta
"""
_FREQUENCIES = """
SELECT x.word, (SELECT COUNT(*) FROM search_entry e WHERE e.lexemes @@ x.query::tsquery) AS entries
FROM unnest(:words::text[], :queries::text[]) AS x(word, query)
"""
_VECTOR_SETTINGS = """
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('hnsw.ef_search', '200', true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true)
"""
_ON_SHELF = "(:shelf::bigint IS NULL OR e.shelf = :shelf)"
_CHECKS = {
    "entries without text": "SELECT COUNT(*) AS bad FROM search_entry e LEFT JOIN search_text t ON t.number = e.number "
    f"WHERE t.number IS NULL AND {_ON_SHELF}",
    "entries whose vector is missing": "SELECT COUNT(*) AS bad FROM search_entry e "
    f"WHERE (e.embedder <> 0) <> (e.vector IS NOT NULL) AND {_ON_SHELF}",
    "entries whose vector is not as long as its embedder's": "SELECT COUNT(*) AS bad FROM search_entry e "
    "LEFT JOIN search_embedder m ON m.number = e.embedder "
    f"WHERE e.vector IS NOT NULL AND vector_dims(e.vector) IS DISTINCT FROM m.dimensions AND {_ON_SHELF}",
}
_WORDS = f"""
SELECT e.number, e.shelf, e.author, e.length, tsvector_to_array(e.lexemes) AS lexemes, t.title, t.text, t.codes
FROM search_entry e JOIN search_text t ON t.number = e.number
WHERE e.number > :after AND {_ON_SHELF} ORDER BY e.number LIMIT :limit
"""


class PostgresStore(Store):
    """The index of the scale-out store."""

    among = "= ANY(:numbers)"

    def __init__(self) -> None:
        self._totals_known: dict[int, tuple[float, Totals]] = {}
        self._frequencies: dict[tuple[int, str], tuple[float, int]] = {}

    def numbers(self, numbers: Sequence[int]) -> object:
        return list(numbers)

    def meta_test(self, key: str, value: Scalar, name: str, params: dict[str, Any]) -> str:
        if value is None:
            return f"(m.meta::jsonb ->> '{key}') IS NULL"
        params[name] = json.dumps(value)
        # A list contains a scalar as well as a scalar equals itself.
        return f"(m.meta::jsonb -> '{key}') @> :{name}::jsonb"

    def next_change(self, tx: Tx, shelf: int) -> int:
        row = tx.one("SELECT nextval('search_change') AS change")
        return int(row["change"]) if row else 0

    def put(self, tx: Tx, shelf: int, prepared: Sequence[Prepared], vectors: Vector | None, embedder: int) -> None:
        # Two writers of the same entries lock them in the same order.
        order = sorted(range(len(prepared)), key=lambda index: _key(prepared[index]))
        items = [prepared[index] for index in order]
        entries, words = [item.entry for item in items], [item.words for item in items]
        rows = tx.all(
            _PUT_ENTRIES,
            {
                "shelf": shelf,
                "embedder": 0 if vectors is None else embedder,
                "type": [entry.type for entry in entries],
                "id": [entry.id for entry in entries],
                "part": [entry.part for entry in entries],
                "length": [len(found) for found in words],
                "learned_at": [entry.learned_at for entry in entries],
                "occurred_at": [entry.occurred_at for entry in entries],
                "valid_until": [entry.valid_until for entry in entries],
                "author": [entry.author for entry in entries],
                "source": [entry.source for entry in entries],
                "position": [entry.position for entry in entries],
                "collection": [entry.collection for entry in entries],
                "traits": [item.traits for item in items],
                "vector": [None if vectors is None else _literal(vectors[index]) for index in order],
                "lexemes": [" ".join(_lexemes(shelf, found)) for found in words],
            },
        )
        numbers = {(row["type"], row["id"], int(row["part"])): int(row["number"]) for row in rows}
        tx.execute(
            _PUT_TEXTS,
            {
                "number": [numbers[_key(item)] for item in items],
                "title": [entry.title for entry in entries],
                "text": [entry.text for entry in entries],
                "codes": [codes(found) for found in words],
                "meta": [item.meta for item in items],
            },
        )

    def view(self, tx: Tx, filter: Filter, embedders: Embedders, dimensions: int) -> View:
        return PostgresView(self, tx, filter, embedders)

    def statistics(self, tx: Tx, filter: Filter, words: Sequence[str]) -> Statistics:
        """Word frequencies of the workspace."""
        shelf, totals = filter.shelf, self._totals(tx, filter.shelf)
        entries = totals.entries
        oldest = time.monotonic() - STATISTICS_SECONDS if entries > EXACT_STATISTICS else float("inf")
        missing = [word for word in words if self._frequencies.get((shelf, word), (float("-inf"), 0))[0] <= oldest]
        if missing:
            if len(self._frequencies) > REMEMBERED_WORDS:
                self._frequencies.clear()
            rows = tx.all(_FREQUENCIES, {"words": missing, "queries": [_quoted(shelf, word) for word in missing]})
            now = time.monotonic()
            self._frequencies.update({(shelf, row["word"]): (now, int(row["entries"])) for row in rows})
        frequencies = {word: self._frequencies[shelf, word][1] for word in words}
        return Statistics(entries, totals.within(filter), totals.mean_length, frequencies)

    def _totals(self, tx: Tx, shelf: int) -> "Totals":
        """How many entries and how long; in big workspaces as of the last minute, since ranking hardly notices."""
        known = self._totals_known.get(shelf)
        if known and known[1].entries > EXACT_STATISTICS and known[0] > time.monotonic() - STATISTICS_SECONDS:
            return known[1]
        rows = tx.all(
            "SELECT type, collection, COUNT(*) AS entries, SUM(length)::bigint AS length "
            "FROM search_entry WHERE shelf = :shelf GROUP BY type, collection",
            {"shelf": shelf},
        )
        entries = {(str(row["type"]), str(row["collection"])): int(row["entries"]) for row in rows}
        totals = Totals(entries, sum(int(row["length"]) for row in rows))
        self._totals_known[shelf] = (time.monotonic(), totals)
        return totals

    def set_vectors(self, tx: Tx, pending: Sequence[Pending], vectors: Vector, embedder: int) -> int:
        return tx.execute(
            "UPDATE search_entry e SET embedder = :embedder, vector = x.vector::halfvec "
            "FROM unnest(:number::bigint[], :change::bigint[], :vector::text[]) AS x(number, change, vector) "
            "WHERE e.number = x.number AND e.change = x.change",
            {
                "embedder": embedder,
                "number": [item.number for item in pending],
                "change": [item.change for item in pending],
                "vector": [_literal(vector) for vector in vectors],
            },
        )

    def check(self, tx: Tx, shelf: int | None) -> list[str]:
        return self.findings(tx, _CHECKS, shelf) + wrong_words(tx, _WORDS, _right, shelf)


class Totals:
    """How much a workspace has, by type and collection."""

    def __init__(self, counts: Mapping[tuple[str, str], int], length: int) -> None:
        self._counts = counts
        self.entries = sum(counts.values())
        self.mean_length = length / max(self.entries, 1)

    def within(self, filter: Filter) -> int:
        """How many entries are of the filter's types and collections."""
        return sum(
            count
            for (type, collection), count in self._counts.items()
            if (filter.types is None or type in filter.types)
            and (filter.collections is None or collection in filter.collections)
        )


@dataclass(slots=True)
class Candidate:
    """An entry that may become a hit, with what ranking looks at. `cosine` is None where it has no vector yet."""

    number: int
    id: str
    length: int
    moment: int
    author: str
    source: str
    position: int
    traits: int
    codes: bytes
    cosine: float | None


class PostgresView(View):
    """A query's look at the tables. A place is an entry's number."""

    def __init__(self, store: PostgresStore, tx: Tx, filter: Filter, embedders: Embedders) -> None:
        self._store, self._tx, self._filter, self._embedders = store, tx, filter, embedders
        self._candidates: dict[int, Candidate] = {}

    def statistics(self, words: Sequence[str]) -> Statistics:
        return self._store.statistics(self._tx, self._filter, words)

    def lexical(self, weights: Mapping[str, float], mean_length: float, limit: int) -> Places:
        if not weights:
            return np.zeros(0, np.int64)
        quoted = {word: _quoted(self._filter.shelf, word) for word in weights}
        params: dict[str, Any] = {"words": " | ".join(quoted.values()), "limit": limit}
        value = []
        for index, (word, weight) in enumerate(weights.items()):
            params |= {f"word_{index}": quoted[word], f"weight_{index}": weight}
            value.append(f"CASE WHEN e.lexemes @@ :word_{index}::tsquery THEN :weight_{index}::float8 ELSE 0 END")
        conditions = " AND ".join(self._store.conditions(self._filter, params))
        # The BM25 of entries that have each word once: how often they do is not in the index.
        params |= {
            "steady": 1 + RECIPE.saturation * (1 - RECIPE.length_weight),
            "share": RECIPE.saturation * RECIPE.length_weight / max(mean_length, 1.0),
        }
        rows = self._tx.all(
            f"SELECT e.number FROM search_entry e WHERE e.lexemes @@ :words::tsquery AND {conditions} "
            f"ORDER BY ({' + '.join(value)}) / (:steady::float8 + :share::float8 * e.length) DESC, e.number "
            "LIMIT :limit",
            params,
        )
        return _numbers(rows)

    def nearest(self, vector: Vector, limit: int) -> Places:
        params: dict[str, Any] = {"vector": _literal(vector), "limit": limit}
        conditions = " AND ".join(self._store.conditions(self._filter, params))
        size = len(vector)
        self._tx.one(_VECTOR_SETTINGS)
        # The numbers stand in the text, so that the planner sees that the workspace's own HNSW index holds them all;
        # each embedder has its own.
        distance = f"(e.vector::halfvec({size})) <=> :vector::halfvec({size})"
        rows = [
            row
            for embedder in self._embedders
            for row in self._tx.all(
                f"SELECT e.number, {distance} AS distance FROM search_entry e WHERE {conditions} "
                f"AND e.shelf = {int(self._filter.shelf)} AND e.embedder = {int(embedder)} "
                f"ORDER BY {distance} LIMIT :limit",
                params,
            )
        ]
        return _numbers(sorted(rows, key=lambda row: float(row["distance"]))[:limit])

    def around(self, places: Places, before: int = 1, after: int = 1) -> Places:
        params: dict[str, Any] = {"numbers": places.tolist(), "before": before, "after": after}
        conditions = " AND ".join(self._store.conditions(self._filter, params))
        rows = self._tx.all(
            "SELECT DISTINCT e.number FROM search_entry c JOIN search_entry e "
            "ON e.shelf = c.shelf AND e.source = c.source "
            "AND e.position BETWEEN c.position - :before::bigint AND c.position + :after::bigint "
            f"WHERE c.number {self._store.among} AND c.source <> '' AND {conditions}",
            params,
        )
        return _numbers(rows)

    def pool(self, places: Places, words: Sequence[str], vector: Vector | None, authors: Collection[str]) -> Pool:
        numbers = places.tolist()
        self._read([number for number in numbers if number not in self._candidates], vector)
        found = [self._candidates[number] for number in numbers if number in self._candidates]
        sources: dict[str, int] = {}
        keys = [
            neighbour_key(sources.setdefault(one.source, len(sources)), one.position) if one.source else NO_SOURCE
            for one in found
        ]
        present = np.array([one.number for one in found], np.int64)
        return Pool(
            places=present,
            numbers=present,
            lengths=np.array([one.length for one in found], np.float64),
            counts=_counts(found, words),
            cosines=np.array([np.nan if one.cosine is None else one.cosine for one in found], np.float64),
            moments=np.array([one.moment for one in found], np.int64),
            named=np.array([one.author in authors for one in found], np.bool_),
            neighbours=np.array(keys, np.int64),
            traits=np.array([one.traits for one in found], np.int64),
        )

    def cosines(self, places: Places, vector: Vector) -> list[tuple[str, float]]:
        self._read(places.tolist(), vector)
        found = (self._candidates[number] for number in places.tolist() if number in self._candidates)
        return [(one.id, one.cosine) for one in found if one.cosine is not None]

    def _read(self, numbers: list[int], vector: Vector | None) -> None:
        if not numbers:
            return
        params: dict[str, Any] = {"numbers": numbers}
        cosine = "NULL::float8"
        if vector is not None:
            size = len(vector)
            params["vector"] = _literal(vector)
            cosine = (
                f"CASE WHEN e.embedder IN ({listed(self._embedders)}) "
                f"THEN 1 - ((e.vector::halfvec({size})) <=> :vector::halfvec({size})) END"
            )
        rows = self._tx.all(
            "SELECT e.number, e.id, e.length, COALESCE(e.occurred_at, e.learned_at) AS moment, e.author, e.source, "
            f"e.position, e.traits, t.codes, {cosine} AS cosine FROM search_entry e "
            f"JOIN search_text t ON t.number = e.number WHERE e.number {self._store.among}",
            params,
        )
        self._candidates |= {int(row["number"]): Candidate(*row.values()) for row in rows}


def _numbers(rows: Sequence[Row]) -> Places:
    return np.array([row["number"] for row in rows], np.int64)


def _counts(candidates: Sequence[Candidate], words: Sequence[str]) -> NDArray[np.float64]:
    """How often each candidate has each word."""
    counts = np.zeros((len(candidates), len(words)))
    present = np.frombuffer(b"".join(one.codes for one in candidates), np.uint32)
    owners = np.repeat(np.arange(len(candidates)), [len(one.codes) // 4 for one in candidates])
    for index, word in enumerate(words):
        counts[:, index] = np.bincount(owners[present == code(word)], minlength=len(candidates))
    return counts


def _lexemes(shelf: int, words: Sequence[str]) -> list[str]:
    return [f"{shelf}~{word}" for word in sorted(set(words))]


def _right(row: Row, words: Sequence[str]) -> bool:
    """Whether what is stored of an entry's words is these."""
    stored = (int(row["length"]), bytes(row["codes"]), set(row["lexemes"]))
    return stored == (len(words), codes(words), set(_lexemes(row["shelf"], words)))


def _key(item: Prepared) -> tuple[str, str, int]:
    return item.entry.type, item.entry.id, item.entry.part


def _literal(vector: Vector) -> str:
    """pgvector's text, in half precision so that what is stored is what was meant."""
    return "[" + ",".join(f"{value:.6g}" for value in vector.astype(np.float16).tolist()) + "]"


def _quoted(shelf: int, word: str) -> str:
    """A tsquery of one lexeme."""
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{shelf}~{escaped}'"
