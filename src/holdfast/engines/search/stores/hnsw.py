"""Owns the HNSW indexes on PostgreSQL: one per big workspace and embedder, built beside running writes."""

import re

from holdfast.engines.search.stores.base import Embedders
from holdfast.storage.database import Database, Tx

_NAME = re.compile(r"search_hnsw_(\d+)_(\d+)")
_LOCK_KEY = 0x73656172
MOST_DIMENSIONS = 4000
"""pgvector's limit for an index over half-precision vectors; beyond it every search stays exact."""


async def keep(database: Database, embedders: Embedders, dimensions: int, above: int) -> list[str]:
    """Build what is missing of the first embedder's indexes and drop those of others than these; the names of both."""
    # A concurrent build can't run inside a transaction, and `glance` begins none on PostgreSQL.
    return await database.glance(lambda tx: _keep(tx, embedders, dimensions, above))


def _keep(tx: Tx, embedders: Embedders, dimensions: int, above: int) -> list[str]:
    row = tx.one("SELECT pg_try_advisory_lock(:key) AS mine", {"key": _LOCK_KEY})
    if row is None or not row["mine"]:
        # Another replica is at it.
        return []
    try:
        return _drop_stale(tx, embedders) + _build_missing(tx, embedders[0], dimensions, above)
    finally:
        tx.one("SELECT pg_advisory_unlock(:key)", {"key": _LOCK_KEY})


def _drop_stale(tx: Tx, embedders: Embedders) -> list[str]:
    """Indexes of embedders no longer used, of workspaces that are gone, and what an interrupted build left."""
    shelves = {int(row["number"]) for row in tx.all("SELECT number FROM search_shelf")}
    dropped = []
    for name, valid in _present(tx).items():
        match = _NAME.fullmatch(name)
        if match and (not valid or int(match[2]) not in embedders or int(match[1]) not in shelves):
            tx.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            dropped.append(name)
    return dropped


def _build_missing(tx: Tx, embedder: int, dimensions: int, above: int) -> list[str]:
    if dimensions > MOST_DIMENSIONS:
        return []
    big = tx.all(
        "SELECT shelf FROM search_entry WHERE embedder = :embedder "
        "GROUP BY shelf HAVING COUNT(*) > :above ORDER BY shelf",
        {"embedder": embedder, "above": above},
    )
    present = _present(tx)
    built = []
    for row in big:
        name = f"search_hnsw_{int(row['shelf'])}_{embedder}"
        if name not in present:
            tx.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON search_entry "
                f"USING hnsw ((vector::halfvec({dimensions})) halfvec_cosine_ops) "
                f"WHERE shelf = {int(row['shelf'])} AND embedder = {embedder}"
            )
            built.append(name)
    return built


def _present(tx: Tx) -> dict[str, bool]:
    rows = tx.all(
        "SELECT c.relname AS name, i.indisvalid AS valid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
        "WHERE c.relname LIKE 'search_hnsw_%'"
    )
    return {row["name"]: bool(row["valid"]) for row in rows}
