"""Proves relaying: bytes and unknown fields as they are, errors and hang-ups passed on, usage counted."""

import asyncio
import json
from collections.abc import Callable

import pytest

from holdfast.features.usage.model import UsageFilter
from tests.fakes.llm.model import FakeModel, says
from tests.support.server import TestServer
from tests.surfaces.openai.endpoint import connect

HELLO = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.contract("XS-1")
async def test_an_answer_comes_back_with_every_field_it_has(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = [says("Hi.", extra={"x_vendor": {"deep": [1, 2.5, None]}, "service_tier": "odd"})]
    sent = {**HELLO, "temperature": 0.25, "vendor_field": {"a": [1]}, "n": 1, "logprobs": True}
    async with server.client() as client:
        answer = await client.post(f"{chat}/chat/completions", json=sent)

    assert answer.status_code == 200, answer.text
    assert answer.json() == {**says("Hi.", extra={"x_vendor": {"deep": [1, 2.5, None]}, "service_tier": "odd"}).whole()}
    assert upstream.requests == [{**sent, "model": "fake-model"}]
    assert answer.headers["x-ratelimit-limit"] == "6000"
    assert "authorization" in upstream.headers[0] and "xero_" not in str(upstream.headers)


async def test_a_stream_is_relayed_byte_for_byte(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    turn = says("One two three.", pieces=3, extra={"odd": "…"})
    upstream.script = [turn]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "stream": True})

    wanted = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in turn.made()) + b"data: [DONE]\n\n"
    assert answer.content == wanted
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-length" not in answer.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_are_counted_from_the_usage_that_was_told(
    server: TestServer, upstream: FakeModel, stream: bool
) -> None:
    url = await connect(server, upstream, price_in=1.0, price_out=2.0)
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000, "total_tokens": 1_500_000}
    upstream.script = [says("Hi.", usage=usage)]
    async with server.client() as client:
        await client.post(f"{url}/chat/completions", json={**HELLO, "stream": stream})

    rows = await server.services.usage.report(server.owner, UsageFilter(source="chat"), ["model"])
    found = {(row.kind, row.model): row.amount for row in rows}
    assert found["tokens_in", "fake-model"] == 1_000_000
    assert found["tokens_out", "fake-model"] == 500_000
    assert found["cost", "fake-model"] == 2.0
    assert found["requests", ""] == 1


async def test_a_stream_that_tells_no_usage_is_counted_by_estimate(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("One two three four.", pieces=4, usage=None)]
    async with sqlite_server.client() as client:
        await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "stream": True})

    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["model"])
    found = {(row.kind, row.model): row.amount for row in rows}
    assert found["tokens_in", "fake-model"] > 0 and found["tokens_out", "fake-model"] >= 4


async def test_an_upstreams_refusal_keeps_its_status_and_words(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    error = {"message": "Too long.", "type": "invalid_request_error", "param": "messages", "code": "context_length"}
    upstream.script = [says("", status=400, body={"error": error})]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json=HELLO)

    assert (answer.status_code, answer.json()) == (400, {"error": error})
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["source"])
    assert {row.kind for row in rows} == {"requests"}


async def test_an_upstream_that_refuses_our_key_is_not_the_clients_fault(
    sqlite_server: TestServer, upstream: FakeModel
) -> None:
    url = await connect(sqlite_server, upstream)
    owner, workspace_id = sqlite_server.owner, sqlite_server.start.workspace_id
    await sqlite_server.services.secrets.set(owner, workspace_id, "MODEL_KEY", "sk-wrong")
    upstream.otherwise = says("", status=401, body={"error": {"message": "Bad key sk-wrong", "type": "x"}})
    async with sqlite_server.client() as client:
        answer = await client.post(f"{url}/chat/completions", json=HELLO)

    assert upstream.headers[-1]["authorization"] == "Bearer sk-wrong"
    assert answer.status_code >= 400
    assert "sk-wrong" not in answer.text


async def test_a_client_that_hangs_up_is_hung_up_on_upstream(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("One two three.", pieces=3, stall_after=2)]
    async with sqlite_server.client() as client:
        request = client.build_request("POST", f"{sqlite_chat}/chat/completions", json={**HELLO, "stream": True})
        answer = await client.send(request, stream=True)
        async for _ in answer.aiter_bytes():
            break
        await answer.aclose()
    await until(upstream.hung_up.is_set)


@pytest.mark.parametrize("server_tools", [False, True], ids=["relayed", "with server tools"])
async def test_what_was_used_before_a_client_hung_up_is_counted(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str, server_tools: bool
) -> None:
    upstream.script = [says("One two three.", pieces=3, stall_after=2)]
    body = {**HELLO, "stream": True, **({"web_search_options": {"x_tools": ["calculator"]}} if server_tools else {})}
    async with sqlite_server.client() as client:
        request = client.build_request("POST", f"{sqlite_chat}/chat/completions", json=body)
        answer = await client.send(request, stream=True)
        async for _ in answer.aiter_bytes():
            break
        await answer.aclose()
    await until(upstream.hung_up.is_set)
    found: dict[str, float] = {}
    async with asyncio.timeout(20):
        while "tokens_out" not in found:
            rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["model"])
            found = {row.kind: row.amount for row in rows}
    assert found["tokens_in"] > 0 and found["tokens_out"] > 0


@pytest.mark.one_process("a report lacks the other's last second")
async def test_what_was_used_before_the_upstream_broke_off_is_counted(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    for more in ({}, {"web_search_options": {"x_tools": ["calculator"]}}):
        upstream.script = [says("One two three.", pieces=3, cut_after=2)]
        async with sqlite_server.client() as client:
            await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "stream": True, **more})
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["model"])
    found = {row.kind: row.amount for row in rows}
    assert found["tokens_in"] > 10 and found["tokens_out"] >= 3


async def test_a_client_that_hangs_up_before_the_answer_is_hung_up_on_upstream(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("", silent=True)]
    async with sqlite_server.client() as client:
        asking = asyncio.create_task(client.post(f"{sqlite_chat}/chat/completions", json=HELLO))
        await until(upstream.asked.is_set)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await until(upstream.hung_up.is_set)


async def test_a_stream_that_is_cut_upstream_ends_with_an_error(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("One two three.", pieces=3, cut_after=2)]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "stream": True})

    *_, last = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert json.loads(last[6:])["error"]["code"] == "upstream_cut"
    assert "[DONE]" not in answer.text


async def test_a_changed_key_and_a_changed_endpoint_show_at_once(
    server: TestServer, upstream: FakeModel, chat: str
) -> None:
    services, owner = server.services, server.owner
    async with server.client() as client:
        first = await client.post(f"{chat}/chat/completions", json=HELLO)
        await services.secrets.clear(owner, server.start.workspace_id, "MODEL_KEY")
        without = await client.post(f"{chat}/chat/completions", json=HELLO)
        await connect(server, upstream)
        again = await client.post(f"{chat}/chat/completions", json=HELLO)
        await services.endpoints.remove(owner, server.start.project_id, "main")
        gone = await client.post(f"{chat}/chat/completions", json=HELLO)

    assert [each.status_code for each in (first, without, again, gone)] == [200, 409, 200, 404]
    assert without.json()["error"]["code"] == "secret_not_set"


async def test_large_bodies_pass(sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 6_000_000}}
    upstream.script = [says("x" * 9_000_000, pieces=1)]
    async with sqlite_server.client() as client:
        body = {**HELLO, "messages": [{"role": "user", "content": [image]}]}
        answer = await client.post(f"{sqlite_chat}/chat/completions", json=body)

    assert len(answer.json()["choices"][0]["message"]["content"]) == 9_000_000
    assert upstream.requests[0]["messages"][0]["content"] == [image]
