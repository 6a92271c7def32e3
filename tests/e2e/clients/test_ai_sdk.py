"""The Vercel AI SDK by its three ways (openai-compatible, chat, responses), through an endpoint to an upstream."""

import asyncio
import json
import os
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.test_openai_clients import NODE, NODE_PROGRAM
from tests.fakes.llm.model import FakeModel, calls, model, says
from tests.support.server import serving
from tests.surfaces.openai.endpoint import connect

pytestmark = [pytest.mark.slow, pytest.mark.contract("XS-1")]

Json = dict[str, Any]
WEATHER = ("weather", {"city": "Oslo"})
SUM = ("calculator", {"expression": "6*7"})
SEARCH = ("file_search", {"query": "six times seven"})


def told(request: Json) -> list[Any]:
    """What a request to the upstream has been told by tools and said by whom."""
    return [(message["role"], message["content"]) for message in request["messages"] if message["role"] != "system"]


async def tour(url: str, key: str, way: str) -> Json:
    process = await asyncio.create_subprocess_exec(
        NODE_PROGRAM,
        "ai_sdk.mjs",
        cwd=NODE,
        env={**os.environ, "TOUR": json.dumps({"url": url, "key": key, "way": way})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()[-5000:]
    return dict(json.loads(out))


def script(upstream: FakeModel, way: str) -> None:
    ours = SEARCH if way == "responses" else SUM
    upstream.script = [
        says("Hello."),
        says("Streamed in pieces.", pieces=4),
        calls(WEATHER, content="Let me look."),
        says("It rains."),
        says("Sun tomorrow."),
        says('{"name": "Ada", "age": 36}'),
        calls(ours, content="First the sum."),
        calls(WEATHER),
        says("42, and it rains."),
        says("You are welcome."),
        says("Blue it is."),
        says("Blue."),
        says("Nothing."),
        says("Again nothing."),
    ]


@pytest.mark.parametrize("way", ["compatible", "chat", "responses"])
async def test_the_ai_sdk_works_by_each_of_its_ways(sqlite_database: SqliteDatabase, way: str) -> None:
    async with model() as upstream, serving(sqlite_database) as server:
        script(upstream, way)
        seen = await tour(await connect(server, upstream), server.key, way)
    assert upstream.refused == []
    assert seen["plain"] == ["Hello.", 15, "stop"]
    assert seen["streamed"] == ["Streamed in pieces.", True, 15]
    assert seen["tool"] == ["It rains.", ["Rain in Oslo."]]
    assert seen["second"] == "Sun tomorrow."
    assert seen["structured"] == {"name": "Ada", "age": 36}
    assert seen["mixed"] == ["42, and it rains.", True]
    assert seen["usage"] == 45
    assert seen["after"] == "You are welcome."
    requests = upstream.requests
    assert told(requests[4]) == [
        ("user", "What is the weather in Oslo?"),
        ("assistant", "Let me look."),
        ("tool", "Rain in Oslo."),
        ("assistant", "It rains."),
        ("user", "And tomorrow?"),
    ]
    # What ours gave is there when their result comes, and in the turn after it.
    for request in (requests[8], requests[9]):
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        assert len(results) == 2 and results[1] == "Rain in Oslo."
    if way == "responses":
        assert (seen["kept"], seen["bare"]) == (["Blue it is.", "Blue."], "Again nothing.")
        assert told(requests[11]) == [("user", "Remember blue."), ("assistant", "Blue it is."), ("user", "Which?")]
        assert [text for _, text in told(requests[13])] == ["Nothing kept.", "Nothing.", "And again."]
