"""What is logged and counted of a request is what was sent, whatever answers it and whenever its client goes."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import read_body, send_json
from holdfast.surfaces.http.protocol import hang_up
from holdfast.surfaces.http.telemetry import logs
from tests.fakes.llm.model import calls, model, says
from tests.support.server import TestServer
from tests.surfaces.openai.endpoint import connect
from tests.surfaces.test_gate import gate_around

GONE = 499
HELLO = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}
SUM = {**HELLO, "web_search_options": {"x_tools": ["calculator"]}}
RESPONSE = {"model": "any", "input": "Hello"}
RPC = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


class Accounts:
    """The lines of the access log, by request id."""

    def __init__(self) -> None:
        self.written = io.StringIO()

    async def status(self, id: str) -> int:
        """What was logged of a request, which happens after its answer."""
        async with asyncio.timeout(20):
            while True:
                for line in self.written.getvalue().splitlines():
                    if (logged := json.loads(line)).get("request_id") == id:
                        return int(logged["status"])
                await asyncio.sleep(0.005)


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Accounts]:
    """The log; and each request is watched from its beginning, as one is that takes its time."""
    made = Accounts()
    monkeypatch.setattr(logs, "_access_stream", made.written)
    monkeypatch.setattr(hang_up, "WATCH_AFTER_SECONDS", 0)
    yield made


def requests(url: str) -> dict[str, tuple[str, str, Any, int]]:
    """Every kind of answer: method, path, body, and the status that is sent."""
    chat, responses, embedded = f"{url}/chat/completions", f"{url}/responses", url.replace("/main/", "/default/")
    rpc = url.replace("/main/", "/") + "/mcp"
    return {
        "relayed whole": ("POST", chat, HELLO, 200),
        "relayed stream": ("POST", chat, {**HELLO, "stream": True}, 200),
        "turn whole": ("POST", chat, SUM, 200),
        "turn streamed": ("POST", chat, {**SUM, "stream": True}, 200),
        "turn in a chat": ("POST", chat, {**HELLO, "x_chat_id": "c"}, 200),
        "response whole": ("POST", responses, RESPONSE, 200),
        "response streamed": ("POST", responses, {**RESPONSE, "stream": True}, 200),
        "response in the background": ("POST", responses, {**RESPONSE, "background": True}, 200),
        "embedded whole": ("POST", f"{embedded}/chat/completions", HELLO, 200),
        "embedded streamed": ("POST", f"{embedded}/chat/completions", {**HELLO, "stream": True}, 200),
        "models": ("GET", f"{url}/models", None, 200),
        "refused turn": ("POST", chat, {**SUM, "messages": []}, 400),
        "unknown path of an endpoint": ("POST", f"{url}/nothing", {}, 404),
        "session": ("POST", rpc, INITIALIZE, 200),
        "no session": ("POST", rpc, {"jsonrpc": "2.0", "id": 1, "method": "nothing"}, 400),
        "list": ("GET", "/api/workspaces", None, 200),
        "made": ("POST", "/api/workspaces", {"name": "New"}, 201),
        "wrong field": ("POST", "/api/workspaces", {"colour": "red"}, 422),
        "not there": ("GET", "/api/nothing", None, 404),
        "page": ("GET", "/sign-in", None, 200),
        "health": ("GET", "/healthz", None, 200),
        "webhook": ("POST", "/api/webhooks/nothing", {}, 404),
    }


def answers(body: dict[str, Any]) -> Any:
    """Calls the calculator first where it is offered."""
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        return calls(("calculator", {"expression": "6*7"}))
    return says("Hi.")


async def counted(server: TestServer) -> dict[str, float]:
    """How many requests of each status were counted."""
    async with server.stranger() as client:
        text = (await client.get("/metrics")).text
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("holdfast_http_requests_total{"):
            status = line.split('status="')[1].split('"')[0]
            found[status] = found.get(status, 0) + float(line.rsplit(" ", 1)[1])
    return found


async def test_each_kind_of_answer_is_logged_and_counted_as_it_was_sent(
    sqlite_server: TestServer, accounts: Accounts
) -> None:
    wrong: list[str] = []
    expected: dict[str, float] = {}
    # Each on a connection of its own, which is closed behind the answer.
    async with model() as upstream, sqlite_server.client(Connection="close", **RPC) as client:
        upstream.choose = answers
        url = await connect(sqlite_server, upstream)
        for kind, (method, path, body, status) in requests(url).items():
            answer = await client.request(method, path, json=body)
            logged = await accounts.status(answer.headers["x-request-id"])
            if not answer.status_code == logged == status:
                wrong.append(f"{kind}: sent {answer.status_code}, logged {logged}: {answer.text[:200]}")
            expected[str(status)] = expected.get(str(status), 0) + 1
    assert wrong == []
    assert await counted(sqlite_server) == expected


async def hang_up_when(client: httpx.AsyncClient, path: str, body: Any, ready: Callable[[], bool], id: str) -> None:
    """Ask, and go away when it is time, with or without having seen the head."""
    asking = asyncio.create_task(client.post(path, json=body, headers={"X-Request-Id": id, **RPC}))
    async with asyncio.timeout(20):
        while not ready():
            await asyncio.sleep(0.005)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize("kind", ["relayed whole", "turn whole", "turn streamed", "response whole"])
async def test_who_goes_before_anything_was_sent_is_logged_as_gone(
    sqlite_server: TestServer, accounts: Accounts, kind: str
) -> None:
    async with model(says("", silent=True)) as upstream:
        url = await connect(sqlite_server, upstream)
        _, path, body, _ = requests(url)[kind]
        async with sqlite_server.client() as client:
            await hang_up_when(client, path, body, upstream.asked.is_set, "early")
        assert await accounts.status("early") == GONE
    assert (await counted(sqlite_server)).get(str(GONE)) == 1


@pytest.mark.parametrize("kind", ["relayed stream", "turn streamed", "response streamed"])
async def test_who_goes_in_the_middle_of_a_stream_was_sent_its_status(
    sqlite_server: TestServer, accounts: Accounts, kind: str
) -> None:
    async with model(says("One two three.", pieces=3, stall_after=3)) as upstream:
        url = await connect(sqlite_server, upstream)
        method, path, body, _ = requests(url)[kind]
        async with sqlite_server.client() as client, client.stream(method, path, json=body) as answer:
            async for _ in answer.aiter_bytes():
                break
        assert (answer.status_code, await accounts.status(answer.headers["x-request-id"])) == (200, 200)


async def test_who_follows_events_and_goes_was_sent_its_status(sqlite_server: TestServer, accounts: Accounts) -> None:
    path = f"/api/workspaces/{sqlite_server.start.workspace_id}/events"
    async with sqlite_server.client() as client, client.stream("GET", path) as answer:
        async for _ in answer.aiter_bytes():
            break
    assert (answer.status_code, await accounts.status(answer.headers["x-request-id"])) == (200, 200)


@pytest.mark.parametrize("path", ["/api/webhooks/any", "/api/workspaces", "/{project}/v1/mcp"])
async def test_who_goes_before_its_request_was_complete_is_logged_as_gone(
    sqlite_server: TestServer, accounts: Accounts, path: str
) -> None:
    path = path.replace("{project}", sqlite_server.start.project_id)
    host, port = sqlite_server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {sqlite_server.key}\r\n"
    rest = "X-Request-Id: half\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    writer.write((head + rest).encode())
    await writer.drain()
    writer.close()
    assert await accounts.status("half") == GONE


async def ask_here(inside: Any, receive: Receive) -> tuple[list[int], int]:
    """The statuses that a gate sent, and the one that it counted."""
    gate = gate_around(inside)
    sent: list[int] = []
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"localhost")]}

    async def send(message: Any) -> None:
        sent.extend([message["status"]] if message["type"] == "http.response.start" else [])

    task = asyncio.create_task(gate(scope, receive, send))
    await asyncio.sleep(0)
    if inside is hangs:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    samples = [sample for metric in gate.metrics.registry.collect() for sample in metric.samples]
    (status,) = [int(each.labels["status"]) for each in samples if each.name == "holdfast_http_requests_total"]
    return sent, status


async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


async def says_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await read_body(scope, receive, 10)


async def answers_late(scope: Scope, receive: Receive, send: Send) -> None:
    async with hang_up.while_connected(scope, receive):
        await send_json(send, 201, {})
        for _ in range(5):
            await asyncio.sleep(0)


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def still_there() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def test_a_request_that_a_stopping_server_ends_is_told_so() -> None:
    assert await ask_here(hangs, still_there) == ([503], 503)


async def test_a_handler_that_forgets_to_answer_is_a_failure_and_not_a_hang_up() -> None:
    assert await ask_here(says_nothing, still_there) == ([500], 500)


async def test_work_that_went_on_without_its_client_is_counted_as_gone() -> None:
    assert await ask_here(says_nothing, gone) == ([], GONE)


@pytest.mark.usefixtures("accounts")
async def test_the_end_of_a_connection_behind_the_answer_disturbs_nothing() -> None:
    assert await ask_here(answers_late, gone) == ([201], 201)
