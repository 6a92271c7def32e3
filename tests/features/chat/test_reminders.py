"""Memories in chats: saved once, kept to their chat until they are shared, and what a model is reminded of."""

import json
from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import NotFound
from holdfast.features.memory.model import NewMemory
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.world import World, new_world

ALWAYS = ["create_artifact", "update_artifact", "save_memory", "recall_memory", "ask_user"]


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    made = await new_world(database, clock)
    yield made
    await made.services.web.close()


@pytest.mark.contract("XS-T8")
async def test_memories_are_saved_once_recalled_and_reminded_of(world: World) -> None:
    fact = "The user prefers TypeScript with strict mode for code examples"
    model = ScriptedModel(
        [
            call("save_memory", "a", content=fact, category="preference"),
            call("recall_memory", "b", query="nothing yet about gardening"),
        ],
        call("save_memory", content=fact),
        "Noted.",
        "In TypeScript.",
        call("recall_memory", query="TypeScript strict mode preference"),
        "TypeScript.",
    )
    await take(world, model, said("Remember that I prefer TypeScript"))
    results = [json.loads(each["content"]) for each in model.seen if each["role"] == "tool"]
    assert results[0].items() >= {"status": "saved", "content": fact, "category": "preference"}.items()
    assert results[0]["memory_id"].startswith("mem_")
    assert results[2].items() >= {"status": "duplicate", "memory_id": results[0]["memory_id"]}.items()
    # Passively, later in the chat: the model is told, and so is the client.
    asked = "Which code examples does the user prefer, TypeScript with strict mode?"
    taken = await take(world, model, [{"role": "system", "content": "Be brief."}, *said(asked)])
    assert [each["role"] for each in model.seen] == ["system", "system", "user"]
    assert fact in model.seen[1]["content"]
    assert [each["id"] for each in taken.metadata["memories"]] == [results[0]["memory_id"]]
    await take(world, model, said("Unrelated xylophone"))
    recalled = json.loads(model.seen[-1]["content"])["memories"][0]
    assert set(recalled) == {"id", "content", "category", "relevance", "created_at"}


@pytest.mark.contract("XS-T8")
async def test_another_chat_is_not_reminded_until_a_person_shares_the_memory(world: World) -> None:
    fact = "The user prefers TypeScript with strict mode for code examples"
    asked = said("Which code examples does the user prefer, TypeScript with strict mode?")
    look = call("recall_memory", query="TypeScript strict mode preference")
    model = ScriptedModel(call("save_memory", content=fact), "Noted.", look, "No idea.", look, "TypeScript.")
    await take(world, model, said("Remember that I prefer TypeScript"))
    saved = next(json.loads(each["content"]) for each in model.seen if each["role"] == "tool")
    taken = await take(world, model, asked, chat_id="c2")
    assert taken.metadata["memories"] == []
    assert json.loads(model.seen[-1]["content"])["memories"] == []
    memory = world.services.memory
    await memory.share(world.owner, world.start.workspace_id, saved["memory_id"])
    taken = await take(world, model, asked, chat_id="c3")
    assert [each["id"] for each in taken.metadata["memories"]] == [saved["memory_id"]]
    assert [each["id"] for each in json.loads(model.seen[-1]["content"])["memories"]] == [saved["memory_id"]]


async def test_unshared_memories_go_with_their_chat(world: World) -> None:
    model = ScriptedModel(
        [call("save_memory", "a", content="The office is in Oslo"), call("save_memory", "b", content="We use pnpm")],
        "Noted.",
    )
    await take(world, model, said("Remember both"))
    memory, owner, space = world.services.memory, world.owner, world.start.workspace_id
    kept = [json.loads(each["content"])["memory_id"] for each in model.seen if each["role"] == "tool"]
    await memory.share(owner, space, kept[1])
    await world.services.chats.delete(owner, space, "c1")
    with pytest.raises(NotFound):
        await memory.get(owner, space, kept[0])
    assert (await memory.get(owner, space, kept[1])).content == "We use pnpm"


async def test_reminders_stay_within_their_budget_and_leave_the_web_out(world: World) -> None:
    memory, owner, space = world.services.memory, world.owner, world.start.workspace_id
    await memory.save(owner, space, NewMemory("The harbour opens at seven " + "in the morning and " * 150))
    await memory.save(owner, space, NewMemory("The harbour opens at seven in summer", trust="web"))
    await memory.save(owner, space, NewMemory("The harbour opens at six in winter"))
    model = ScriptedModel("At six.")
    taken = await take(world, model, said("When does the harbour open in winter?"))
    assert [each["content"] for each in taken.metadata["memories"]] == ["The harbour opens at six in winter"]
