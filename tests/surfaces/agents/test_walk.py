"""Owns the proof that an agent is defined, run in its sandbox, followed and over, on each store, over HTTP."""

import json
import re
from typing import Any

import pytest

from holdfast import __version__
from tests.surfaces.agents.conftest import Agency, speaking

pytestmark = pytest.mark.slow


async def test_an_agent_says_something_and_completes(house: Agency) -> None:
    agent = await house.define(command=speaking("say('Hello ' + start['prompt'])", "over('That was it.')"))
    session = await house.start(agent, "world")
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    assert found["result"]["summary"] == "That was it."
    told = await house.told(session)
    assert [each["data"]["text"] for each in told if each["kind"] == "text"] == ["Hello world"]
    states = [each["data"]["state"] for each in told if each["kind"] == "state"]
    assert states == ["starting", "running", "completed"]
    assert not (house.data_dir / "sessions" / session).exists()


async def test_last_words_that_were_told_in_pieces_are_the_summary(house: Agency) -> None:
    pieces = (
        "tell(type='said', text='All ', whole=False)",
        "time.sleep(0.5)",
        "tell(type='said', text='green.', whole=False)",
    )
    agent = await house.define(command=speaking("say('First.')", *pieces, "time.sleep(0.5)", "over('')"))
    session = await house.start(agent)
    found = await house.until(session)
    assert (found["state"], found["result"]["summary"]) == ("completed", "All green."), found["error"]
    told = [each["data"] for each in await house.told(session, "text")]
    # Whoever reads along is told where a paragraph ends.
    assert "".join(each["text"] for each in told) == "First.All green." and told[-1]["whole"]


async def test_the_built_in_agent_asks_its_model_through_our_router(house: Agency) -> None:
    house.model.script.final = "I am the model."
    agent = await house.define(runner="builtin")
    found = await house.until(await house.start(agent, "Who are you?"))
    assert found["state"] == "completed", found["error"]
    assert (found["tokens_in"], found["tokens_out"]) == (10, 5)
    assert "Who are you?" in house.model.script.texts[0]
    assert house.model.script.problems == []
    # What drove it is kept to the byte: package, version and digest.
    pin = found["runner_pin"]
    assert (pin["package"], pin["version"]) == ("holdfast", __version__)
    assert re.fullmatch(r"sha256-[0-9a-f]{64}", pin["integrity"])


async def test_events_are_followed_and_resumed_by_their_number(house: Agency) -> None:
    agent = await house.define(command=speaking("say('one')", "heard()", "say('two')", "over()"))
    session = await house.start(agent)
    await house.until_told(session, "text")
    async with house.client.stream("GET", f"/api/sessions/{session}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        first = await _read(stream, until="text")
        answer = await house.client.post(f"/api/sessions/{session}/messages", json={"text": "go on"})
        assert answer.status_code == 200, answer.text
    seen = first[-1]["id"]
    async with house.client.stream("GET", f"/api/sessions/{session}/events", headers={"Last-Event-ID": seen}) as stream:
        rest = await _read(stream)
    assert [int(each["id"]) for each in rest] == list(range(int(seen) + 1, int(rest[-1]["id"]) + 1))
    texts = [each["data"]["data"]["text"] for each in (*first, *rest) if each["event"] == "text"]
    assert texts == ["one", "two"]
    assert rest[-1]["event"] == "result"


async def _read(stream: Any, until: str | None = None) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    async for line in stream.aiter_lines():
        name, _, value = line.partition(": ")
        if name in ("id", "event"):
            current[name] = value
        elif name == "data":
            current["data"] = json.loads(value)
        elif not line and current.get("data"):
            events.append(current)
            if current["event"] == until:
                return events
            current = {}
    return events
