"""Proves that an answer is counted also where nobody heard its end."""

from typing import Any

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.usage.model import UsageFilter
from tests.fakes.llm import messages as claude
from tests.fakes.llm.model import FakeModel, says
from tests.fakes.llm.raw import raw_answer
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_openai, put

Json = dict[str, Any]


@pytest.mark.contract("XA-12")
async def test_what_was_said_before_a_stream_broke_off_is_counted(sqlite_server: TestServer) -> None:
    words = [{"type": "text", "text": f"word {number}"} for number in range(9)]
    whole = claude.Answer(words).stream()
    said = b"".join(whole[:-2])
    head = "content-type: text/event-stream\r\ntransfer-encoding: chunked"
    async with raw_answer(b"%x\r\n%b\r\n" % (len(said), said), head) as url, sqlite_server.client() as client:
        await put(sqlite_server, "main", EndpointUpstream(base_url=url, model="m", kind="anthropic"))
        asked = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        await client.post(f"{base_url(sqlite_server, 'main')}/v1/messages", json=asked)
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["source"])
    used = {row.kind: row.amount for row in rows}

    assert used["tokens_in"] == sum(claude.USAGE[name] for name in claude.USAGE if name != "output_tokens")
    # An event each, as long as the model's own count has not come.
    assert used["tokens_out"] == len(whole) - 2


@pytest.mark.contract("XS-1")
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("responses", {"input": "Hello"}),
        ("chat/completions", {"web_search_options": {"x_tools": ["calculator"]}}),
        ("messages", {"max_tokens": 9, "metadata": {"x_tools": ["calculator"]}}),
    ],
)
async def test_a_turn_is_counted_and_told_where_the_upstream_tells_no_counts(
    sqlite_server: TestServer, openai_upstream: FakeModel, path: str, more: Json
) -> None:
    openai_upstream.script = [says("word " * 80, usage=None)]
    await put(sqlite_server, "main", of_openai(openai_upstream))
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **more}
    async with sqlite_server.client() as client:
        answer = (await client.post(f"{base_url(sqlite_server, 'main')}/v1/{path}", json=body)).json()
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["source"])
    used = {row.kind: row.amount for row in rows}
    told = answer.get("usage") or next(
        event["usage"] for event in answer["x_events"] if event["type"] == "x_chat.metadata"
    )

    assert used["tokens_out"] == 101 and used["tokens_in"] > 0
    assert 101 in told.values()
