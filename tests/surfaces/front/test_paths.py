"""No spelling of a path, a method or a query leads past routing and access, or makes the server fail."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.attacks.raw import dial
from tests.support.server import TestServer
from tests.surfaces.test_gate import gate_around

TRICKS = [
    "/api/%2e%2e/workspaces",
    "/api/../api/workspaces",
    "/api/./workspaces",
    "//api/workspaces",
    "/api//workspaces",
    "/api/%2fworkspaces",
    "/api/workspaces/%2e%2e/keys",
    "/%c0%af/api/workspaces",
    "/api/%c0%ae%c0%ae/workspaces",
    "/api;x=y/workspaces",
    "/api/workspaces;x",
    "/API/workspaces",
    "/api/workspaces%20",
    "/api/workspaces%09",
    "/api\\workspaces",
    "/api/workspaces%5c",
    "/.%2fapi/workspaces",
    "/healthz/../api/workspaces",
    "/healthz/..%2fapi%2fworkspaces",
    "/api/docs/../workspaces",
    "/api/webhooks/../workspaces",
    "/api/webhooks/%2e%2e%2fworkspaces",
    "/sign-in/../api/workspaces",
    "/proj_x/v1/mcp/../../api/workspaces",
    "/api/workspaces%u0020",
    "/api/workspaces%ff",
    "/%2561pi/workspaces",
    "/api/%25",
    "/%",
    "/api/workspaces/%F0%9F%92%A9",
    "/api/mcp/..%2fworkspaces",
]
CONTROL = [
    "/%00",
    "/api/workspaces%00",
    "/api/workspaces/%00",
    "/api/workspaces/ws_%0d%0aX-A:%20b",
    "/api/%1b%5b2J",
    "/%7f",
]
QUERIES = [
    "limit=%00",
    "cursor=%00",
    "limit=%ff",
    "q=%00",
    "%00=1",
    "limit=1&limit=2",
    "&" * 200,
    "=" * 50,
    "limit=9" + "9" * 400,
]


def get(target: str, key: str | None = None, method: str = "GET") -> bytes:
    bearer = f"Authorization: Bearer {key}\r\n" if key else ""
    return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Length: 0\r\n\r\n".encode("latin-1")


async def statuses(server: TestServer, requests: dict[str, bytes]) -> dict[str, int]:
    found = {}
    for name, raw in requests.items():
        wire = await dial(server.url)
        await wire.send(raw)
        answer = await wire.answer(head=raw.startswith(b"HEAD"))
        found[name] = 0 if answer is None else answer.status
        await wire.close()
    return found


async def test_no_spelling_of_a_path_answers_a_stranger(sqlite_server: TestServer) -> None:
    found = await statuses(sqlite_server, {path: get(path) for path in TRICKS})
    assert {path: status for path, status in found.items() if status not in (400, 401, 404)} == {}


async def test_a_path_with_a_control_character_is_refused(server: TestServer) -> None:
    found = await statuses(server, {path: get(path, server.key) for path in CONTROL})
    assert set(found.values()) == {400}


async def test_no_query_makes_the_server_fail(server: TestServer) -> None:
    workspace = server.start.workspace_id
    paths = [
        "/api/workspaces",
        f"/api/workspaces/{workspace}/memories",
        f"/api/workspaces/{workspace}/documents",
        "/api/audit",
    ]
    requests = {f"{path}?{query}": get(f"{path}?{query}", server.key) for path in paths for query in QUERIES}
    found = await statuses(server, requests)
    assert {target: status for target, status in found.items() if not 200 <= status < 500} == {}


METHODS = {
    "HEAD": {200, 404, 405},
    "OPTIONS": {200, 204, 404, 405},
    "TRACE": {405},
    "CONNECT": {405},
    "PROPFIND": {405},
    "PURGE": {405},
    "M-SEARCH": {405},
    "BREW": {400},
}


@pytest.mark.parametrize("path", ["/healthz", "/api/me", "/", "/sign-in", "/metrics", "/proj_x/v1/mcp", "/api/mcp"])
async def test_other_methods_do_nothing_anywhere(sqlite_server: TestServer, path: str) -> None:
    found = await statuses(sqlite_server, {method: get(path, method=method) for method in METHODS})
    odd = {method: status for method, status in found.items() if status not in METHODS[method] | {303, 401}}
    assert odd == {}


async def test_a_trace_of_a_request_is_never_sent_back(sqlite_server: TestServer) -> None:
    wire = await dial(sqlite_server.url)
    await wire.send(get("/healthz", key="swordfish", method="TRACE"))
    answer = await wire.answer()
    assert answer is not None and b"swordfish" not in answer.body
    await wire.close()


@pytest.mark.parametrize("type", ["websocket", "lifespan", "nonsense"])
async def test_other_kinds_of_scope_go_no_further_than_the_gate(type: str) -> None:
    async def unreachable(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError(f"{scope['type']} came in")

    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    async def send(message: object) -> None:
        sent.append(message)

    await gate_around(unreachable)({"type": type, "path": "/", "headers": []}, receive, send)
    assert sent == ([{"type": "websocket.close", "code": 1003}] if type == "websocket" else [])
