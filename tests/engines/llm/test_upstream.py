"""One upstream: what it is sent, what comes back as chunks or as bytes, and how each misbehaviour ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvloop

from holdfast.core.errors import Invalid, UpstreamFailed
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.llm.remote.connection import Timeouts, UpstreamConnections, parse_base_url
from holdfast.engines.llm.remote.upstream import Upstream, UpstreamRefused, UpstreamSpec
from holdfast.engines.llm.remote.wire import UpstreamCut, UpstreamTimeout, UpstreamUnreachable
from tests.fakes.flood import flood
from tests.fakes.llm.model import KEY, FakeModel, Turn, calls, model, says
from tests.support.access.credentials import credential

BODY: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}
# Short where a test waits for the limit, long where it must not.
SHORT = Timeouts(first_byte_seconds=1.0, idle_seconds=1.0)


@pytest.fixture
async def connections() -> AsyncIterator[UpstreamConnections]:
    made = UpstreamConnections()
    yield made
    await made.aclose()


def upstream(fake: FakeModel, connections: UpstreamConnections, timeouts: Timeouts | None = None) -> Upstream:
    return Upstream(
        UpstreamSpec(fake.url, "fake-model", credential(KEY, fake.url), timeouts=timeouts or Timeouts()), connections
    )


async def text_of(asked: Upstream, body: dict[str, Any] = BODY) -> str:
    return "".join(
        [choice["delta"].get("content") or "" async for chunk in asked.stream(body) for choice in chunk["choices"]]
    )


async def test_a_stream_comes_as_parsed_chunks_and_asks_for_usage(connections: UpstreamConnections) -> None:
    async with model(says("Hello there.", extra={"x_new_field": {"deep": 1}})) as fake:
        chunks = [chunk async for chunk in upstream(fake, connections).stream({**BODY, "seed": 7})]
    assert "".join(c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"]) == "Hello there."
    assert chunks[-1]["usage"]["total_tokens"] == 15
    assert all(chunk["x_new_field"] == {"deep": 1} for chunk in chunks)
    sent = fake.requests[0]
    assert (sent["model"], sent["stream"], sent["stream_options"]) == ("fake-model", True, {"include_usage": True})
    assert sent["seed"] == 7
    assert fake.refused == []


async def test_connections_are_kept_and_used_again(connections: UpstreamConnections) -> None:
    async with model() as fake:
        asked = upstream(fake, connections)
        for _ in range(20):
            await text_of(asked)
        assert fake.connections == 1
        assert connections.open == 1


def test_uvloop_serves_as_well_as_asyncio() -> None:
    async def ask() -> tuple[str, int]:
        connections = UpstreamConnections()
        async with model(says("Hello there.")) as fake:
            text = await text_of(upstream(fake, connections))
            await text_of(upstream(fake, connections))
            await connections.aclose()
        return text, fake.connections

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(uvloop.run, ask()).result(60) == ("Hello there.", 1)


async def test_a_kept_connection_that_its_server_closed_is_replaced_silently(connections: UpstreamConnections) -> None:
    async with model() as fake:
        fake.close_each = True
        asked = upstream(fake, connections)
        for _ in range(5):
            assert await text_of(asked) == "Nothing was scripted."
        assert len(fake.requests) == 5


async def test_a_relay_passes_bytes_status_and_unknown_headers_untouched(connections: UpstreamConnections) -> None:
    async with model(says("One two three.", headers={"x-ratelimit-left": "9", "set-cookie": "a=b"})) as fake:
        headers = {b"content-type": b"application/json", b"authorization": b"Bearer ours", b"cookie": b"s=1"}
        answer = await upstream(fake, connections).relay("POST", "/chat/completions", headers, {**BODY, "stream": True})
        raw = b"".join([piece async for piece in answer.body])
    assert answer.status == 200
    named = dict(answer.headers)
    assert named[b"x-ratelimit-left"] == b"9"
    assert named[b"content-type"] == b"text/event-stream"
    assert not {b"set-cookie", b"transfer-encoding", b"connection"} & set(named)
    expected = [f"data: {json.dumps(chunk)}\n\n" for chunk in says("One two three.").made()]
    assert raw.decode() == "".join(expected) + "data: [DONE]\n\n"
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "cookie" not in fake.headers[0]


async def test_a_relay_passes_an_error_answer_on(connections: UpstreamConnections) -> None:
    async with model(Turn(status=418, body={"error": {"message": "I am a teapot"}})) as fake:
        answer = await upstream(fake, connections).relay("GET", "/models", {}, None)
        assert answer.status == 418
        assert json.loads(b"".join([piece async for piece in answer.body])) == {"error": {"message": "I am a teapot"}}
        assert fake.paths == ["GET /v1/models"]


async def test_dotted_names_go_out_rewritten_and_come_back_whole(connections: UpstreamConnections) -> None:
    body = {
        **BODY,
        "messages": [
            {"role": "user", "content": "Hello"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "repo.read", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "done"},
        ],
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in ("repo.read", "repo_read", "x" * 80)
        ],
        "tool_choice": {"type": "function", "function": {"name": "repo.read"}},
    }
    async with model() as fake:
        probe = upstream(fake, connections)
        await text_of(probe, body)
        assert fake.refused == []
        outward = [tool["function"]["name"] for tool in fake.requests[0]["tools"]]
        assert outward[1] == "repo_read"
        assert len(set(outward)) == 3
        fake.script = [calls((outward[0], {}), (outward[2], {}))]
        names = [
            call["function"]["name"]
            async for chunk in probe.stream(body)
            for choice in chunk["choices"]
            for call in choice["delta"].get("tool_calls", [])
            if "name" in call["function"]
        ]
    assert names == ["repo.read", "x" * 80]
    assert body["tools"][0]["function"]["name"] == "repo.read"


async def test_an_upstream_that_does_not_stream_is_read_whole(connections: UpstreamConnections) -> None:
    async with model(Turn(body=says("All at once.").whole())) as fake:
        assert await text_of(upstream(fake, connections)) == "All at once."


@pytest.mark.parametrize("turn", [says("a b c d", cut_after=3), says("a b c d", end_after=3)])
async def test_a_stream_cut_in_the_middle_is_an_error_not_an_end(connections: UpstreamConnections, turn: Turn) -> None:
    async with model(turn) as fake:
        with pytest.raises(UpstreamCut):
            await text_of(upstream(fake, connections))


async def test_a_stream_that_finished_without_done_is_whole(connections: UpstreamConnections) -> None:
    async with model(says("a b", done=False)) as fake:
        assert await text_of(upstream(fake, connections)) == "a b"


@pytest.mark.parametrize("turn", [Turn(silent=True), Turn(drip=True), says("abc", stall_after=2)])
async def test_half_open_dripping_and_stalled_upstreams_are_left_after_their_limit(
    connections: UpstreamConnections, turn: Turn
) -> None:
    async with model(turn) as fake:
        with pytest.raises(UpstreamTimeout):
            await text_of(upstream(fake, connections, SHORT))
        await asyncio.wait_for(fake.hung_up.wait(), 30)
    assert connections.open == 0


async def test_closing_the_stream_hangs_up(connections: UpstreamConnections) -> None:
    async with model(says("abc", stall_after=2)) as fake:
        stream = upstream(fake, connections).stream(BODY)
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(fake.hung_up.wait(), 30)
        assert connections.open == 0


async def test_cancelling_while_the_upstream_thinks_hangs_up(connections: UpstreamConnections) -> None:
    async with model(Turn(silent=True)) as fake:
        task = asyncio.create_task(text_of(upstream(fake, connections)))
        await asyncio.wait_for(fake.asked.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(fake.hung_up.wait(), 30)


async def test_a_refusal_keeps_its_status_words_and_time_to_wait(connections: UpstreamConnections) -> None:
    busy = Turn(status=429, headers={"retry-after": "7"}, body={"error": {"message": "Slow down."}})
    async with model(busy) as fake:
        with pytest.raises(UpstreamRefused) as caught:
            await text_of(upstream(fake, connections))
    assert (caught.value.status, caught.value.retry_after, caught.value.retryable) == (429, 7.0, True)
    assert caught.value.headers == {"Retry-After": "7"}
    assert "Slow down." in caught.value.message


async def test_a_refused_credential_is_told_without_the_upstreams_words(connections: UpstreamConnections) -> None:
    async with model(Turn(status=401, body={"error": {"message": f"bad key {KEY}"}})) as fake:
        with pytest.raises(UpstreamRefused) as caught:
            await text_of(upstream(fake, connections))
    assert caught.value.status == 502
    assert KEY not in caught.value.message
    assert KEY not in repr(UpstreamSpec("http://a/v1", "m", credential(KEY, "http://a/v1")))


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {not json}\n\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: [1]\n\n",
        b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"error":{"message":"out of memory"}}\n\n',
        b"HTTP/1.1 200 OK\r\n" + b"x-long: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_nonsense_is_an_upstream_failure(connections: UpstreamConnections, raw: bytes) -> None:
    async with model(Turn(raw=raw)) as fake:
        with pytest.raises(UpstreamFailed):
            await text_of(upstream(fake, connections))
    assert connections.open == 0


async def test_an_interim_answer_is_passed_over(connections: UpstreamConnections) -> None:
    body = json.dumps(says("ok").whole()).encode()
    raw = (
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body) + body
    )
    async with model(Turn(raw=raw)) as fake:
        assert await text_of(upstream(fake, connections)) == "ok"


async def test_an_answer_faster_than_its_reader_waits_in_the_sockets(connections: UpstreamConnections) -> None:
    many = [{"choices": [{"index": 0, "delta": {"content": "x" * 60_000}}]} for _ in range(200)]
    async with model(Turn(chunks=many)) as fake:
        answer = await upstream(fake, connections).relay("POST", "/chat/completions", {}, {**BODY, "stream": True})
        total = largest = 0
        async for piece in answer.body:
            total += len(piece)
            largest = max(largest, len(piece))
            await asyncio.sleep(0)
    assert total > 200 * 60_000
    assert largest < 1_000_000


async def test_nobody_listening_is_unreachable(connections: UpstreamConnections) -> None:
    async with model() as fake:
        asked = upstream(fake, connections)
    with pytest.raises(UpstreamUnreachable):
        await text_of(asked)


@pytest.mark.parametrize(
    "url", ["ftp://a/v1", "http://", "http://u:p@a/v1", "http://a/v1?key=1", "http://a/v 1", "http://a:99999/v1", "a"]
)
def test_an_address_that_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        parse_base_url(url)


async def test_an_address_that_is_refused_is_never_connected_to() -> None:
    judged: list[str] = []

    def refuse(address: str) -> str | None:
        judged.append(address)
        return "private"

    connections = UpstreamConnections(refuse)
    async with model() as fake:
        with pytest.raises(UpstreamFailed, match="may not be used: private"):
            await text_of(upstream(fake, connections))
        assert fake.connections == 0
    assert judged == ["127.0.0.1"]


async def test_a_path_or_header_can_not_break_out_of_its_line(connections: UpstreamConnections) -> None:
    async with model() as fake:
        asked = upstream(fake, connections)
        with pytest.raises(Invalid):
            await asked.relay("GET", "/models HTTP/1.1\r\nx: y", {}, None)
        with pytest.raises(Invalid):
            await asked.relay("GET", "/models", {b"accept": b"a\r\nx: y"}, None)
    assert fake.requests == []


async def test_an_answer_that_drips_for_ever_ends_with_its_time(connections: UpstreamConnections) -> None:
    """Each byte is progress; only the time in all ends it."""
    async with flood() as water:
        spec = UpstreamSpec(water.url("/drips"), "m", timeouts=Timeouts(idle_seconds=30.0, total_seconds=0.8))
        with pytest.raises(UpstreamTimeout):
            await text_of(Upstream(spec, connections))
    assert max(water.sent.values()) > 1


@pytest.mark.parametrize("text", ["https://straße.example./v1", "https://STRASSE.example/v1"])
def test_an_upstreams_host_is_read_like_a_secrets(text: str) -> None:
    assert parse_base_url(text)[0].place == parse_url(text).place
