"""Contradictions wait for somebody to settle them, on both stores."""

from typing import Any

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.features.memory.model import MemoryChange, NewMemory
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.storage.database import Database, Tx
from tests.features.memory.saving import save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> MemoryWorld:
    return await memory_world(database, clock)


@pytest.fixture
async def contradictions(world: MemoryWorld, database: Database) -> Contradictions:
    await save(world, "The rate limit is 45 calls a minute")
    assert (await save(world, "The rate limit is 60 calls a minute")).contradicts
    return Contradictions(database, world.audit, world.workspaces, world.search, world.clock, world.memory)


async def test_keeping_one_memory_retracts_the_other(world: MemoryWorld, contradictions: Contradictions) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    assert "60" in found.memory.content and "45" in found.other.content and found.reason
    await contradictions.settle(world.agent, world.ws, found.id, found.memory.slug)
    assert (await contradictions.list(world.agent, world.ws)).items == []
    gone = await world.memory.get(world.agent, world.ws, found.other.id)
    assert gone.status == "retracted" and found.memory.slug in gone.status_note
    assert (await world.memory.get(world.agent, world.ws, found.memory.id)).status == "current"
    with pytest.raises(Conflict):
        await contradictions.settle(world.agent, world.ws, found.id, "both")
    with pytest.raises(NotFound):
        await contradictions.settle(world.agent, world.ws, "con_none", "both")


async def test_a_memory_that_took_the_others_place_has_it_in_its_history(
    world: MemoryWorld, contradictions: Contradictions
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    with pytest.raises(Invalid):
        await contradictions.settle(world.agent, world.ws, found.id, "both", supersede=True)
    await contradictions.settle(world.agent, world.ws, found.id, found.memory.slug, supersede=True)
    assert (await contradictions.list(world.agent, world.ws)).items == []
    old = await world.memory.get(world.agent, world.ws, found.other.id)
    assert (old.status, old.superseded_by, old.valid_until) == ("superseded", found.memory.id, found.memory.true_from)
    recalled = await world.memory.recall(world.agent, world.ws, "rate limit")
    assert [each.memory.id for each in recalled] == [found.memory.id]
    with pytest.raises(Conflict):
        await contradictions.settle(world.agent, world.ws, found.id, found.memory.slug, supersede=True)


async def test_keeping_both_changes_neither_and_asks_nobody_again(
    world: MemoryWorld, contradictions: Contradictions
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    with pytest.raises(Invalid):
        await contradictions.settle(world.agent, world.ws, found.id, "some-other")
    await contradictions.settle(world.agent, world.ws, found.id, "both")
    assert (await contradictions.list(world.agent, world.ws)).items == []
    for each in (found.memory, found.other):
        assert (await world.memory.get(world.agent, world.ws, each.id)).status == "current"


async def test_a_memory_that_is_retracted_or_forgotten_settles_its_contradiction(
    world: MemoryWorld, contradictions: Contradictions
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    await world.memory.forget(world.agent, world.ws, found.other.id)
    assert (await contradictions.list(world.agent, world.ws)).items == []


async def test_an_edit_leaves_only_what_its_new_words_contradict(
    world: MemoryWorld, contradictions: Contradictions
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    weekly = (await save(world, "The release train leaves weekly")).memory
    assert weekly is not None
    await world.memory.edit(world.agent, world.ws, found.memory.id, MemoryChange(content="Herons nest in April"))
    assert (await contradictions.list(world.agent, world.ws)).items == []
    await world.memory.edit(
        world.agent, world.ws, weekly.id, MemoryChange(content="The rate limit is 90 calls a minute")
    )
    (noted,) = (await contradictions.list(world.agent, world.ws)).items
    assert (noted.memory.id, noted.other.id) == (weekly.id, found.other.id)
    await contradictions.settle(world.agent, world.ws, noted.id, "both")
    await world.memory.edit(
        world.agent, world.ws, weekly.id, MemoryChange(content="The rate limit is 91 calls a minute")
    )
    assert (await contradictions.list(world.agent, world.ws)).items == []


async def test_a_memory_that_takes_the_place_of_another_notes_what_else_it_changes(
    world: MemoryWorld, contradictions: Contradictions
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    new = NewMemory("The rate limit is 90 calls a minute")
    saved = await world.memory.supersede(world.agent, world.ws, found.memory.id, new)
    assert saved.memory is not None
    (noted,) = (await contradictions.list(world.agent, world.ws)).items
    assert (noted.memory.id, noted.other.id) == (saved.memory.id, found.other.id)


async def test_settling_that_fails_midway_retracts_nothing(
    world: MemoryWorld, contradictions: Contradictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = (await contradictions.list(world.agent, world.ws)).items
    record = world.audit.record

    def refuse(tx: Tx, principal: Principal, action: str, **more: Any) -> None:
        if action == "memory.settle":
            raise Conflict("The audit cannot be written.")
        record(tx, principal, action, **more)

    monkeypatch.setattr(world.audit, "record", refuse)
    with pytest.raises(Conflict):
        await contradictions.settle(world.agent, world.ws, found.id, found.memory.slug)
    assert (await world.memory.get(world.agent, world.ws, found.other.id)).status == "current"
    assert len((await contradictions.list(world.agent, world.ws)).items) == 1
