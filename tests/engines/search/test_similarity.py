"""Owns the proof that a score of 0.3 separates what is about a query from what is not, with the shipped model."""

import pytest

from holdfast.core.clock import SystemClock
from holdfast.engines.search import SearchEngine
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.similarity import measure


@pytest.mark.slow
@pytest.mark.contract("KS-4")
async def test_the_least_similarity_separates_related_from_unrelated(sqlite_database: SqliteDatabase) -> None:
    search = SearchEngine(sqlite_database, MiniLmEmbedder(), SystemClock())
    try:
        found = await measure(sqlite_database, search)
    finally:
        await search.stop()

    # 88, 97 and 100 % were measured (docs/search.md); another processor may round the model's sums a little otherwise.
    assert found.related_above >= 0.8
    assert found.unrelated_below >= 0.93
    assert found.unrelated_queries_below >= 0.85
