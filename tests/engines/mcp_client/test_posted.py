"""Calls beside the official client: an old server with sessions, scripted, and what its answers come to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn

from holdfast.core.errors import Invalid
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.mcp_client.base import CallRefused, ServerFailed
from holdfast.engines.mcp_client.remote import RemoteConnection, open_remote

pytestmark = pytest.mark.slow
HOSTILE = ("wide", "deep", "asking", "chatty")
NAMES = ("plain", "stream", "refused", "gone", "slow", "huge", "other", "broken", "streamed", *HOSTILE)


@dataclass
class OldServer:
    """Speaks 2025-06-18 in one session, and remembers what it was sent."""

    place: str = ""
    said: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    taken_up: list[str] = field(default_factory=list)
    streamed_to: list[int] = field(default_factory=list)
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    lists: str = json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in NAMES])

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"] == "/moved":
            await send({"type": "http.response.start", "status": 307, "headers": [(b"location", b"/mcp")]})
            await send({"type": "http.response.body", "body": b""})
            return
        if scope["method"] == "GET":
            last = headers.get("last-event-id")
            if last is None:
                await answer(send, 405, b"")
                return
            self.taken_up.append(last)
            done = {"jsonrpc": "2.0", "id": self.said[-1]["id"], "result": {"content": [], "isError": False}}
            call = next(each for each in self.said if each.get("params", {}).get("name") == "stream")
            await answer(send, 200, event(done | {"id": call["id"]}, "2"), "text/event-stream")
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        message = json.loads(body or b"{}")
        self.said.append(message)
        self.headers.append(headers)
        if "id" not in message or "method" not in message:
            await answer(send, 202, b"")
        elif message["method"] == "tools/call":
            if message["params"]["name"] == "streamed":
                self.streamed_to.append(scope["client"][1])
            await self.called(send, message)
        else:
            await self.greeted(send, message)

    async def greeted(self, send: Any, message: dict[str, Any]) -> None:
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            info = {"name": "old", "version": "1"}
            told["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif message["method"] == "tools/list":
            told["result"] = {"tools": "HERE"}
        else:
            told["error"] = {"code": -32601, "message": "Method not found"}
        text = json.dumps(told).replace('"HERE"', self.lists)
        await answer(send, 200, text.encode(), session=message["method"] == "initialize")

    async def called(self, send: Any, message: dict[str, Any]) -> None:
        id, name = message["id"], message["params"]["name"]
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        result = {"content": [{"type": "text", "text": str(message["params"]["arguments"])}]}
        if name == "stream":
            token = message["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            asks = {"jsonrpc": "2.0", "id": 7, "method": "roots/list"}
            begun = event({}, "0") + event(progress).replace(b"\n", b"\r\n") + event(asks, "1")
            await answer(send, 200, b"retry: 10\n" + begun, "text/event-stream")
        elif name == "refused":
            await answer(send, 400, json.dumps(told | {"error": {"code": -32602, "message": "no such thing"}}).encode())
        elif name == "gone":
            await answer(send, 404, b"")
        elif name == "slow":
            self.hangs.set()
            await asyncio.Event().wait()
        elif name == "huge":
            await answer(send, 200, b'{"jsonrpc": "2.0", "x": "' + b"x" * (17 << 20) + b'"}')
        elif name == "other":
            await answer(send, 200, json.dumps(told | {"id": "another", "result": result}).encode())
        elif name == "streamed":
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            done = event(told | {"result": result})
            await send({"type": "http.response.body", "body": done, "more_body": True})
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b""})
        elif name in HOSTILE:
            await self.attacked(send, name, told)
        elif name == "broken":
            await answer(send, 200, b"{", "text/event-stream")
        else:
            await answer(send, 200, json.dumps(told | {"result": result}).encode())

    async def attacked(self, send: Any, name: str, told: dict[str, Any]) -> None:
        if name in ("wide", "deep"):
            inner = "[],".join([""] * 1_000_000) + "1" if name == "wide" else "[" * 900 + "]" * 900
            body = json.dumps(told | {"result": {"content": [], "structuredContent": {"a": "HERE"}}})
            await answer(send, 200, body.replace('"HERE"', f"[{inner}]").encode())
        elif name == "asking":
            asks = [event({"jsonrpc": "2.0", "id": each, "method": "sampling/createMessage"}) for each in range(5_000)]
            await answer(send, 200, b"".join(asks), "text/event-stream")
        else:
            await answer(send, 200, b": still here\n\n" * 100_000, "text/event-stream")


def event(message: dict[str, Any], id: str | None = None) -> bytes:
    lines = [f"id: {id}"] if id is not None else []
    return "\n".join([*lines, f"data: {json.dumps(message) if message else ''}", "", ""]).encode()


async def answer(send: Any, status: int, body: bytes, kind: str = "application/json", *, session: bool = False) -> None:
    headers = [(b"content-type", kind.encode()), *([(b"mcp-session-id", b"s1")] if session else [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def old() -> AsyncIterator[OldServer]:
    app = OldServer()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    app.place = f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield app
    server.should_exit = True
    await serving


@pytest.fixture
async def connection(old: OldServer) -> AsyncIterator[RemoteConnection]:
    made = await open_remote(Guard(allow_private=[old.place]), "old", f"http://{old.place}/mcp")
    assert {tool.name for tool in (await made.describe()).tools} == set(NAMES)
    yield made
    await made.close()


async def test_a_call_is_made_in_the_session_that_the_official_client_opened(
    old: OldServer, connection: RemoteConnection
) -> None:
    found = await connection.call("plain", {"number": 1})
    assert found.content == ({"type": "text", "text": "{'number': 1}"},) and not found.is_error
    sent = old.headers[-1]
    assert (sent["mcp-session-id"], sent["mcp-protocol-version"]) == ("s1", "2025-06-18")
    ids = [each["id"] for each in old.said if "method" in each and "id" in each]
    assert len(ids) == len(set(map(str, ids)))


async def test_a_stream_that_breaks_off_is_taken_up_where_it_was(old: OldServer, connection: RemoteConnection) -> None:
    heard: list[tuple[float, float | None, str]] = []

    async def tell(done: float, total: float | None, message: str) -> None:
        heard.append((done, total, message))

    assert not (await connection.call("stream", {}, progress=tell)).is_error
    assert heard == [(1.0, 2.0, "half")] and old.taken_up == ["1"]
    assert [each["params"]["name"] for each in old.said if each.get("method") == "tools/call"] == ["stream"]
    # What it asks for in the middle of a call is declined, and not left open.
    async with asyncio.timeout(10):
        while not any(each.get("id") == 7 for each in old.said):
            await asyncio.sleep(0.01)
    assert next(each for each in old.said if each.get("id") == 7)["error"]["code"] == -32601


async def test_a_connection_whose_stream_ended_with_the_result_serves_the_next_call(
    old: OldServer, connection: RemoteConnection
) -> None:
    # Its end may come a moment after its last event, so a call right after may take another connection.
    async with asyncio.timeout(20):
        while len(old.streamed_to) == len(set(old.streamed_to)):
            await connection.call("streamed", {})


async def test_a_caller_that_gives_up_is_told_to_the_server(old: OldServer, connection: RemoteConnection) -> None:
    calling = asyncio.create_task(connection.call("slow", {}))
    await old.hangs.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await connection.close()
    call = next(each for each in old.said if each.get("method") == "tools/call")
    told = next(each for each in old.said if each.get("method") == "notifications/cancelled")
    assert told["params"]["requestId"] == call["id"]


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ("huge", "more than 16 MiB"),
        ("other", "something else than the result"),
        ("broken", "before the result came"),
        ("wide", "more than 200,000 values"),
        ("deep", "nested more than 100 deep"),
        ("asking", "asking for what it has no right to"),
        ("chatty", "more events than anybody could read"),
    ],
)
async def test_an_answer_that_is_none_fails_the_call_and_nothing_else(
    old: OldServer, connection: RemoteConnection, tool: str, problem: str
) -> None:
    with pytest.raises(ServerFailed, match=problem):
        await connection.call(tool, {})
    assert len(old.said) < 120
    assert not connection.closed and not (await connection.call("plain", {})).is_error


async def test_a_refusal_has_the_servers_words_and_a_lost_session_wants_a_new_one(connection: RemoteConnection) -> None:
    with pytest.raises(CallRefused, match="no such thing") as refused:
        await connection.call("refused", {})
    assert refused.value.rpc_code == -32602 and not connection.closed
    with pytest.raises(ServerFailed, match="ended the session; call again"):
        await connection.call("gone", {})
    assert connection.closed


async def test_calls_go_where_the_server_sent_the_client_on_to(old: OldServer) -> None:
    made = await open_remote(Guard(allow_private=[old.place]), "old", f"http://{old.place}/moved")
    await made.describe()
    assert not (await made.call("plain", {})).is_error
    await made.close()


async def test_a_list_that_would_take_much_memory_to_hold_is_not_read(old: OldServer) -> None:
    old.lists = '[{"name": "a", "inputSchema": {"type": "object", "enum": [' + "[]," * 500_000 + "1]}}]"
    made = await open_remote(Guard(allow_private=[old.place]), "old", f"http://{old.place}/mcp")
    with pytest.raises(ServerFailed, match="more than 200,000 values"):
        await made.describe()
    await made.close()


async def test_a_header_that_http_cannot_carry_is_named(old: OldServer) -> None:
    guard = Guard(allow_private=[old.place])
    with pytest.raises(Invalid) as refused:
        await open_remote(guard, "old", f"http://{old.place}/mcp", headers={"x-key": "\u201cvalue\u201d"})
    assert "curly quotes" in refused.value.fields[0].message and old.said == []
