"""Owns the proof that both stores answer alike: the same best ten for a fixed corpus, scores within a tolerance."""

import numpy as np

from holdfast.engines.search import Entry, Query
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import NOW, engine, put, workspace
from tests.support.clock import MovableClock

SCORE_TOLERANCE = 0.02
DAY = 86_400_000
_TEXT = (
    "deploy release branch database index vector memory agent invoice client meeting design review latency cache "
    "token budget schema migration rollback incident customer contract parser header socket timeout retry backup"
)
WORDS = _TEXT.split()


def corpus(workspace_id: str) -> list[Entry]:
    """Three hundred entries of random words, with authors, sources and dates; the same at each call."""
    random = np.random.default_rng(7)
    return [
        Entry(
            workspace_id,
            type=str(random.choice(["memory", "document"])),
            id=f"e{number}",
            title=f"{WORDS[number % len(WORDS)]} notes" if number % 3 == 0 else "",
            text=" ".join(random.choice(WORDS, size=int(random.integers(4, 30)))),
            learned_at=NOW - int(random.integers(0, 300)) * DAY,
            occurred_at=NOW - int(random.integers(0, 900)) * DAY if number % 2 else None,
            author=str(random.choice(["", "Ana", "Bo Chen"])),
            source=f"s{number // 10}" if number % 4 else "",
            position=number % 10,
        )
        for number in range(300)
    ]


async def test_both_stores_give_the_same_best_ten(
    sqlite_database: SqliteDatabase, postgres_database: PostgresDatabase, clock: MovableClock
) -> None:
    clock.millis = NOW
    engines = []
    for database in (sqlite_database, postgres_database):
        search = engine(database, clock)
        here = await database.write(lambda tx: workspace(tx, "same"))
        await put(search, database, corpus(here))
        engines.append(search)

    for text in (
        "deploy from the release branch",
        "What did Ana say about the invoice?",
        "database migration rollback incident",
        "latest customer contract",
        "timeout",
        "design review in 2025",
        "nothing of this occurs here except vectors",
    ):
        for types in (None, frozenset({"memory"})):
            left, right = [await search.search(Query(here, text, types=types, limit=10)) for search in engines]
            scores = {hit.id: hit.score for hit in right}
            # Two entries whose scores differ by less than rounding may change places, also across the tenth.
            last = left[-1].score
            assert all(hit.id in scores or hit.score - last <= SCORE_TOLERANCE for hit in left), text
            shared = [hit for hit in left if hit.id in scores]
            assert len(shared) >= 8, text
            assert all(abs(hit.score - scores[hit.id]) <= SCORE_TOLERANCE for hit in shared), text
