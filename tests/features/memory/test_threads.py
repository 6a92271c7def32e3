"""Owns the proofs of which conversation a memory is part of, whoever names one and whoever does not."""

from typing import Any

import pytest

from holdfast.features.memory.model import Memory, MemoryChange, NewMemory
from holdfast.storage.database import Database
from tests.features.memory.saving import save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world

MINUTE = 60_000


@pytest.fixture
async def world(database: Database) -> MemoryWorld:
    return await memory_world(database, MovableClock())


async def kept(world: MemoryWorld, content: str, **fields: Any) -> Memory:
    saved = await save(world, content, **fields)
    assert saved.memory is not None and saved.outcome == "saved"
    return saved.memory


async def test_what_one_caller_saves_of_close_moments_is_one_conversation(world: MemoryWorld) -> None:
    first = await kept(world, "Ann: I bought a red bicycle!", occurred_at=0)
    second = await kept(world, "Bob: Did you ride it to work?", occurred_at=20 * MINUTE)
    third = await kept(world, "Ann: We painted the fence white.", occurred_at=45 * MINUTE)
    later = await kept(world, "Bob: My sister visits us tomorrow.", occurred_at=200 * MINUTE)
    assert first.thread and first.thread == second.thread == third.thread != later.thread
    assert [one.position for one in (first, second, third, later)] == [0, 1, 2, 0]


async def test_two_conversations_saved_by_turns_stay_apart(world: MemoryWorld) -> None:
    pairs = [("Ann: I bought a red bicycle!", 0), ("Cem: You owe me a concert.", 600), ("Bob: Did you ride it?", 1)]
    made = [await kept(world, text, occurred_at=minutes * MINUTE) for text, minutes in pairs]
    assert made[0].thread == made[2].thread != made[1].thread


async def test_others_words_and_plain_facts_are_in_no_conversation_of_ours(world: MemoryWorld) -> None:
    ours = await kept(world, "Ann: I bought a red bicycle!")
    fact = await kept(world, "Releases go out on Tuesdays after nine.")
    saved = await world.memory.save(world.person, world.ws, NewMemory("Bob: Did you water the plants?"))
    assert saved.memory is not None and saved.memory.thread not in ("", ours.thread)
    assert fact.thread == "" and ours.thread


async def test_a_named_session_is_the_conversation_and_a_connection_is_not(world: MemoryWorld) -> None:
    named = await kept(world, "The lake was frozen.", session_id="monday")
    first = await kept(world, "Ann: I bought a bicycle!", occurred_at=0, session_id="c", session_is_connection=True)
    second = await kept(
        world, "Bob: We leave at noon.", occurred_at=600 * MINUTE, session_id="c", session_is_connection=True
    )
    fact = await kept(world, "Releases go out on Tuesdays.", session_id="c", session_is_connection=True)
    assert named.thread == "monday" and fact.thread == ""
    assert first.session_id == second.session_id == "c" and first.thread != second.thread


async def test_a_query_that_names_the_speaker_prefers_their_words(world: MemoryWorld) -> None:
    await kept(world, "Ann: I paint landscapes when I have time.")
    bob = await kept(world, "Bob: I paint portraits when I have time.")
    recalled = await world.memory.recall(world.agent, world.ws, "What does Bob paint?")
    assert recalled[0].memory.id == bob.id
    found = await world.memory.search(world.agent, world.ws, "What does Bob paint?", explain=True)
    assert found[0].author == "Bob" and found[0].explanation["author"] > 0


async def test_an_edit_keeps_its_place_in_the_conversation(world: MemoryWorld) -> None:
    await kept(world, "Ann: I bought a red bicycle!")
    second = await kept(world, "Bob: Did you ride it to work?")
    edited = await world.memory.edit(world.agent, world.ws, second.slug, MemoryChange("Bob: Did you ride it home?"))
    assert (edited.thread, edited.position) == (second.thread, second.position)
