"""Proves Deep Think on the wire: a stream that OpenAI's client reads, a whole answer, and errors with their status."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.event_grammar import check
from tests.support.server import TestServer
from tests.surfaces.openai.test_turns import events

PLAN = json.dumps({"title": "Six times seven", "subtasks": ["compute it", "who cares", "what else"]})
ASK: dict[str, Any] = {
    "model": "any",
    "messages": [{"role": "user", "content": "How much is six times seven?"}],
    "web_search_options": {"x_deep_think": True},
}


REPORT = (
    "# Report\n\nIt is 42 [1].\n\n## Sources\n\n- [1] calculator: 6*7 = 42\n\n"
    "*Left out, because nothing that was read bears it out: 1 statement, 1 citation.*"
)


def script() -> list[Turn]:
    research = [
        calls(("calculator", {"expression": "6*7"})),
        says("It is 42 (calculator: 6*7 = 42)."),
        says("All."),
        says("Nothing."),
    ]
    return [says(PLAN), *research, says("# Report\n\nIt is 42 [1]. It is 43 [1].", pieces=8)]


@pytest.mark.contract("XS-6")
@pytest.mark.contract("XS-7")
async def test_a_research_streams_in_the_documented_order(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = script()
    async with server.client() as client:
        answer = await client.post(f"{chat}/chat/completions", json={**ASK, "stream": True})
    sentence = check([*events(answer.text), "[DONE]"])
    assert sentence.startswith("psBRcscsCcay")
    assert sentence.endswith("FAzM.")
    assert upstream.refused == []


@pytest.mark.contract("XS-6")
async def test_a_research_can_be_answered_whole(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = script()
    async with server.client() as client:
        answer = await client.post(f"{chat}/chat/completions", json=ASK)
    told = answer.json()
    assert told["choices"][0]["message"]["content"] == REPORT
    assert told["usage"]["total_tokens"] == 6 * 15
    assert "x_deep_think.completed" in [event["type"] for event in told["x_events"]]


async def test_the_clients_of_openai_read_a_research(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = script()
    async with server.client() as client:
        bearer = str(client.headers["authorization"]).removeprefix("Bearer ")
    text, types = "", list[str]()
    async with AsyncOpenAI(base_url=chat, api_key=bearer) as openai:
        stream = await openai.chat.completions.create(
            model="any",
            messages=ASK["messages"],
            stream=True,
            extra_body={"web_search_options": ASK["web_search_options"]},
        )
        async for chunk in stream:
            types += [str(chunk.model_dump()["type"])] if "type" in chunk.model_dump() else []
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    assert text == REPORT
    assert types[0] == "x_deep_think.plan_created"


@pytest.mark.contract("XS-6")
async def test_a_refusal_is_told_as_such_and_asking_again_goes_on(
    server: TestServer, upstream: FakeModel, chat: str
) -> None:
    wrong = Turn(status=400, body={"error": {"message": "too long a prompt", "type": "x"}})
    upstream.script = [*script()[:4], wrong]
    async with server.client() as client:
        refused = await client.post(f"{chat}/chat/completions", json={**ASK, "stream": True})
        lines = [json.loads(line[6:]) for line in refused.text.splitlines() if line.startswith("data: ")]
        assert lines[-2]["type"] == "x_deep_think.error"
        assert "too long a prompt" in lines[-2]["message"]
        assert "error" in lines[-1]
        upstream.script = [wrong]
        assert (await client.post(f"{chat}/chat/completions", json=ASK)).status_code == 400
        asked = len(upstream.requests)
        upstream.script = script()[4:]
        answer = await client.post(f"{chat}/chat/completions", json=ASK)
    assert answer.json()["choices"][0]["message"]["content"] == REPORT
    assert len(upstream.requests) == asked + 2
