"""What models may ask, what counts as an answer, and how passages of uploads are found in a chat."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import Catalog, Gateway
from holdfast.core.tools.tool import ToolCall
from holdfast.engines.llm.offered import Offer, loop_tool
from holdfast.features.chat import questions
from holdfast.features.chat.answers import answer_text, checked_answer
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.chats import ScriptedModel, call, said, take
from tests.support.services import Services
from tests.support.world import World, new_world

FORM = {
    "style": "form",
    "fields": [{"label": "Host", "key": "host", "required": True}, {"label": "Port", "key": "port"}],
}
CHOICE = {"options": ["Python", "Go"], "allow_free_text": False}


@pytest.mark.contract("XS-T7")
async def test_each_style_is_asked_with_its_fields() -> None:
    gateway = Gateway(lambda: Catalog(questions.tools(), questions.aliases()))
    principal = Principal("org_1", "usr_1", "session", True, frozenset({"inference"}))
    (alias,) = gateway.aliases("chat")
    tool = loop_tool(gateway, ToolCall(principal, "ws_1", "chat"), Offer(alias, {}))
    assert set(tool.parameters["properties"]) == {
        "question",
        "options",
        "allow_free_text",
        "multi_select",
        "style",
        "fields",
    }
    assert tool.parameters["required"] == ["question"]
    plain = await tool.run({"question": "Which?", "options": ["a", "b"], "fields": None, "invented": 1})
    assert plain.pause is not None
    assert plain.events == [
        {
            "type": "x_ask_user.question",
            "question": "Which?",
            "options": ["a", "b"],
            "allow_free_text": True,
            "multi_select": False,
            "style": "default",
            "correlation_id": plain.pause.correlation_id,
        }
    ]
    form = await tool.run({"question": "Where?", **FORM})
    assert form.pause is not None
    assert form.pause.question["fields"] == [
        {"label": "Host", "key": "host", "required": True},
        {"label": "Port", "key": "port", "required": False},
    ]
    wrong: list[dict[str, Any]] = [
        {},
        {"question": ""},
        {"question": "?", "style": "slider"},
        {"question": "?", "style": "form"},
        {"question": "?", "fields": [{"label": "A", "key": "a"}, {"label": "B", "key": "a"}]},
    ]
    for arguments in wrong:
        with pytest.raises(Invalid):
            await tool.run(arguments)


@pytest.mark.parametrize(
    ("question", "answer", "kept", "text"),
    [
        ({}, "Blue", "Blue", "Blue"),
        (CHOICE, "Go", "Go", "Go"),
        ({**CHOICE, "multi_select": True}, ["Go", "Python"], ["Go", "Python"], "Go, Python"),
        ({**CHOICE, "allow_free_text": True}, "Rust", "Rust", "Rust"),
        ({"style": "confirm"}, "Yes", True, "Yes"),
        ({"style": "confirm"}, False, False, "No"),
        ({"style": "rating"}, "5", 5, "5"),
        ({"style": "rating"}, 1, 1, "1"),
        (FORM, {"host": "db", "port": 5432}, {"host": "db", "port": 5432}, "host: db\nport: 5432"),
    ],
)
def test_an_answer_is_kept_as_its_style_wants_it(question: dict[str, Any], answer: Any, kept: Any, text: str) -> None:
    found = checked_answer(question, answer)
    assert found == kept
    assert answer_text(found) == text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({}, None),
        ({}, {"a": 1}),
        ({}, "x" * 100_001),
        (CHOICE, "Rust"),
        (CHOICE, ["Go", "Python"]),
        ({**CHOICE, "multi_select": True}, []),
        ({**CHOICE, "multi_select": True}, [["Go"]]),
        ({"style": "confirm"}, "perhaps"),
        ({"style": "confirm"}, {}),
        ({"style": "rating"}, 6),
        ({"style": "rating"}, True),
        (FORM, "db"),
        (FORM, {"port": 1}),
        (FORM, {"host": "db", "user": "x"}),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(question: dict[str, Any], answer: Any) -> None:
    with pytest.raises(Invalid) as caught:
        checked_answer(question, answer)
    assert caught.value.fields[0].field == "answer"


@asynccontextmanager
async def working(services: Services) -> AsyncIterator[None]:
    task = asyncio.create_task(services.jobs.run())
    try:
        yield
    finally:
        await services.jobs.stop()
        await task


@pytest.mark.slow
@pytest.mark.contract("XS-T9")
async def test_file_search_finds_passages_of_the_chat_or_of_vector_stores(
    database: Database, clock: MovableClock
) -> None:
    world: World = await new_world(database, clock)
    owner, space, services = world.owner, world.start.workspace_id, world.services
    upload = await services.documents.upload(owner, space)
    await upload.write(b"API keys are rotated every ninety days by the operator.")
    kept = (await upload.finish("policy.txt", "text/plain", "c1")).document
    async with working(services):
        await services.jobs.wait(kept.job_id, timeout_seconds=120)
    asked = call("file_search", query="rotation of API keys", max_results=3)
    model = ScriptedModel(asked, "Every ninety days.")
    await take(world, model, said("How often?"))
    expected = {"filename": "policy.txt", "artifact_id": kept.id}
    assert "ninety days" in _only_result(model, expected)["chunk_text"]
    store = await services.vector_stores.create(owner, space, name="Policies", file_ids=[kept.id])
    model = ScriptedModel(asked, "Every ninety days.")
    tools = [{"type": "file_search", "vector_store_ids": [store.id]}]
    await take(world, model, said("How often?"), chat_id=None, tools=tools)
    assert model.bodies[0]["tools"][0]["function"]["name"] == "file_search"
    assert 0 < _only_result(model, expected)["relevance_score"] <= 1
    await services.web.close()


def _only_result(model: ScriptedModel, expected: dict[str, Any]) -> dict[str, Any]:
    text = model.seen[-1]["content"]
    # What uploads say is marked as data.
    assert "Untrusted data from file_search" in text
    results = json.loads(text[text.index("{") : text.rindex("}") + 1])["results"]
    assert len(results) == 1
    assert set(results[0]) == {"filename", "chunk_text", "relevance_score", "artifact_id"}
    assert results[0].items() >= expected.items()
    return dict(results[0])
