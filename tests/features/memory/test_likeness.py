"""Proves, with the model that ships, which statements repeat and which contradict each other."""

import pytest

from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.writing.likeness import contradiction, read, repeats
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.memories import memory_world

REPEATED = [
    ("The team meets every morning at nine", "Our team meets each morning at nine"),
    ("Use pnpm rather than npm", "Prefer pnpm over npm"),
    ("User likes dark mode", "The user prefers dark mode"),
    ("The search index is rebuilt nightly", "The search index gets rebuilt every night"),
    ("The deployment window is 22:00 UTC on Tuesdays", "Deployment window is Tuesdays at 22:00 UTC"),
]
CHANGED = [
    ("We deploy on Tuesdays", "We deploy on Thursdays"),
    ("We use postgres for billing", "We use mysql for billing"),
    ("The office is in Berlin", "The office moved to Munich"),
    ("User likes dark mode", "The user prefers light mode"),
    ("We use Redis for caching", "We no longer use Redis for caching"),
    ("Sprint length is two weeks", "Sprint length is now three weeks"),
]
UNRELATED = [
    ("We use tabs for indentation", "The API uses OAuth2"),
    ("Bob joined the team in May", "Carol joined the team in June"),
    ("The backend is written in Go", "The frontend is written in TypeScript"),
]


@pytest.mark.slow
async def test_the_shipped_model_tells_repetition_from_change_from_another_subject(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    embedder = MiniLmEmbedder()
    try:
        world = await memory_world(
            sqlite_database, clock, workspaces=len(REPEATED + CHANGED + UNRELATED), embedder=embedder
        )
        spaces = iter(world.workspace_ids)
        for old, new in REPEATED + CHANGED + UNRELATED:
            workspace_id = next(spaces)
            first = await world.memory.save(world.agent, workspace_id, NewMemory(old))
            second = await world.memory.save(world.agent, workspace_id, NewMemory(new))
            assert first.memory is not None
            assert second.outcome == ("duplicate" if (old, new) in REPEATED else "saved"), new
            candidates = [each.memory.id for each in second.contradicts]
            assert candidates == ([first.memory.id] if (old, new) in CHANGED else []), new
    finally:
        await embedder.close()


def test_a_number_or_a_name_that_differs_is_never_a_repetition() -> None:
    for old, new in (("Port 8080 is used", "Port 8081 is used"), ("Ask Alice first", "Ask Bob first")):
        assert not repeats(read(new), read(old), 0.99)
        assert contradiction(read(new), read(old), 0.99)


def test_saying_less_repeats_and_saying_more_does_not() -> None:
    long, short = "The cache TTL is 60 seconds in staging", "The cache TTL is 60 seconds"
    assert repeats(read(short), read(long), 0.95)
    assert not repeats(read(long), read(short), 0.95)
