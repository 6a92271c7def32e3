"""Owns the proof of big workspaces on PostgreSQL: an HNSW index of their own, dropped when it is of no more use."""

import numpy as np
import pytest

from holdfast.engines.search import SearchEngine
from holdfast.storage.postgresql import PostgresDatabase
from tests.engines.search.corpus import entry, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

COUNT = 1500


@pytest.mark.slow
async def test_a_big_workspace_gets_an_index_that_finds_the_nearest(
    postgres_database: PostgresDatabase, clock: MovableClock
) -> None:
    search = SearchEngine(postgres_database, WordEmbedder(32), clock, index_above=1000)
    random = np.random.default_rng(3)
    vectors = random.standard_normal((COUNT, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    big = await postgres_database.write(lambda tx: workspace(tx, "big"))
    small = await postgres_database.write(lambda tx: workspace(tx, "small"))
    entries = [entry(big, f"m{number}", "text", type=f"t{number % 2}") for number in range(COUNT)]
    await postgres_database.write(lambda tx: search.put(tx, entries, vectors))
    await postgres_database.write(lambda tx: search.put(tx, [entry(small, "s", "text")], vectors[:1]))

    async def share(types: frozenset[str] | None) -> float:
        total = 0
        rows = [row for row in range(COUNT) if types is None or f"t{row % 2}" in types]
        for query in range(0, 200, 10):
            best = sorted(rows, key=lambda row: -float(vectors[row] @ vectors[query]))[:10]
            found = await search.nearest(big, types, vectors[query], 10)
            total += len({f"m{row}" for row in best} & {id for id, _ in found})
        return total / 200

    assert await share(None) >= 0.99
    built = await search.index()
    assert len(built) == 1
    await postgres_database.glance(lambda tx: tx.execute("ANALYZE search_entry"))

    assert await share(None) >= 0.9
    assert await share(frozenset({"t1"})) >= 0.9
    assert [id for id, _ in await search.nearest(small, None, vectors[0], 5)] == ["s"]
    assert await search.index() == []

    other = SearchEngine(postgres_database, WordEmbedder(16), clock, index_above=1000)
    await other.tend()
    changed = await other.index()
    assert built[0] in changed and len(changed) == 2
