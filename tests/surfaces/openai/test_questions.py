"""Proves a model's question on the wire: a plain client reads it as text, and it is answered once."""

import json
from typing import Any

import pytest

from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.server import TestServer
from tests.surfaces.openai.test_turns import events

Json = dict[str, Any]
GO: Json = {"x_chat_id": "c1", "messages": [{"role": "user", "content": "Write an example."}]}
ASKED = {"question": "Which language?", "options": ["Python", "Go"], "allow_free_text": False}
TEXT = "Which language?\n- Python\n- Go"


def answer(asked: Json, value: Any) -> Json:
    return {**GO, "x_ask_user": {"correlation_id": asked["correlation_id"], "answer": value}}


def question(told: list[Json]) -> Json:
    return next(event for event in told if event.get("type") == "x_ask_user.question")


@pytest.mark.contract("XS-T7")
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize(
    ("arguments", "said", "shown"),
    [
        (ASKED, "", TEXT),
        (ASKED, "One moment.", f"One moment.\n\n{TEXT}"),
        ({"question": "Sure?", "style": "confirm"}, "", "Sure? (yes or no)"),
        ({"question": "Sure?"}, "I wonder. Sure?", "I wonder. Sure?"),
        ({"question": "Where?", "style": "form", "fields": [{"label": "Host", "key": "h"}]}, "", "Where?\n- Host"),
    ],
)
async def test_a_plain_client_finds_the_question_in_the_text(
    sqlite_server: TestServer,
    upstream: FakeModel,
    sqlite_chat: str,
    arguments: Json,
    said: str,
    shown: str,
    path: str,
    stream: bool,
) -> None:
    upstream.script = [calls(("ask_user", arguments), content=said)]
    body = {**GO, "stream": stream} if path != "responses" else {"input": "Go on.", "x_chat_id": "c1", "stream": stream}
    async with sqlite_server.client() as client:
        answered = await client.post(f"{sqlite_chat}/{path}", json=body)
    assert answered.status_code == 200, answered.text
    assert _text(answered.text, path, stream) == shown


def _text(body: str, path: str, stream: bool) -> str:
    if path == "responses":
        lines = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
        response = lines[-1]["response"] if stream else json.loads(body)
        return "".join(part["text"] for item in response["output"] for part in item["content"])
    if not stream:
        return str(json.loads(body)["choices"][0]["message"]["content"])
    return "".join(choice["delta"].get("content") or "" for event in events(body) for choice in event["choices"])


async def test_a_question_is_answered_once(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = [calls(("ask_user", ASKED)), says("In Go."), says("Anything else?")]
    async with server.client() as client:
        first = (await client.post(f"{chat}/chat/completions", json=GO)).json()
        asked = question(first["x_events"])
        wrong = await client.post(f"{chat}/chat/completions", json=answer(asked, "Rust"))
        gone_on = await client.post(f"{chat}/chat/completions", json=answer(asked, "Go"))
        again = [await client.post(f"{chat}/chat/completions", json=answer(asked, each)) for each in ("Go", "Python")]
        rest = f"/api/workspaces/{server.start.workspace_id}/chats/c1/questions/{asked['correlation_id']}/answer"
        over_rest = await client.post(rest, json={"answer": "Python"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "answer")
    assert gone_on.json()["choices"][0]["message"]["content"] == "In Go."
    for refused in (*again, over_rest):
        assert refused.status_code == 409
    assert [each.json()["error"]["code"] for each in again] == ["answered_already"] * 2
    assert len(upstream.requests) == 2


async def test_the_same_answer_may_be_sent_again_when_the_model_failed(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    broken = Turn(status=400, body={"error": {"message": "Broken.", "type": "server_error"}})
    upstream.script = [calls(("ask_user", ASKED)), broken, says("In Go.")]
    url = f"{sqlite_chat}/chat/completions"
    async with sqlite_server.client() as client:
        asked = question((await client.post(url, json=GO)).json()["x_events"])
        failed = await client.post(url, json=answer(asked, "Go"))
        other = await client.post(url, json=answer(asked, "Python"))
        same = await client.post(url, json=answer(asked, "Go"))
    assert (failed.status_code, other.status_code) == (400, 409)
    assert same.json()["choices"][0]["message"]["content"] == "In Go."


async def test_what_was_found_before_a_question_is_there_after_the_clients_tool(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    options = {"web_search_options": {"x_tools": ["calculator"]}, "tools": [tool]}
    upstream.script = [
        calls(("calculator", {"expression": "6*7"})),
        calls(("ask_user", ASKED)),
        calls(("look_up", {})),
        says("All is known."),
    ]
    async with sqlite_server.client() as client:

        async def ask(*more: Json) -> Json:
            body = {**GO, **options, "messages": [*GO["messages"], *more]}
            answered = await client.post(f"{sqlite_chat}/chat/completions", json=body)
            return dict(answered.json()["choices"][0]["message"])

        asked = await ask()
        person = {"role": "user", "content": "Go"}
        called = await ask(asked, person)
        looked = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "Looked up."}
        assert (await ask(asked, person, called, looked))["content"] == "All is known."
    results = [message["content"] for message in upstream.requests[-1]["messages"] if message["role"] == "tool"]
    assert "42" in results[0] and results[1:] == ['{"answer":"Go"}', "Looked up."]
    assert upstream.refused == []
