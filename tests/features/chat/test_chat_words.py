"""The index of what was said in chats: it follows every change, stays in its workspace, takes in what was before."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import NotFound
from holdfast.features.chat.finding.filling import ChatWordsFilling
from holdfast.features.chat.finding.service import ChatFinding
from holdfast.storage.database import Database, Tx
from tests.support.clock import MovableClock
from tests.support.features.chats import ScriptedModel, said, take
from tests.support.world import World, new_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    made = await new_world(database, clock)
    yield made
    await made.services.web.close()


async def _found(world: World, text: str, workspace_id: str | None = None) -> list[tuple[str, str]]:
    page = await world.services[ChatFinding].search(world.owner, text, workspace_id=workspace_id)
    return [(each.chat.id, each.role) for each in page.items]


async def test_the_beginning_of_a_word_finds_it_also_inside_identifiers_accents_and_other_scripts(world: World) -> None:
    reply = "See parseHTTPReply in src/wire_format.py, café Zoë, 東京の天気, v2.31."
    await take(world, ScriptedModel(reply), said("Where?"))
    for text in (
        "parse",
        "http",
        "reply",
        "parsehttpr",
        "wire",
        "format.py",
        "wire_form",
        "CAFE",
        "zoe",
        "天気",
        "v2.31",
    ):
        assert await _found(world, text) == [("c1", "assistant")], text
    for text in ("arse", "eply", "天東", "v2.4", "parse nothing", "%", '" OR "', "'", "\\", "a* OR", "NEAR("):
        assert await _found(world, text) == [], text


async def test_words_of_the_title_count_beside_words_that_were_said_and_follow_a_rename(world: World) -> None:
    await take(world, ScriptedModel("On Thursday at noon."), said("When does it roll out?"))
    owner, space = world.owner, world.start.workspace_id
    await world.services.chats.rename(owner, space, "c1", "Deploy plan")
    assert await _found(world, "deploy") == [("c1", "")], "the chat once, and not each of its messages"
    assert await _found(world, "deploy thursday") == [("c1", "assistant")]
    await world.services.chats.rename(owner, space, "c1", "Release plan")
    assert await _found(world, "deploy") == await _found(world, "deploy thursday") == []
    assert await _found(world, "thursday release") == [("c1", "assistant")]


async def test_every_branch_is_found_and_nothing_of_a_deleted_chat_until_it_is_back(world: World) -> None:
    await take(world, ScriptedModel("A heron."), said("Which bird?"))
    await take(world, ScriptedModel("An avocet."), said("Which bird is it?"))
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    both = [await _found(world, text) for text in ("heron", "avocet", "bird")]
    assert both[:2] == [[("c1", "assistant")], [("c1", "assistant")]]
    assert sorted(both[2]) == [("c1", ""), ("c1", "user"), ("c1", "user")]
    await chats.delete(owner, space, "c1")
    assert [await _found(world, text) for text in ("heron", "avocet", "bird")] == [[], [], []]
    await chats.restore(owner, space, "c1")
    assert [await _found(world, text) for text in ("heron", "avocet", "bird")] == both


async def test_an_equal_message_that_is_sent_again_is_found_once(world: World) -> None:
    await take(world, ScriptedModel("A heron."), said("Which bird?"))
    await take(world, ScriptedModel("A heron."), said("Which bird?"))
    assert await _found(world, "heron") == [("c1", "assistant")]


async def test_other_workspaces_and_their_removal_leave_nothing_behind(world: World, database: Database) -> None:
    other = await world.services.workspaces.create(world.owner, world.start.project_id, "Second")
    await take(world, ScriptedModel("A heron here."), said("Which?"))
    await take(world, ScriptedModel("A heron there."), said("Which?"), chat_id="d", workspace_id=other.id)
    assert await _found(world, "heron", world.start.workspace_id) == [("c1", "assistant")]
    assert await _found(world, "heron", other.id) == [("d", "assistant")]
    await world.services.workspaces.delete(world.owner, other.id)
    assert await _found(world, "heron") == [("c1", "assistant")]
    with pytest.raises(NotFound):
        await _found(world, "heron", other.id)

    def left(tx: Tx) -> list[str]:
        rows = tx.all("SELECT workspace_id FROM chat_words")
        if tx.dialect == "sqlite":
            # Fails where the index and its table are of two minds.
            tx.execute("INSERT INTO chat_words_index (chat_words_index, rank) VALUES ('integrity-check', 1)")
        return [row["workspace_id"] for row in rows]

    assert set(await database.write(left)) == {world.start.workspace_id}


async def test_what_was_said_before_there_was_an_index_is_taken_in(world: World, database: Database) -> None:
    await take(world, ScriptedModel("A heron."), said("Which bird?"))

    def forget(tx: Tx) -> None:
        tx.execute("DELETE FROM chat_words")
        tx.execute("INSERT INTO chat_words_missing SELECT workspace_id, id, '' FROM chat")
        tx.execute("INSERT INTO chat_words_missing SELECT workspace_id, chat_id, id FROM chat_message")

    await database.write(forget)
    assert await _found(world, "heron") == []
    filling = world.services[ChatWordsFilling]
    assert await filling.fill() == 3
    assert await filling.fill() == 0
    assert await _found(world, "heron") == [("c1", "assistant")]
    assert len(await _found(world, "bird")) == 2
