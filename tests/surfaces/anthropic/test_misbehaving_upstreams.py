"""Proves that whatever an upstream does, an Anthropic client gets a whole message or a clear error, on both wires."""

import asyncio
import functools
import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.engines.llm.remote.connection import Timeouts
from holdfast.features.endpoints import models
from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages, in_order
from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put

Json = dict[str, Any]
HELLO: Json = {"model": "any", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
# Whatever goes wrong has to be told long before this; only a hang reaches it.
HANG_SECONDS = 40
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

pytestmark = [pytest.mark.contract("XA-12"), pytest.mark.timeout(HANG_SECONDS * 2)]


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def ask(server: TestServer, name: str, streamed: bool, **more: Any) -> Json:
    """One answer, read to its end: the message's blocks, or the error; a stream's events stand in order."""
    async with server.client() as client:
        url = f"{base_url(server, name)}/v1/messages"
        answer = await client.post(url, json={**HELLO, "stream": streamed, **more}, timeout=HANG_SECONDS)
    if answer.status_code != 200 or not streamed:
        told: Json = answer.json()
        assert told["type"] == ("message" if answer.status_code == 200 else "error")
        return told
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    if events[-1]["type"] == "error":
        assert set(events[-1]["error"]) == {"type", "message"}
        return dict(events[-1])
    assert in_order(events), events
    return {"type": "message", "events": events}


@pytest.mark.parametrize(
    "turn",
    [
        says("", chunks=[{"id": "c", "object": "chat.completion.chunk", "choices": []}]),
        says("", body={"id": "c", "object": "chat.completion", "choices": []}),
        says("", body={"object": "list"}),
        says("", raw=STREAM + b"data: {]\n\n"),
        says("", raw=STREAM + b"data: 7\n\n"),
        says("", raw=STREAM + b'data: {"error": {"message": "CUDA is out of memory"}}\n\n'),
        says("", raw=b"SSH-2.0-OpenSSH_9\r\n\r\n"),
        says("One two three.", cut_after=3),
        says("One two three.", end_after=3),
        calls(("look", {"word": "a"}), cut_after=3),
    ],
    ids=["empty", "empty at once", "odd", "no JSON", "no object", "error", "no HTTP", "cut", "ended", "cut in a call"],
)
@pytest.mark.parametrize("more", [{}, {"metadata": {"x_tools": ["calculator"]}}], ids=["translated", "in a turn"])
async def test_an_answer_that_fails_is_told_as_an_error(
    sqlite_server: TestServer, openai_upstream: FakeModel, streamed: bool, turn: Turn, more: Json
) -> None:
    # A whole answer is asked for whole, and nothing of it can be cut between chunks.
    streamed = streamed or (turn.raw is None and turn.body is None and not more)
    await put(sqlite_server, "main", of_openai(openai_upstream))
    openai_upstream.otherwise = turn
    told = await ask(sqlite_server, "main", streamed, **more)

    assert told["type"] == "error" and told["error"]["type"] == "api_error", told


@pytest.mark.parametrize("count", range(9))
async def test_a_stream_of_anthropics_wire_that_is_cut_anywhere_is_never_taken_for_a_whole_one(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages, count: int
) -> None:
    await put(sqlite_server, "main", of_anthropic(anthropic_upstream))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    whole = claude.Answer([thought, {"type": "text", "text": "One two."}])
    assert count < len(whole.events())
    broken = [replace(whole, cut_after=count), replace(whole, fail_after=count)]
    for more in ({}, {"metadata": {"x_tools": ["calculator"]}}):
        for answer in broken:
            anthropic_upstream.script = [answer] * 3
            told = await ask(sqlite_server, "main", True, **more)
            assert told["type"] == "error", (answer, told)


@pytest.mark.slow
@pytest.mark.parametrize(
    "turn",
    [says("", silent=True), says("", drip=True), says("One two three.", stall_after=3)],
    ids=["half-open", "drip", "stalled"],
)
async def test_an_upstream_that_goes_no_further_is_left_after_its_time(
    sqlite_server: TestServer, openai_upstream: FakeModel, monkeypatch: pytest.MonkeyPatch, turn: Turn
) -> None:
    monkeypatch.setattr(models, "Timeouts", functools.partial(Timeouts, idle_seconds=1.5))
    await put(sqlite_server, "main", replace(of_openai(openai_upstream), timeout_seconds=1.5))
    openai_upstream.script = [turn]
    told = await ask(sqlite_server, "main", True)

    assert told["type"] == "error" and told["error"]["type"] == "timeout_error", told
    await asyncio.wait_for(openai_upstream.hung_up.wait(), HANG_SECONDS)


async def test_a_client_that_hangs_up_is_hung_up_on_upstream(
    sqlite_server: TestServer, openai_upstream: FakeModel
) -> None:
    await put(sqlite_server, "main", of_openai(openai_upstream))
    openai_upstream.script = [says("One two three.", stall_after=3)]
    url = f"{base_url(sqlite_server, 'main')}/v1/messages"
    async with (
        sqlite_server.client() as client,
        client.stream("POST", url, json={**HELLO, "stream": True}) as answer,
    ):
        async for line in answer.aiter_lines():
            if "text_delta" in line:
                break
    await asyncio.wait_for(openai_upstream.hung_up.wait(), HANG_SECONDS)
