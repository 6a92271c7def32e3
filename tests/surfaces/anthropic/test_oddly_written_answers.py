"""Proves that an answer is understood however an upstream writes it, by clients of both wires, streamed and whole."""

import gzip
import json
from typing import Any, Literal

import httpx
import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from tests.fakes.llm.messages import in_order
from tests.fakes.llm.messages import says as messages_says
from tests.fakes.llm.model import says
from tests.fakes.llm.raw import raw_answer
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, put

Json = dict[str, Any]
Kind = Literal["openai", "anthropic"]
TEXT = "Good day to you."
JSON, EVENTS = "content-type: application/json", "content-type: text/event-stream"
MARK = b"\xef\xbb\xbf"

pytestmark = [pytest.mark.contract("XA-12"), pytest.mark.timeout(60)]


def written(kind: Kind, streamed: bool) -> bytes:
    """An answer as an upstream of that wire writes it."""
    if not streamed:
        return json.dumps(says(TEXT).whole() if kind == "openai" else messages_says(TEXT).message()).encode()
    if kind == "anthropic":
        return b"".join(messages_says(TEXT).stream())
    chunks = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in says(TEXT).made()]
    return b"".join(chunks) + b"data: [DONE]\n\n"


async def ask(
    server: TestServer, wire: Kind, kind: Kind, streamed: bool, body: bytes, *headers: str
) -> tuple[int, str]:
    """The status, and what was said or why not."""
    async with raw_answer(body, *headers) as url, server.client() as client:
        await put(server, "odd", EndpointUpstream(base_url=url, model="m", kind=kind))
        path = "chat/completions" if wire == "openai" else "messages"
        asked = {"model": "m", "max_tokens": 99, "stream": streamed, "messages": [{"role": "user", "content": "Hi"}]}
        answer = await client.post(f"{base_url(server, 'odd')}/v1/{path}", json=asked)
    if answer.status_code != 200:
        return answer.status_code, answer.json()["error"]["message"]
    if not streamed:
        return 200, _said(wire, answer.json())
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
    events = [json.loads(line) for line in lines]
    assert wire == "openai" or in_order(events), events
    pieces = [_delta(wire, event) for event in events]
    return 200, "".join(pieces)


def _said(wire: Kind, whole: Json) -> str:
    if wire == "openai":
        return str(whole["choices"][0]["message"]["content"])
    return "".join(block["text"] for block in whole["content"])


def _delta(wire: Kind, event: Json) -> str:
    if wire == "openai":
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    return str(event["delta"]["text"]) if event["type"] == "content_block_delta" else ""


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_an_answer_of_a_wrong_type_or_packing_is_read_all_the_same(
    sqlite_server: TestServer, wire: Kind, kind: Kind, streamed: bool
) -> None:
    body = written(kind, streamed)
    right, wrong = (EVENTS, JSON) if streamed else (JSON, EVENTS)
    ways = [
        (body, right.upper()),
        (body, "content-type: text/plain"),
        (body, wrong),
        (body, "x-no: type"),
        (gzip.compress(body), f"{right}\r\ncontent-encoding: gzip"),
    ]
    if wire != kind:
        ways.append((MARK + body, right))
    for sent, head in ways:
        assert await ask(sqlite_server, wire, kind, streamed, sent, head) == (200, TEXT), head


@pytest.mark.parametrize(("wire", "kind"), [("anthropic", "openai"), ("openai", "anthropic")])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_half_a_character_costs_no_more_than_itself(
    sqlite_server: TestServer, wire: Kind, kind: Kind, streamed: bool
) -> None:
    body, head = written(kind, streamed), EVENTS if streamed else JSON
    for odd in (rb"\ud83d", b"\xff"):
        said = await ask(sqlite_server, wire, kind, streamed, body.replace(b" to ", b" %b " % odd), head)
        assert said == (200, TEXT.replace(" to ", " \ufffd ")), odd


@pytest.mark.parametrize(("wire", "kind"), [("anthropic", "openai"), ("openai", "anthropic")])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_what_is_no_answer_is_an_error_that_says_so(
    sqlite_server: TestServer, wire: Kind, kind: Kind, streamed: bool
) -> None:
    page = await ask(sqlite_server, wire, kind, streamed, b"<h1>Hello</h1>", "content-type: text/html")
    nothing = await ask(sqlite_server, wire, kind, streamed, b"{}", JSON)
    cut = await ask(sqlite_server, wire, kind, streamed, b"no gzip", f"{JSON}\r\ncontent-encoding: gzip")
    bomb = gzip.compress(b"data: " + b" " * 40_000_000)
    large = await ask(sqlite_server, wire, kind, streamed, bomb, f"{EVENTS}\r\ncontent-encoding: gzip")

    assert page == (502, "The upstream answered with text/html, which is no answer of a model.")
    assert nothing[0] == cut[0] == large[0] == 502
    assert "without any" in nothing[1] and "compressed" in cut[1] and "too long" in large[1]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_client_of_the_same_wire_is_not_left_with_what_is_no_answer_either(
    sqlite_server: TestServer, kind: Kind, streamed: bool
) -> None:
    async def told(body: bytes, head: str) -> tuple[int, str]:
        return await ask(sqlite_server, kind, kind, streamed, body, head)

    page = await told(b"<h1>Sign in</h1>", "content-type: text/html; charset=utf-8")
    nothing = await told(b"", EVENTS if streamed else JSON)
    failure = await told(json.dumps({"error": {"message": "Overloaded", "type": "overloaded_error"}}).encode(), JSON)

    assert page[0] == nothing[0] == failure[0] == 502
    assert "text/html" in page[1] and "nothing" in nothing[1] and "Overloaded" in failure[1]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_answer_that_came_in_the_other_way_is_told_as_it_was_asked_for(
    sqlite_server: TestServer, kind: Kind, streamed: bool
) -> None:
    body, head = written(kind, not streamed), JSON if streamed else EVENTS

    assert await ask(sqlite_server, kind, kind, streamed, body, head) == (200, TEXT)


async def test_behind_a_page_to_sign_in_the_next_upstream_is_asked(sqlite_server: TestServer) -> None:
    async with (
        raw_answer(b"<h1>Sign in</h1>", "content-type: text/html") as page,
        raw_answer(written("openai", False), JSON) as well,
        sqlite_server.client() as client,
    ):
        await put(
            sqlite_server,
            "odd",
            *(EndpointUpstream(base_url=url, model="m", priority=at) for at, url in enumerate((page, well))),
        )
        asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        answer = await client.post(f"{base_url(sqlite_server, 'odd')}/v1/chat/completions", json=asked)

    assert (answer.status_code, _said("openai", answer.json())) == (200, TEXT)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_long_answer_that_is_cut_is_not_taken_for_a_whole_one(sqlite_server: TestServer, kind: Kind) -> None:
    body = b"%x\r\n%b\r\n" % (9_000_000, b"{" + b" " * 8_999_999)
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(sqlite_server, kind, kind, False, body, f"{JSON}\r\ntransfer-encoding: chunked")


async def test_a_piece_without_text_in_the_middle_is_no_event(sqlite_server: TestServer) -> None:
    turn = says("")
    turn.chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in ("Good ", "", "day.")
    ]
    turn.chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in turn.made())

    assert await ask(sqlite_server, "anthropic", "openai", True, body, EVENTS) == (200, "Good day.")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_half_an_event_of_a_stream_that_is_cut_reaches_no_client(sqlite_server: TestServer, kind: Kind) -> None:
    whole = written(kind, True)
    events = [piece + b"\n\n" for piece in whole.split(b"\n\n") if piece]
    cut = b"".join(events[:4]) + events[4][:-20]
    chunked = f"{EVENTS}\r\ntransfer-encoding: chunked"
    async with raw_answer(b"%x\r\n%b\r\n" % (len(cut), cut), chunked) as url, sqlite_server.client() as client:
        await put(sqlite_server, "odd", EndpointUpstream(base_url=url, model="m", kind=kind))
        path = "chat/completions" if kind == "openai" else "messages"
        asked = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        answer = await client.post(f"{base_url(sqlite_server, 'odd')}/v1/{path}", json=asked)
    told = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]

    assert len(told) == 5 and "in the middle of its answer" in told[-1]["error"]["message"]


async def test_a_long_line_passes_before_it_ended(sqlite_server: TestServer) -> None:
    line = b"data: " + b"x" * 300_000
    assert (await relayed_bytes(sqlite_server, line)).startswith(line)
    assert await relayed_bytes(sqlite_server, b"data: x") == b"data: x"


async def relayed_bytes(server: TestServer, body: bytes) -> bytes:
    async with raw_answer(body, EVENTS) as url, server.client() as client:
        await put(server, "odd", EndpointUpstream(base_url=url, model="m"))
        asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        return (await client.post(f"{base_url(server, 'odd')}/v1/chat/completions", json=asked)).content
