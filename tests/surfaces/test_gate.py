"""The outermost layer: hosts, origins, sizes, time, request ids, and errors that show nothing of our insides."""

import asyncio
import io
import json
import logging
from datetime import datetime
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import send_json
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.telemetry import logs
from holdfast.surfaces.http.telemetry.logs import JsonFormatter
from holdfast.surfaces.http.telemetry.metrics import Metrics
from tests.support.server import TestServer


async def test_a_rebound_host_name_is_refused(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        answer = await client.get("/api/me", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "host_not_allowed")
    assert "HOLDFAST_ALLOWED_HOSTS" in answer.json()["error"]["message"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://", "http://127.0.0.1.evil.example"])
async def test_pages_of_other_sites_may_not_call(sqlite_server: TestServer, origin: str) -> None:
    async with sqlite_server.client() as client:
        answer = await client.get("/api/me", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")


async def test_a_frame_of_no_origin_loads_the_files_of_pages_and_nothing_else(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        file = "/static/0/elements/mermaid-frame.js"
        loaded = await client.get(file, headers={"Origin": "null"})
        assert (loaded.status_code, loaded.headers["cross-origin-resource-policy"]) == (200, "cross-origin")
        assert "access-control-allow-origin" not in loaded.headers
        assert (await client.get("/static/0/app.js")).headers["cross-origin-resource-policy"] == "same-origin"
        assert (await client.post(file, headers={"Origin": "null"})).status_code == 403


async def test_our_own_pages_may_call(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        answer = await client.get("/api/me", headers={"Origin": sqlite_server.url})
    assert answer.status_code == 200


async def test_a_request_id_is_kept_when_it_is_one_and_made_otherwise(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        kept = await client.get("/api/me", headers={"X-Request-Id": "trace-42"})
        made = await client.get("/api/nothing", headers={"X-Request-Id": "no good!"})
    assert kept.headers["x-request-id"] == "trace-42"
    assert made.headers["x-request-id"] == made.json()["error"]["request_id"] != "no good!"


async def test_a_body_over_the_cap_is_refused_before_it_is_read(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post("/api/workspaces", content=b"x" * (5 * 1024 * 1024))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


async def test_unknown_fields_and_broken_json_are_named(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        unknown = await client.post("/api/workspaces", json={"name": "x", "colour": "red"})
        broken = await client.post("/api/workspaces", content=b"{")
    assert unknown.status_code == 422
    assert unknown.json()["error"]["fields"] == [
        {"field": "colour", "message": "no such field here; remove it or check its spelling"}
    ]
    assert (broken.status_code, broken.json()["error"]["code"]) == (422, "not_json")


@pytest.mark.parametrize("path", ["/api/keys/key_1", "/nothing", "/api", "/proj_x/y"])
async def test_unknown_paths_are_not_found(sqlite_server: TestServer, path: str) -> None:
    async with sqlite_server.client() as client:
        assert (await client.get(path)).status_code == 404


async def test_a_wrong_method_is_told_the_right_ones(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        answer = await client.put("/api/projects", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    "credential",
    [None, "Bearer", "Basic eA==", "Bearer ks_live_" + "0" * 64, "Bearer " + "x" * 20_000, "Bearer a.b.c", "x"],
)
async def test_every_wrong_credential_gets_the_same_answer(sqlite_server: TestServer, credential: str | None) -> None:
    async with sqlite_server.stranger() as client:
        answer = await client.get("/api/me", headers={"Authorization": credential} if credential else {})
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "A valid credential is required."
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_missing_scope_is_named_and_audited(sqlite_server: TestServer) -> None:
    reader = await sqlite_server.mint("read", name="reader")
    async with sqlite_server.client(reader.secret) as client:
        answer = await client.get("/api/keys")
    assert answer.status_code == 403
    assert "'management'" in answer.json()["error"]["message"]
    found = await sqlite_server.services.audit.list(sqlite_server.owner, limit=200)
    assert any(event.outcome == "denied" and event.actor == reader.key.id for event in found.items)


async def test_health_readiness_and_metrics(sqlite_server: TestServer) -> None:
    async with sqlite_server.stranger() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json()["checks"] == {"storage": "ok"}
        metrics = (await client.get("/metrics")).text
    assert 'holdfast_http_requests_total{method="GET",status="200",surface="operation"}' in metrics


async def test_the_same_idempotency_key_creates_once(server: TestServer) -> None:
    async with server.client() as client:
        asked = {"headers": {"Idempotency-Key": "abc"}, "json": {"name": "Once"}}
        answers = [await client.post("/api/workspaces", **asked) for _ in range(3)]  # type: ignore[arg-type]
        other = await client.post("/api/workspaces", headers={"Idempotency-Key": "abc"}, json={"name": "Twice"})
        named = [item["name"] for item in (await client.get("/api/workspaces")).json()["items"]]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert other.status_code == 422
    assert named.count("Once") == 1 and "Twice" not in named


async def test_concurrent_creates_with_one_key_make_one_thing(server: TestServer) -> None:
    async with server.client() as client:
        answers = await asyncio.gather(
            *(
                client.post("/api/workspaces", headers={"Idempotency-Key": "k"}, json={"name": "Raced"})
                for _ in range(8)
            )
        )
        named = [item["name"] for item in (await client.get("/api/workspaces")).json()["items"]]
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert named.count("Raced") == 1


async def test_lists_are_paged_by_cursor(server: TestServer) -> None:
    async with server.client() as client:
        for number in range(5):
            await client.post("/api/workspaces", json={"name": f"W{number}"})
        seen: list[str] = []
        cursor = None
        while True:
            query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
            page = (await client.get("/api/workspaces", params=query)).json()
            assert len(page["items"]) <= 2
            seen += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        wrong = await client.get("/api/workspaces", params={"cursor": "nonsense"})
    assert len(seen) == len(set(seen)) == 6
    assert wrong.status_code == 422 and wrong.json()["error"]["fields"][0]["field"] == "cursor"


def gate_around(inside: object, **options: object) -> Gate:
    settings = {
        "allowed_hosts": (),
        "allowed_origins": (),
        "request_timeout_seconds": 60.0,
        "proxies": Proxies(()),
        **options,
    }
    return Gate(inside, metrics=Metrics(), **settings)  # type: ignore[arg-type]


async def ask(gate: Gate) -> tuple[int, bytes]:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message)

    await gate(scope, receive, send)
    body = b"".join(part["body"] for part in sent if part["type"] == "http.response.body")
    return int(str(sent[0]["status"])), body


async def test_an_unexpected_error_shows_nothing_but_the_request_id(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError("the secret is swordfish")

    with caplog.at_level(logging.ERROR, "holdfast.access"):
        status, body = await ask(gate_around(broken))
    assert status == 500
    assert b"swordfish" not in body
    logged = [record for record in caplog.records if record.name == "holdfast.access" and record.exc_info]
    assert [record.__dict__["request_id"] for record in logged] == [json.loads(body)["error"]["request_id"]]


async def test_a_request_that_hangs_is_ended() -> None:
    async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    status, body = await ask(gate_around(hangs, request_timeout_seconds=0.05))
    assert (status, json.loads(body)["error"]["code"]) == (503, "timeout")


async def test_a_draining_server_takes_nothing_new() -> None:
    async def fine(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {})

    gate = gate_around(fine)
    assert (await ask(gate))[0] == 200
    gate.draining = True
    assert (await ask(gate))[0] == 503


def test_a_log_line_is_json_with_its_facts() -> None:
    record = logging.makeLogRecord(
        {"name": "holdfast", "levelname": "INFO", "msg": "x %s", "args": ("y",), "status": 200}
    )
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"], line["status"]) == ("x y", "info", 200)


async def test_requests_that_end_together_are_logged_by_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fine(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {})

    class Counted(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            return super().write(text)

    written = Counted()
    monkeypatch.setattr(logs, "_access_stream", written)
    gate = gate_around(fine)
    for _ in range(3):
        await ask(gate)
    await asyncio.sleep(0)
    assert [json.loads(line)["status"] for line in written.getvalue().splitlines()] == [200, 200, 200]
    assert written.writes == 1


async def test_each_request_is_one_line_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fine(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {})

    written = io.StringIO()
    monkeypatch.setattr(logs, "_access_stream", written)
    await ask(gate_around(fine))
    await asyncio.sleep(0)  # What one turn of the loop logs is written at its end.
    line = json.loads(written.getvalue())
    assert (line["message"], line["method"], line["path"], line["status"]) == ("request", "GET", "/", 200)
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
