"""Proves that the words of long artifacts are read before the transaction that keeps them: SQLite has one writer."""

import pytest

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.interchange import interchange_world
from tests.support.features.library import library
from tests.support.stores.held_words import HeldWords

LONG = "\n".join(f"line {number} of the harbour's {number * 7919} ledgers" for number in range(4_000))


@pytest.fixture
def database(sqlite_database: SqliteDatabase) -> Database:
    return sqlite_database


async def test_a_long_artifact_and_its_next_version_hold_up_nobody(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await library(database, clock)
    held = HeldWords(database, monkeypatch)

    made = await here.artifacts.create(here.principal, here.workspace_id, NewArtifact("a", "A", "text/plain", LONG))
    await here.artifacts.update(here.principal, here.workspace_id, ArtifactReference(made.id), f"{LONG}\nquayside")

    assert held.free > 2 * len(LONG)
    assert held.longest < 1_000
    assert {hit.id for hit in await here.found("quayside", "artifact")} == {made.id}
    assert await here.search.check() == []


async def test_under_a_new_title_the_words_are_those_of_that_title(database: Database, clock: MovableClock) -> None:
    here = await library(database, clock)
    made = await here.artifacts.create(here.principal, here.workspace_id, NewArtifact("a", "A", "text/plain", "one"))
    reference = ArtifactReference(made.id)

    await here.artifacts.update(here.principal, here.workspace_id, reference, "two", title="Breakwater")
    await here.artifacts.update(here.principal, here.workspace_id, reference, "three")

    assert [hit.id for hit in await here.found("breakwater", "artifact")] == [made.id]
    assert await here.search.check() == []


async def test_an_import_of_long_artifacts_and_notes_holds_the_store_for_little_at_a_time(
    database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await interchange_world(database, clock, workspaces=2)
    first, second = world.base.workspace_ids
    await world.artifacts.create(world.person, first, NewArtifact("a", "A", "text/plain", LONG))
    exported = await world.export(first)
    notes = {f"notes/{number}.md": f"Note {number}\n\n{LONG[: 15_000 + number]}".encode() for number in range(25)}
    held = HeldWords(database, monkeypatch)

    await world.bring(second, exported)
    carried = held.longest
    await world.bring(second, notes)

    assert carried < 1_000
    assert 100_000 < held.longest < 400_000
