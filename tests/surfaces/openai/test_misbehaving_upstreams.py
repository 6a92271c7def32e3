"""Proves that whatever an upstream does, a turn with server-side tools ends: in a whole stream, or in a clear error."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from holdfast.engines.llm.model import ChunkEvent
from holdfast.engines.llm.remote.connection import Timeouts
from holdfast.features.endpoints import models
from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support import event_grammar
from tests.support.server import TestServer
from tests.surfaces.openai.endpoint import connect

Json = dict[str, Any]
CALCULATE = calls(("calculator", {"expression": "6*7"}))
READ: Json = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
MEGABYTE = "1+" * 500_000 + "1"
# Whatever goes wrong has to be told long before this; only a hang reaches it.
HANG_SECONDS = 40

pytestmark = [pytest.mark.contract("XS-4"), pytest.mark.timeout(HANG_SECONDS * 2)]


@dataclass
class Told:
    """What a client was told: the status and either an answer or an error, beside everything that came before."""

    status: int
    headers: httpx.Headers
    text: str = ""
    calls: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    error: Json | None = None


@pytest.fixture
def url(sqlite_chat: str) -> str:
    """An endpoint with the usual patience."""
    return sqlite_chat


@pytest.fixture
async def hurried(sqlite_server: TestServer, upstream: FakeModel, monkeypatch: pytest.MonkeyPatch) -> str:
    """One with little patience, for upstreams that never go on."""
    monkeypatch.setattr(models, "Timeouts", functools.partial(Timeouts, idle_seconds=1.5))
    return await connect(sqlite_server, upstream, timeout_seconds=1.5)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def ask(server: TestServer, url: str, streamed: bool, **more: Any) -> Told:
    """One turn with the calculator on, read to its end. The stream is held against the grammar."""
    body = {
        "messages": [{"role": "user", "content": "What is 6 * 7?"}],
        "web_search_options": {"x_tools": ["calculator"]},
        "stream": streamed,
        **more,
    }
    async with server.client() as client:
        answer = await client.post(f"{url}/chat/completions", json=body, timeout=HANG_SECONDS)
    told = Told(answer.status_code, answer.headers)
    if answer.status_code != 200:
        told.error = _checked(answer.json())
    elif streamed:
        _read_stream(told, answer.text)
    else:
        _read_whole(told, answer.json())
    return told


def _checked(body: Json) -> Json:
    assert set(body) == {"error"}
    error = body["error"]
    assert isinstance(error["message"], str) and error["message"]
    assert isinstance(error["type"], str) and error["type"]
    return dict(error)


def _read_stream(told: Told, text: str) -> None:
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if "error" in (last := json.loads(lines[-1]) if lines[-1] != "[DONE]" else {}):
        told.error = _checked(last)
        lines.pop()
    stream: list[Any] = [line if line == "[DONE]" else json.loads(line) for line in lines]
    if told.error is None:
        assert stream[-1] == "[DONE]"
        event_grammar.check(stream)
    assert len({event["id"] for event in stream if not isinstance(event, str)}) == 1, "one stream, one id"
    arguments: dict[int, Json] = {}
    for event in stream:
        if isinstance(event, str):
            continue
        assert event["object"] == "chat.completion.chunk"
        if "type" in event:
            told.events.append(event)
        for choice in event["choices"]:
            told.text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                found = arguments.setdefault(call["index"], {"name": "", "arguments": ""})
                found["name"] += call["function"].get("name") or ""
                found["arguments"] += call["function"].get("arguments") or ""
    told.calls = list(arguments.values())


def _read_whole(told: Told, body: Json) -> None:
    message = body["choices"][0]["message"]
    told.text = message["content"] or ""
    told.calls = [call["function"] for call in message.get("tool_calls") or ()]
    told.events = body.get("x_events", [])


# Failures that leave nothing to answer with.


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (says("", chunks=[{"id": "c", "object": "chat.completion.chunk", "choices": []}]), "upstream_failed"),
        (says("", body={"id": "c", "object": "chat.completion", "choices": []}), "upstream_failed"),
        (says("", body={"object": "list"}), "upstream_failed"),
        (says("", raw=STREAM + b"data: {]\n\n"), "upstream_failed"),
        (says("", raw=STREAM + b"data: 7\n\n"), "upstream_failed"),
        (says("", raw=b"SSH-2.0-OpenSSH_9\r\n\r\n"), "upstream_cut"),
    ],
    ids=["no choices", "no choices at once", "another answer", "no JSON", "no object", "no HTTP"],
)
async def test_an_upstream_that_answers_nothing_is_told_as_an_error(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool, turn: Turn, code: str
) -> None:
    upstream.otherwise = turn
    told = await ask(sqlite_server, url, streamed)
    assert told.error is not None
    assert (told.status, told.error["type"], told.error["code"]) == (502, "upstream_error", code)


@pytest.mark.parametrize("before", [[], [CALCULATE]], ids=["at once", "after a round of tools"])
@pytest.mark.parametrize(
    "turn",
    [
        says("One two three.", cut_after=3),
        says("One two three.", end_after=3),
        calls(("calculator", {"expression": "1+1"}), cut_after=3),
    ],
    ids=["cut", "ended early", "cut in a call"],
)
async def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool, before: list[Turn], turn: Turn
) -> None:
    upstream.script = [*before, turn]
    told = await ask(sqlite_server, url, streamed)
    assert told.error is not None
    assert (told.error["type"], told.error["code"]) == ("upstream_error", "upstream_cut")
    # A stream that had begun can't take its status back.
    assert told.status in ((200, 502) if streamed else (502,))
    assert len(upstream.requests) == len(before) + 1, "what had begun was asked for again"


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        [says("", silent=True)],
        [says("", drip=True)],
        [says("One two three.", stall_after=3)],
        [CALCULATE, calls(("calculator", {"expression": "1+1"}), stall_after=3)],
    ],
    ids=["half-open", "drip", "stalled", "stalled in a call"],
)
async def test_an_upstream_that_goes_no_further_is_left_after_its_time(
    sqlite_server: TestServer, upstream: FakeModel, hurried: str, streamed: bool, script: list[Turn]
) -> None:
    asked = len(script)
    upstream.script = [*script]
    told = await ask(sqlite_server, hurried, streamed)
    assert told.error is not None
    assert (told.error["type"], told.error["code"]) == ("upstream_error", "upstream_timeout")
    assert told.status in ((200, 504) if streamed else (504,))
    assert len(upstream.requests) == asked, "it was waited for twice"
    await asyncio.wait_for(upstream.hung_up.wait(), HANG_SECONDS)


@pytest.mark.one_process("each learns by itself how an upstream fares")
async def test_an_upstream_that_asks_for_patience_is_told_with_the_time_to_wait(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    busy = {"error": {"message": "Slow down.", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
    upstream.otherwise = says("", status=429, headers={"retry-after": "37"}, body=busy)
    told = await ask(sqlite_server, url, streamed)
    again = await ask(sqlite_server, url, streamed)

    assert told.error == busy["error"]
    assert (told.status, told.headers["retry-after"]) == (429, "37")
    assert again.error is not None and again.error["code"] == "rate_limit_exceeded"
    assert again.status == 429 and 1 <= int(again.headers["retry-after"]) <= 37
    assert len(upstream.requests) == 1


async def test_patience_that_runs_out_between_rounds_is_told_in_the_stream(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    upstream.script = [CALCULATE]
    upstream.otherwise = says("", status=429, headers={"retry-after": "37"})
    told = await ask(sqlite_server, url, streamed)
    assert told.error is not None
    assert told.status == (200 if streamed else 429)


async def test_a_short_wait_is_waited_for(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    upstream.script = [
        says("", status=429, headers={"retry-after": "0"}),
        CALCULATE,
        says("", status=503),
        says("It is 42."),
    ]
    told = await ask(sqlite_server, url, streamed)
    assert (told.error, told.text) == (None, "It is 42.")


async def test_an_error_in_the_middle_of_a_stream_is_told_in_the_upstreams_words(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    begun = says("One ", pieces=1).made()[:2]
    upstream.script = [
        says("", chunks=[*begun, {"error": {"message": "CUDA is out of memory", "type": "server_error"}}])
    ]
    told = await ask(sqlite_server, url, streamed)
    assert told.error is not None and "CUDA is out of memory" in told.error["message"]


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_what_nobody_foresaw_is_told_without_our_insides(
    sqlite_server: TestServer, sqlite_chat: str, streamed: bool, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> AsyncIterator[Any]:
        yield ChunkEvent(says("One ", pieces=1).made()[1])
        raise RuntimeError("the insides")

    monkeypatch.setattr(type(sqlite_server.services.chat_turns), "turn", broken)
    question = {"messages": [{"role": "user", "content": "Hm?"}], "x_chat_id": "any"}
    body: Json = {"input": "Hm?"} if path == "responses" else question
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/{path}", json={**body, "stream": streamed})
    assert answer.status_code == (200 if streamed else 500)
    assert "the insides" not in answer.text
    assert "request id" in answer.text and '"error"' in answer.text
    if not streamed:
        _checked(answer.json())


# Failures that the model is told of, so that the turn goes on.


@pytest.mark.parametrize(
    ("call", "says_to_the_model"),
    [
        (("calculator", '{"expression": "6*'), "not valid JSON"),
        (("calculator", "[6, 7]"), "must be one JSON object"),
        (("calculator", {"sum": "6*7"}), "error"),
        (("calculator", {"expression": 42}), "error"),
        (("calculator", {"expression": MEGABYTE}), "error"),
        (("launch_rocket", {"to": "the moon"}), "No tool 'launch_rocket' exists"),
        (("web_search", {"query": "not offered"}), "No tool 'web_search' exists"),
    ],
    ids=["invalid JSON", "an array", "a wrong name", "a wrong type", "a megabyte", "unknown", "not offered"],
)
async def test_a_call_that_cannot_be_made_is_told_to_the_model_and_the_turn_goes_on(
    sqlite_server: TestServer,
    upstream: FakeModel,
    url: str,
    streamed: bool,
    call: tuple[str, Any],
    says_to_the_model: str,
) -> None:
    upstream.script = [calls(call), says("I could not.")]
    told = await ask(sqlite_server, url, streamed)
    assert (told.error, told.text) == (None, "I could not.")
    assert says_to_the_model in upstream.requests[1]["messages"][-1]["content"]
    assert upstream.refused == []


@pytest.mark.parametrize("pieces", [0, 1, 3, 400], ids=["whole", "one", "three", "bytes"])
async def test_calls_are_understood_whole_and_in_pieces(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool, pieces: int
) -> None:
    both = calls(("calculator", {"expression": "6*7"}), ("calculator", {"expression": "1+1"}), pieces=pieces)
    upstream.script = [both, says("It is 42, and 2.")]
    told = await ask(sqlite_server, url, streamed)

    assert (told.error, told.text) == (None, "It is 42, and 2.")
    results = [message["content"] for message in upstream.requests[1]["messages"] if message["role"] == "tool"]
    assert [json.loads(result)["result"] for result in results] == [42, 2]
    assert [event["type"] for event in told.events].count("x_research.calculating") == 2
    assert upstream.refused == []


@pytest.mark.parametrize("pieces", [0, 50])
async def test_a_megabyte_of_arguments_reaches_the_client_whose_tool_it_is(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool, pieces: int
) -> None:
    upstream.script = [calls(("read_file", {"path": MEGABYTE}), pieces=pieces)]
    told = await ask(sqlite_server, url, streamed, tools=[READ])
    (call,) = told.calls
    assert call["name"] == "read_file"
    assert json.loads(call["arguments"]) == {"path": MEGABYTE}


async def test_a_model_that_never_stops_calling_is_stopped(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    upstream.otherwise = CALCULATE
    told = await ask(sqlite_server, url, streamed)
    assert told.error is None and told.text
    assert len(upstream.requests) == 6


_CALL: Json = {"id": "a", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6*7"}'}}


ODD_CHOICES: list[Any] = [
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "index": 0}, {**_CALL, "index": 1}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "id": None}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "id": 7, "index": "0"}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": "", "arguments": "{}"}}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": "calculator", "arguments": None}}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": "calculator", "arguments": {}}}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": 7, "arguments": 7}}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": None}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": "x" * 5000, "arguments": "{}"}}]}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "function": {"name": "läuft nicht!", "arguments": ""}}]}}],
    [{"index": 0, "delta": {"tool_calls": [None, 7, "x", _CALL]}}],
    [{"index": 0, "delta": {"tool_calls": {"0": _CALL}}}],
    [{"index": 0, "delta": {"tool_calls": [{**_CALL, "index": -1}]}}],
    [{"index": 0, "delta": {"content": 7}}],
    [{"index": 0, "delta": {"content": ["text", {"type": "text", "text": "Hm"}]}}],
    [{"index": 0, "delta": {"content": "\ud83d"}}],
    [{"index": 0, "delta": {"role": None, "content": None}}],
    [{"index": 0, "delta": None}],
    [{"index": 0}],
    [{"index": "zero", "delta": {"content": "Hm"}}],
    [{"index": 3, "delta": {"content": "Hm"}}],
    [{"delta": {"content": "Hm"}, "logprobs": 7}],
    [None],
    {"0": {"delta": {"content": "Hm"}}},
    None,
    7,
]


@pytest.mark.slow
async def test_chunks_of_any_shape_end_in_a_stream_or_in_an_error(
    sqlite_server: TestServer, upstream: FakeModel, url: str, streamed: bool
) -> None:
    end = says("", usage=None).made()[-1]
    for choices in ODD_CHOICES:
        stamp = {"id": 7, "object": None, "created": "then", "model": None}
        upstream.script = [
            says("", chunks=[{**stamp, "choices": choices, "usage": {"total_tokens": "x"}}, end]),
            says("It is 42."),
        ]
        told = await ask(sqlite_server, url, streamed)
        assert told.status in (200, 502), choices
        assert upstream.refused == [], choices
