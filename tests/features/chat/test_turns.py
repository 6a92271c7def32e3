"""Turns in chats: which tools a model gets, what is kept of them, branches, questions and reminders."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import Forbidden, Invalid, NotFound, UpstreamFailed
from holdfast.core.ids import new_id
from holdfast.engines.llm.model import ChunkEvent, Done
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.chat.model import ChatNotFound, MessageNotFound, QuestionNotFound, Served
from holdfast.features.usage.model import UsageFilter
from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.support.clock import MovableClock
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.world import World, new_world

ALWAYS = ["create_artifact", "update_artifact", "save_memory", "recall_memory", "ask_user"]
QUESTION: dict[str, Any] = {"question": "Which language?", "options": ["Python", "Go"], "allow_free_text": False}


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    made = await new_world(database, clock)
    yield made
    await made.services.web.close()


@pytest.mark.contract("XS-3")
async def test_a_chat_always_has_its_tools_and_others_only_on_request(world: World) -> None:
    model = ScriptedModel("Hello.", "Hello.", "Hello.", "Hello.")
    await take(world, model, said("Hi"))
    assert model.offered == ALWAYS
    await take(world, model, said("Hi"), web_search_options={"x_tools": ["calculator"]})
    assert model.offered == ["calculator", *ALWAYS]
    await take(world, model, said("Hi"), chat_id=None, web_search_options={})
    assert model.offered == ["web_search", "fetch_url"]
    own = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}
    await take(world, model, said("Hi"), tools=[own], web_search_options={}, disabled=frozenset({"web_search"}))
    assert model.offered == ["mine", "fetch_url", *ALWAYS]
    assert not {"web_search_options", "x_chat_id"} & model.bodies[-1].keys()


@pytest.mark.contract("XS-T9")
async def test_file_search_comes_with_the_chats_documents(world: World) -> None:
    upload = await world.services.documents.upload(world.owner, world.start.workspace_id)
    await upload.write(b"Keys are rotated every ninety days.")
    await upload.finish("policy.txt", "text/plain", "c1")
    model = ScriptedModel("Hello.", "Hello.", "Hello.")
    await take(world, model, said("Hi"))
    assert model.offered == [*ALWAYS, "file_search"]
    await take(world, model, said("Hi"), chat_id="other")
    assert "file_search" not in model.offered
    await take(world, model, said("Hi"), disabled=frozenset({"file_search"}))
    assert "file_search" not in model.offered


async def test_a_core_key_gets_no_code_tools(world: World) -> None:
    model = ScriptedModel("Hello.")
    asked = {"x_tools": ["code_search", "calculator"]}
    core = replace(world.owner, is_person=False, tier="core")
    await take(world, model, said("Hi"), chat_id=None, principal=core, web_search_options=asked)
    assert model.offered == ["calculator"]


@pytest.mark.contract("XM-10")
async def test_a_core_key_has_no_artifacts_in_chats_and_a_call_of_them_writes_none(world: World) -> None:
    model = ScriptedModel(call("create_artifact", identifier="a", title="A", type="text/plain", content="x"), "Done.")
    await take(world, model, said("Make it"), principal=replace(world.owner, is_person=False, tier="core"))
    assert model.offered == ["save_memory", "recall_memory", "ask_user"]
    assert (await world.services.artifacts.list(world.owner, world.start.workspace_id))[1] == 0


@pytest.mark.contract("XM-10")
async def test_deep_think_needs_the_tier_that_its_report_needs(world: World) -> None:
    model = ScriptedModel("Hello.")
    core = replace(world.owner, is_person=False, tier="core")
    with pytest.raises(Forbidden, match="tier 'intel'"):
        await take(world, model, said("Hi"), principal=core, web_search_options={"x_deep_think": True})
    assert model.bodies == []


@pytest.mark.contract("XS-7")
async def test_a_turn_tells_its_events_and_ends_with_metadata(world: World) -> None:
    model = ScriptedModel(call("calculator", expression="6*7"), "It is 42.")
    taken = await take(world, model, said("6 times 7?"), web_search_options={"x_tools": ["calculator"]})
    assert taken.text == "It is 42."
    assert taken.types == [
        "x_research.calculating",
        "x_research.result",
        "x_research.complete",
        "x_chat.metadata",
    ]
    metadata = taken.metadata
    assert metadata["chat_id"] == "c1"
    assert metadata["memories"] == []
    usage = metadata["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (200, 20, 220)
    assert usage["cost"] == pytest.approx(0.22)
    assert usage["research"]["input_tokens"] > 0
    assert (usage["research"]["iterations"], usage["research"]["tool_calls"]) == (1, 1)
    assert json.loads(model.seen[-1]["content"].partition("\n")[0])["result"] == 42


@pytest.mark.contract("XS-3")
async def test_a_conversation_that_goes_on_is_kept_once(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    model = ScriptedModel("Hello.", "Fine.")
    rules = {"role": "system", "content": "It is Monday."}
    await take(world, model, [rules, *said("Hi")])
    await take(world, model, [{**rules, "content": "It is Tuesday."}, *said("Hi", "Hello.", "How are you?")])
    kept = (await chats.messages(owner, space, "c1")).items
    assert [(each.role, each.message["content"]) for each in kept] == [
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "How are you?"),
        ("assistant", "Fine."),
    ]
    assert [each.parent_id for each in kept] == [None, *[each.id for each in kept[:-1]]]
    assert (kept[1].tokens_in, kept[1].tokens_out, kept[1].model) == (100, 10, "scripted")
    chat = await chats.get(owner, space, "c1")
    assert (chat.title, chat.messages, chat.tokens_in, chat.endpoint) == ("Hi", 4, 200, "default")


async def test_changing_an_earlier_message_starts_a_branch(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    model = ScriptedModel("Hello.", "Fine.", "Well.", "Hello again.")
    await take(world, model, said("Hi"))
    first = await take(world, model, said("Hi", "Hello.", "How are you?"))
    second = await take(world, model, said("Hi", "Hello.", "How are things?"))
    for taken, words in ((first, ["Hi", "Hello.", "How are you?", "Fine."]), (second, None)):
        path = await chats.branch(owner, space, "c1", taken.metadata["message_id"])
        assert [each.message["content"] for each in path] == (words or ["Hi", "Hello.", "How are things?", "Well."])
    # Going on from a kept message needs no history from the client.
    parent = first.metadata["message_id"]
    await take(world, model, said("Once more?"), x_parent_message_id=parent)
    assert [each["content"] for each in model.seen] == ["Hi", "Hello.", "How are you?", "Fine.", "Once more?"]
    with pytest.raises(MessageNotFound):
        await take(world, model, said("Hi"), x_parent_message_id=new_id("msg"))


@pytest.mark.contract("XS-T6")
async def test_artifacts_are_made_and_changed_in_the_chat(world: World) -> None:
    content = {"title": "Notes", "type": "text/markdown", "content": "# One"}
    model = ScriptedModel(
        call("create_artifact", identifier="notes.md", **content),
        call("create_artifact", identifier="notes.md", **content),
        call("create_artifact", identifier="no spaces", **content),
        call("update_artifact", identifier="notes.md", content="# Two"),
        "Done.",
    )
    taken = await take(world, model, said("Write notes"))
    assert [side for side in taken.sides if side["type"].startswith("x_artifact")] == [
        {"type": "x_artifact.created", "identifier": "notes.md", "title": "Notes", "version": 1},
        {"type": "x_artifact.updated", "identifier": "notes.md", "version": 2},
    ]
    results = [json.loads(each["content"]) for each in model.seen if each["role"] == "tool"]
    assert [each.get("status", "error") for each in results] == ["created", "error", "error", "updated"]
    assert "already" in results[1]["error"]
    assert "identifier" in results[2]["error"]
    kept = await world.services.artifacts.find(
        world.owner, world.start.workspace_id, ArtifactReference(identifier="notes.md", chat_id="c1")
    )
    assert kept.version == 2


@pytest.mark.contract("XS-T7")
async def test_a_question_pauses_the_turn_and_the_next_message_answers_it(world: World) -> None:
    model = ScriptedModel([call("calculator", "a", expression="1+1"), call("ask_user", "b", **QUESTION)], "In Go then.")
    options: dict[str, Any] = {"web_search_options": {"x_tools": ["calculator"]}}
    paused = await take(world, model, said("Write an example"), **options)
    asked = paused.side("x_ask_user.question")
    assert asked.items() >= QUESTION.items()
    assert paused.side("x_ask_user.pending_state")["correlation_id"] == asked["correlation_id"]
    assert paused.done.pause is not None
    resumed = await take(world, model, said("Write an example", "", "Go"), **options)
    assert resumed.text == "In Go then."
    roles = [each["role"] for each in model.seen]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert model.seen[-1] == {"role": "tool", "tool_call_id": "b", "content": '{"answer":"Go"}'}
    path = await world.services.chats.branch(
        world.owner, world.start.workspace_id, "c1", resumed.metadata["message_id"]
    )
    assert [(each.role, each.message["content"]) for each in path] == [
        ("user", "Write an example"),
        ("assistant", "Which language?\n- Python\n- Go"),
        ("user", "Go"),
        ("assistant", "In Go then."),
    ]
    questions = await world.services.chats.questions(world.owner, world.start.workspace_id, "c1")
    assert [(each.state, each.answer) for each in questions.items] == [("resumed", "Go")]


@pytest.mark.contract("XS-T7")
async def test_a_question_outlives_the_server_and_is_answered_by_its_correlation_id(
    database: Database, open_database: OpenDatabase, clock: MovableClock
) -> None:
    world = await new_world(database, clock)
    paused = await take(world, ScriptedModel(call("ask_user", **QUESTION)), said("Write an example"))
    correlation_id = paused.side("x_ask_user.question")["correlation_id"]
    restarted = open_database()
    try:
        again = await new_world(restarted, clock)
        chats, space = again.services.chats, world.start.workspace_id
        with pytest.raises(Invalid, match="choose from Python, Go"):
            await chats.answer(world.owner, space, "c1", correlation_id, "Rust")
        with pytest.raises(QuestionNotFound):
            await chats.answer(world.owner, space, "c1", new_id("ask"), "Go")
        answered = await chats.answer(world.owner, space, "c1", correlation_id, "Python")
        assert (answered.state, answered.answer) == ("answered", "Python")
        model = ScriptedModel("In Python then.")
        resumed = await take(replace(again, start=world.start), model, said("Write an example"), principal=world.owner)
        assert resumed.text == "In Python then."
        assert model.seen[-1]["content"] == '{"answer":"Python"}'
        await again.services.web.close()
    finally:
        await restarted.close()
        await world.services.web.close()


@pytest.mark.contract("XS-T7")
async def test_an_answer_may_come_alone_or_with_its_correlation_id(world: World) -> None:
    model = ScriptedModel(
        call("ask_user", **QUESTION), "Go.", call("ask_user", question="Sure?", style="confirm"), "Ok."
    )
    await take(world, model, said("Write an example"))
    assert (await take(world, model, said("Go"))).text == "Go."
    paused = await take(world, model, said("And now?"), chat_id="c2")
    answer = {"correlation_id": paused.side("x_ask_user.question")["correlation_id"], "answer": "yes"}
    assert (await take(world, model, [], chat_id="c2", x_ask_user=answer)).text == "Ok."
    assert model.seen[-1]["content"] == '{"answer":true}'


async def test_a_changed_question_of_the_person_is_no_answer(world: World) -> None:
    model = ScriptedModel("Hello.", call("ask_user", **QUESTION), "A poem.")
    await take(world, model, said("Hi"))
    await take(world, model, said("Hi", "Hello.", "Write an example"))
    other = await take(world, model, said("Hi", "Hello.", "Write a poem"))
    assert other.text == "A poem."
    assert [each["role"] for each in model.seen] == ["user", "assistant", "user"]


async def test_a_turn_that_failed_is_taken_again_and_nothing_is_kept_twice(world: World) -> None:
    failing = ScriptedModel(UpstreamFailed("The upstream is away."))
    with pytest.raises(UpstreamFailed):
        await take(world, failing, said("Hi"))
    await take(world, ScriptedModel(call("ask_user", **QUESTION)), said("Hi"))
    with pytest.raises(UpstreamFailed):
        await take(world, ScriptedModel(UpstreamFailed("Away again.")), said("Go"))
    model = ScriptedModel("In Go.")
    await take(world, model, said("Hi", "", "Go"))
    assert model.seen[-1]["content"] == '{"answer":"Go"}'
    kept = (await world.services.chats.messages(world.owner, world.start.workspace_id, "c1")).items
    assert [each.message["content"] for each in kept] == ["Hi", "Which language?\n- Python\n- Go", "Go", "In Go."]


@pytest.mark.contract("XS-3")
async def test_calls_of_the_clients_own_tools_go_to_the_client_and_are_kept(world: World) -> None:
    own = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}
    model = ScriptedModel(call("mine", "x", a=1), "Done.")
    asked = await take(world, model, said("Do it"), tools=[own])
    assert asked.done.finish_reason == "tool_calls"
    result = {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "one"}]}
    echoed = {"role": "assistant", "content": "", "refusal": None, "tool_calls": [call("mine", "x", a=1)]}
    await take(world, model, [*said("Do it"), echoed, result], tools=[own])
    kept = (await world.services.chats.messages(world.owner, world.start.workspace_id, "c1")).items
    assert [each.role for each in kept] == ["user", "assistant", "tool", "assistant"]


async def test_a_turn_with_nothing_of_ours_in_it_tells_nothing_of_ours(world: World) -> None:
    taken = await take(world, ScriptedModel("Hello."), said("Hi"), chat_id=None)
    assert taken.types == []
    assert taken.text == "Hello."


@pytest.mark.contract("XS-7")
async def test_knowledge_tools_tell_that_they_run(world: World) -> None:
    taken = await take(world, ScriptedModel(call("recall_memory", query="tides"), "Nothing."), said("Tides?"))
    told = taken.side("x_research.tool_call")
    assert told["tool_name"] == "recall_memory"
    assert told["message"]


@pytest.mark.contract("XS-4")
async def test_rounds_end_where_the_request_says(world: World) -> None:
    sums = [call("calculator", expression=f"{number}+1") for number in range(2)]
    model = ScriptedModel(*sums, "Enough.")
    options = {"x_tools": ["calculator"], "max_iterations": 2}
    taken = await take(world, model, said("Count"), web_search_options=options)
    assert (taken.text, taken.done.rounds) == ("Enough.", 2)


async def test_hanging_up_keeps_what_was_said(world: World) -> None:
    served = Served("default", ScriptedModel("One two three four"))
    body = {"messages": said("Count")}
    turn = world.services.chat_turns.turn(
        world.owner, world.start.project_id, world.start.workspace_id, served, body, "c1"
    )
    async for event in turn:
        if isinstance(event, ChunkEvent) and event.chunk["choices"][0]["delta"].get("content") == " two":
            break
    await turn.aclose()
    kept = (await world.services.chats.messages(world.owner, world.start.workspace_id, "c1")).items
    assert [(each.state, each.message["content"]) for each in kept] == [
        ("complete", "Count"),
        ("interrupted", "One two"),
    ]


async def test_turns_taken_at_once_in_one_chat_are_all_kept(world: World) -> None:
    taken = await asyncio.gather(
        *(take(world, ScriptedModel(f"Answer {number}."), said("Hi", "", f"Ask {number}")) for number in range(8)),
        *(take(world, ScriptedModel(f"Other {number}."), said("Hi")) for number in range(4)),
    )
    kept = (await world.services.chats.messages(world.owner, world.start.workspace_id, "c1")).items
    assert sorted(each.number for each in kept) == list(range(1, len(kept) + 1))
    assert [each.role for each in kept].count("assistant") == 12 + 1  # and the empty one that clients sent
    for each in taken:
        path = await world.services.chats.branch(
            world.owner, world.start.workspace_id, "c1", each.metadata["message_id"]
        )
        assert path[0].message["content"] == "Hi"
        assert path[-1].message["content"] == each.text


async def test_usage_is_counted_by_key_project_and_week(world: World) -> None:
    model = ScriptedModel(call("calculator", expression="1"), "One.")
    await take(world, model, said("One?"), web_search_options={"x_tools": ["calculator"]})
    await world.services.usage.flush()
    rows = await world.services.usage.report(
        world.owner, UsageFilter(source="chat"), ("week", "actor", "project", "kind")
    )
    assert {row.kind: row.amount for row in rows} == {
        "tokens_in": 200,
        "tokens_out": 20,
        "tool_calls": 1,
        "model_calls": 1,
        "cost": pytest.approx(0.22),
    }
    assert {row.project_id for row in rows} == {world.start.project_id}


async def test_a_chat_is_found_by_search_until_it_is_deleted(world: World) -> None:
    chats, owner, space = world.services.chats, world.owner, world.start.workspace_id
    await take(world, ScriptedModel("The heron nests in April."), said("When does the heron nest?"))
    hits = await world.services.memory.search(owner, space, "heron nest", types=["chat"])
    assert hits[0].meta["chat_id"] == "c1"
    assert (await chats.rename(owner, space, "c1", " Birds \n")).title == "Birds"
    await chats.delete(owner, space, "c1")
    assert await world.services.memory.search(owner, space, "heron nest", types=["chat"]) == []
    with pytest.raises(ChatNotFound):
        await chats.get(owner, space, "c1")


async def test_what_is_wrong_with_a_request_is_told_before_anything_happens(world: World) -> None:
    model = ScriptedModel()
    bodies: list[dict[str, Any]] = [{"web_search_options": {"x_deep_think": "yes"}}, {"x_ask_user": "yes"}]
    for body in bodies:
        with pytest.raises(Invalid):
            await take(world, model, said("Hi"), **body)
    for chat_id in ("a b", "", "../x", "x" * 129):
        with pytest.raises(Invalid):
            await take(world, model, said("Hi"), chat_id=chat_id)
    for messages in ("Hi", [{"content": "Hi"}], ["Hi"]):
        with pytest.raises(Invalid):
            await take(world, model, messages)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await take(world, model, said("Hi"), workspace_id=new_id("ws"))
    assert model.bodies == []


async def test_a_turn_without_a_workspace_takes_the_projects_first(world: World) -> None:
    served = Served("default", ScriptedModel("Hello."))
    turn = world.services.chat_turns.turn(
        world.owner, world.start.project_id, None, served, {"messages": said("Hi")}, "c1"
    )
    events = [event async for event in turn]
    assert isinstance(events[-1], Done)
    assert (await world.services.chats.get(world.owner, world.start.workspace_id, "c1")).title == "Hi"
