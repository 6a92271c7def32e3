"""Proves that a stream stays open while the model behind it says nothing."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.surfaces.http.endpoint import pings
from tests.fakes.llm.messages import in_order
from tests.fakes.llm.model import FakeModel, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_openai, put

Json = dict[str, Any]
HELLO: Json = {"model": "any", "max_tokens": 99, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.contract("XA-12")
@pytest.mark.timeout(60)
async def test_a_client_hears_pings_while_a_translated_model_is_silent(
    sqlite_server: TestServer, openai_upstream: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pings, "PING_SECONDS", 0.01)
    await put(sqlite_server, "slow", of_openai(openai_upstream))
    go_on = asyncio.Event()
    openai_upstream.script = [says("One two three.", stall_after=2, go_on=go_on)]
    events: list[Json] = []
    async with (
        sqlite_server.client() as client,
        client.stream("POST", f"{base_url(sqlite_server, 'slow')}/v1/messages", json=HELLO, timeout=50) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                # The model goes on once the client heard of the silence, behind what was said before it.
                if [event["type"] for event in events[-3:]] == ["content_block_delta", "ping", "ping"]:
                    go_on.set()

    assert go_on.is_set()
    assert in_order(events)
    said = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(said) == "One two three."
