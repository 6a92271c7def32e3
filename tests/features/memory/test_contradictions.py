"""Contradictions wait for somebody to settle them, on both stores."""

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.storage.database import Database
from tests.features.memory.saving import save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> MemoryWorld:
    return await memory_world(database, clock)


@pytest.fixture
async def contradictions(world: MemoryWorld, database: Database) -> Contradictions:
    memory = world.memory
    await save(world, "The rate limit is 45 calls a minute")
    assert (await save(world, "The rate limit is 60 calls a minute")).contradicts
    return Contradictions(database, memory._audit, memory._workspaces, world.clock, memory)


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
