"""Finding chats again: by their words, over every workspace, along one branch, and after they were deleted."""

import json
from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.features.chat.deleted.service import KEPT_MILLIS, DeletedChats
from holdfast.features.chat.finding.service import ChatFinding
from holdfast.features.chat.model import ChatNotFound, MessageNotFound
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.world import World, new_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    made = await new_world(database, clock)
    yield made
    await made.services.web.close()


async def _found(world: World, text: str, workspace_id: str | None = None) -> list[tuple[str, str]]:
    page = await world.services[ChatFinding].search(world.owner, text, workspace_id=workspace_id)
    return [(each.chat.id, each.snippet) for each in page.items]


async def test_messages_are_found_by_every_word_in_any_case_also_with_the_embedded_model(world: World) -> None:
    await take(world, ScriptedModel("Der STRASSENKEHRER kommt am Montag, 100% sicher."), said("Wann kommt er?"))
    await take(world, ScriptedModel("Never."), said("Does the heron come on Monday?"), chat_id="c2")
    assert [id for id, _ in await _found(world, "straßenkehrer montag")] == []
    assert [id for id, _ in await _found(world, "strassenkehrer MONTAG")] == ["c1"]
    assert [id for id, _ in await _found(world, "heron")] == ["c2", "c2"], "its title says it above the answer, too"
    assert [snippet for _, snippet in await _found(world, "100%")] == [
        "Der STRASSENKEHRER kommt am Montag, 100% sicher."
    ]
    assert await _found(world, "1_0") == []
    assert await _found(world, "role") == [], "how messages are kept is nothing that was said"
    with pytest.raises(Invalid):
        await _found(world, "  ")


async def test_a_snippet_shows_the_words_where_they_stand_in_a_long_message(world: World) -> None:
    await take(world, ScriptedModel("before " * 200 + "the giraffe " + "after " * 200), said("Tell me"))
    [(_, snippet)] = await _found(world, "giraffe")
    assert "the giraffe after" in snippet
    assert snippet.startswith("… ") and snippet.endswith(" …") and len(snippet) < 240


async def test_search_pages_on_and_stays_in_the_workspaces_that_one_sees(world: World) -> None:
    other = await world.services.workspaces.create(world.owner, world.start.project_id, "Second")
    for number in range(3):
        await take(world, ScriptedModel("Plain."), said(f"tide {number}"), chat_id=f"c{number}")
    await take(world, ScriptedModel("Plain."), said("tide there"), chat_id="d", workspace_id=other.id)
    finding = world.services[ChatFinding]
    seen: list[tuple[str, str]] = []
    cursor = None
    while True:
        page = await finding.search(world.owner, "tide", limit=3, cursor=cursor)
        seen += [(each.chat.id, each.message_id) for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 8
    assert {id for id, _ in await _found(world, "tide", other.id)} == {"d"}
    recent = await finding.recent(world.owner, limit=2)
    rest = await finding.recent(world.owner, limit=2, cursor=recent.next_cursor)
    assert [each.id for each in (*recent.items, *rest.items)] == ["d", "c2", "c1", "c0"]


async def test_a_thread_follows_the_last_branch_or_the_one_through_a_message(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    await take(world, ScriptedModel("Hello."), said("Hi"))
    first = await take(world, ScriptedModel("Fine."), said("Hi", "Hello.", "And you?"))
    await take(world, ScriptedModel("Well."), said("Hi", "Hello.", "How so?"))

    async def words(at: str | None = None) -> list[str]:
        page = await chats.thread(owner, space, "c1", at)
        return [each.message.message["content"] for each in page.items]

    assert await words() == ["Hi", "Hello.", "How so?", "Well."]
    assert await words(first.metadata["message_id"]) == ["Hi", "Hello.", "And you?", "Fine."]
    thread = (await chats.thread(owner, space, "c1")).items
    assert [len(each.siblings) for each in thread] == [1, 1, 2, 1]
    assert await words(thread[2].siblings[0]) == ["Hi", "Hello.", "And you?", "Fine."]
    last = await chats.thread(owner, space, "c1", limit=3)
    assert [each.message.message["content"] for each in last.items] == ["Hello.", "How so?", "Well."]
    earlier = await chats.thread(owner, space, "c1", limit=3, cursor=last.next_cursor)
    assert ([each.message.message["content"] for each in earlier.items], earlier.next_cursor) == (["Hi"], None)
    with pytest.raises(MessageNotFound):
        await words("msg_none")


async def test_the_first_message_is_said_again_while_a_question_waits(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    await take(world, ScriptedModel(call("ask_user", question="Which way?")), said("Go"))
    again = ScriptedModel("Southwards.")
    await take(world, again, said("Go south"), x_parent_message_id="")
    assert [each["content"] for each in again.seen if each["role"] == "user"] == ["Go south"]
    thread = (await chats.thread(owner, space, "c1")).items
    assert [each.message.message["content"] for each in thread] == ["Go south", "Southwards."]
    before = (await chats.thread(owner, space, "c1", thread[0].siblings[0])).items
    assert before[-1].question is not None and before[-1].question.state == "pending"


async def test_a_deleted_chat_comes_back_whole_within_the_hour(world: World, clock: MovableClock) -> None:
    chats, memory, owner, space = world.services.chats, world.services.memory, world.owner, world.start.workspace_id
    model = ScriptedModel(call("save_memory", content="The office is in Oslo"), "The heron nests in April.")
    await take(world, model, said("When does the heron nest?"))
    await take(world, ScriptedModel(call("ask_user", question="Which?")), said("Ask me"), x_parent_message_id="")
    saved = next(json.loads(each["content"]) for each in model.seen if each["role"] == "tool")["memory_id"]
    before = await chats.export(owner, space, "c1")
    await chats.delete(owner, space, "c1")
    with pytest.raises(NotFound):
        await memory.get(owner, space, saved)
    assert await _found(world, "heron") == []
    assert await world.services[DeletedChats].purge() == 0
    restored = await chats.restore(owner, space, "c1")
    assert restored == before[0]
    assert await chats.export(owner, space, "c1") == before
    assert (await memory.get(owner, space, saved)).content == "The office is in Oslo"
    hits = await memory.search(owner, space, "heron nest", types=["chat"])
    assert [hit.meta["chat_id"] for hit in hits] == ["c1"]
    assert await chats.restore(owner, space, "c1") == restored, "twice is once"
    await chats.delete(owner, space, "c1")
    clock.advance(seconds=KEPT_MILLIS / 1000 + 1)
    with pytest.raises(ChatNotFound):
        await chats.restore(owner, space, "c1")
    assert await world.services[DeletedChats].purge() == 1


async def test_a_deleted_chat_does_not_come_back_over_another_of_its_id(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    await take(world, ScriptedModel("One."), said("First"))
    await chats.delete(owner, space, "c1")
    await take(world, ScriptedModel("Two."), said("Second"))
    with pytest.raises(Conflict):
        await chats.restore(owner, space, "c1")
    assert (await chats.get(owner, space, "c1")).title == "Second"
