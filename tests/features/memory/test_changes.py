"""Memories change: superseded, edited, retracted, forgotten; what was known before stays findable as of then."""

import asyncio

import pytest

from holdfast.core.errors import Conflict, NotFound
from holdfast.features.memory.model import MemoryChange, NewMemory
from holdfast.storage.database import Database
from tests.features.memory.saving import count, save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world

DAY = 86_400_000


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> MemoryWorld:
    return await memory_world(database, clock)


async def test_a_superseded_memory_leaves_the_present_and_is_found_as_of_its_time(world: MemoryWorld) -> None:
    start = world.clock.now()
    old = await save(world, "The office is in Berlin", occurred_at=start - 400 * DAY)
    assert old.memory is not None
    new = await save(world, "The office moved to Munich", occurred_at=start - 100 * DAY, supersedes=old.memory.slug)
    assert new.memory is not None
    assert new.contradicts == []
    ended = await world.memory.get(world.agent, world.ws, old.memory.id)
    assert (ended.status, ended.superseded_by, ended.valid_until) == ("superseded", new.memory.id, start - 100 * DAY)

    async def recalled(as_of: int | None) -> list[str]:
        by_meaning = await world.memory.recall(world.agent, world.ws, "where is the office", as_of=as_of)
        by_time = await world.memory.recall(world.agent, world.ws, None, as_of=as_of)
        assert {each.memory.id for each in by_meaning} == {each.memory.id for each in by_time}
        return [each.memory.content for each in by_meaning]

    assert await recalled(None) == ["The office moved to Munich"]
    assert await recalled(start - 200 * DAY) == ["The office is in Berlin"]
    assert await recalled(start - 500 * DAY) == []
    assert await recalled(start) == ["The office moved to Munich"]


async def test_a_superseded_memory_is_not_superseded_or_edited_again(world: MemoryWorld) -> None:
    old = await save(world, "The lead is Alice")
    assert old.memory is not None
    await world.memory.supersede(world.agent, world.ws, old.memory.id, NewMemory("The lead is Bob"))
    with pytest.raises(Conflict):
        await world.memory.supersede(world.agent, world.ws, old.memory.id, NewMemory("The lead is Carol"))
    with pytest.raises(Conflict):
        await world.memory.edit(world.agent, world.ws, old.memory.id, MemoryChange(content="The lead is Dan"))
    with pytest.raises(NotFound):
        await world.memory.supersede(world.agent, world.ws, "no-such", NewMemory("The lead is Erin"))
    again = await save(world, "The lead is Alice")
    assert again.outcome == "saved"


async def test_an_edit_keeps_the_slug_and_the_former_words(world: MemoryWorld) -> None:
    saved = await save(world, "The rate limit is 45 calls a minute")
    assert saved.memory is not None
    before = world.clock.now()
    world.clock.advance(days=1)
    edited = await world.memory.edit(
        world.person,
        world.ws,
        saved.memory.slug,
        MemoryChange(content="The rate limit is 60 calls a minute", tags=("limits",)),
    )
    assert (edited.slug, edited.revision, edited.tags) == (saved.memory.slug, 2, ("limits",))
    assert edited.title == "The rate limit is 60 calls a minute"
    history = await world.memory.history(world.person, world.ws, edited.id)
    assert [(each.revision, each.content, each.editor) for each in history] == [
        (1, "The rate limit is 45 calls a minute", "usr_ada")
    ]
    now = await world.memory.recall(world.agent, world.ws, "rate limit")
    then = await world.memory.recall(world.agent, world.ws, "rate limit", as_of=before)
    assert now[0].memory.content == "The rate limit is 60 calls a minute"
    assert then[0].memory.content == "The rate limit is 45 calls a minute"
    assert await world.memory.edit(world.person, world.ws, edited.id, MemoryChange(title=edited.title)) == edited


async def test_an_edit_cannot_make_two_memories_say_the_same(world: MemoryWorld) -> None:
    one = await save(world, "The database is MySQL")
    await save(world, "The queue is RabbitMQ")
    assert one.memory is not None
    with pytest.raises(Conflict, match="the-queue-is-rabbitmq"):
        await world.memory.edit(world.agent, world.ws, one.memory.id, MemoryChange(content="the queue is RabbitMQ."))


async def test_of_edits_at_once_every_one_is_kept_in_the_history(world: MemoryWorld) -> None:
    saved = await save(world, "The counter is at 0")
    assert saved.memory is not None
    changes = [MemoryChange(content=f"The counter is at {number}") for number in range(1, 11)]
    await asyncio.gather(*(world.memory.edit(world.agent, world.ws, saved.memory.id, change) for change in changes))
    history = await world.memory.history(world.agent, world.ws, saved.memory.id)
    now = await world.memory.get(world.agent, world.ws, saved.memory.id)
    assert now.revision == 11
    assert {each.content for each in history} | {now.content} == {f"The counter is at {n}" for n in range(11)}


async def test_an_edit_of_a_revision_that_is_not_the_newest_is_a_conflict(world: MemoryWorld) -> None:
    saved = await save(world, "The counter is at 0")
    assert saved.memory is not None
    edit = world.memory.edit
    await edit(world.agent, world.ws, saved.memory.id, MemoryChange(content="The counter is at 1"), expected_revision=1)
    with pytest.raises(Conflict):
        await edit(
            world.agent, world.ws, saved.memory.id, MemoryChange(content="The counter is at 2"), expected_revision=1
        )


async def test_a_retracted_memory_leaves_the_present_and_may_be_said_again(world: MemoryWorld) -> None:
    saved = await save(world, "The launch is on 5 May")
    assert saved.memory is not None
    told = world.clock.now()
    world.clock.advance(days=1)
    retracted = await world.memory.retract(world.person, world.ws, saved.memory.slug, "postponed")
    assert (retracted.status, retracted.status_note) == ("retracted", "postponed")
    assert await world.memory.retract(world.person, world.ws, saved.memory.slug) == retracted
    assert await world.memory.recall(world.agent, world.ws, "launch") == []
    assert [each.memory.id for each in await world.memory.recall(world.agent, world.ws, "launch", as_of=told)] == [
        saved.memory.id
    ]
    again = await save(world, "The launch is on 5 May")
    assert again.outcome == "saved"
    assert again.memory is not None
    assert again.memory.slug == "the-launch-is-on-5-may-2"


async def test_a_forgotten_memory_is_gone_with_its_history_and_its_index_entry(world: MemoryWorld) -> None:
    saved = await save(world, "Remember my birthday on 3 March")
    assert saved.memory is not None
    await world.memory.edit(
        world.agent, world.ws, saved.memory.id, MemoryChange(content="Remember my birthday on 4 March")
    )
    await world.memory.forget(world.person, world.ws, saved.memory.slug)
    assert [await count(world, table) for table in ("memory", "memory_revision", "search_entry")] == [0, 0, 0]
    with pytest.raises(NotFound):
        await world.memory.forget(world.person, world.ws, saved.memory.slug)
