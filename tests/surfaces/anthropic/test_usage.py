"""Proves that an answer is counted also where nobody heard its end."""

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.usage.model import UsageFilter
from tests.fakes.llm import messages as claude
from tests.fakes.llm.raw import raw_answer
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, put


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
