"""Owns the proof of project intelligence over REST, through the whole server."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.server import TestServer


@dataclass(frozen=True, slots=True)
class Rest:
    """A client with a key, and where its workspace lives."""

    client: httpx.AsyncClient
    base: str

    async def call(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = await self.client.request(method, self.base + path, **options)
        assert answer.status_code == status, answer.text
        is_json = answer.headers.get("content-type", "").startswith("application/json") and answer.content
        return answer.json() if is_json else answer.text

    async def decide(self, title: str, **fields: Any) -> Any:
        return await self.call("POST", "/decisions", 201, json={"title": title, **fields})

    async def relate(self, start: tuple[str, str], relation: str, end: tuple[str, str], status: int = 201) -> Any:
        body = {
            "from": {"type": start[0], "id": start[1]},
            "to": {"type": end[0], "id": end[1]},
            "relation": relation,
        }
        return await self.call("POST", "/relations", status, json=body)


@pytest.fixture
async def rest(server: TestServer) -> AsyncIterator[Rest]:
    async with server.client() as client:
        yield Rest(client, f"/api/workspaces/{server.start.workspace_id}")


@pytest.fixture
async def small(sqlite_server: TestServer) -> AsyncIterator[Rest]:
    async with sqlite_server.client() as client:
        yield Rest(client, f"/api/workspaces/{sqlite_server.start.workspace_id}")


@pytest.mark.contract("XM-7")
async def test_a_project_is_recorded_and_read_back(rest: Rest) -> None:
    old = await rest.decide("Deploy by hand", rationale="Only one server.")
    new = await rest.decide("Deploy with Nomad", alternatives=["Kubernetes"], supersedes=old["id"])
    ended = await rest.call("GET", f"/decisions/{old['id']}")
    assert (ended["status"], ended["superseded_by"], new["supersedes"]) == ("superseded", new["id"], old["id"])
    held = await rest.decide("Which region?", blocking=True)
    edited = await rest.call("PATCH", f"/decisions/{held['id']}", json={"rationale": "Latency."})
    assert (edited["title"], edited["rationale"], edited["status"]) == ("Which region?", "Latency.", "open")
    found = await rest.call("GET", "/decisions", params={"q": "nomad"})
    assert found["items"][0]["id"] == new["id"] and 0 <= found["items"][0]["score"] <= 1
    listed = await rest.call("GET", "/decisions", params={"status": "open", "blocking": "true"})
    assert [each["id"] for each in listed["items"]] == [held["id"]]

    body = {"title": "Nomad live", "type": "deployment", "occurred_at": "2026-11-02", "decisions": [new["id"]]}
    reached = await rest.call("POST", "/milestones", 201, json=body)
    line = await rest.call("GET", "/timeline", params={"decision_id": new["id"], "since": "2026-11-01"})
    assert line == {"items": [reached], "next_cursor": None}
    assert (await rest.call("GET", "/milestones", params={"type": "release"}))["items"] == []
    changed = await rest.call("PATCH", f"/milestones/{reached['id']}", json={"description": "Both regions."})
    assert (changed["description"], changed["decisions"]) == ("Both regions.", [new["id"]])

    memory = await rest.call("POST", "/memories", 201, json={"content": "Nomad needs Consul 1.20"})
    tie = await rest.relate(("memory", memory["memory_id"]), "explains", ("decision", new["id"]))
    assert (tie["from"]["type"], tie["relation"], tie["inverse"]) == ("memory", "explains", "explained_by")
    twice = await rest.relate(("decision", new["id"]), "explained_by", ("memory", memory["memory_id"]), 409)
    assert twice["error"]["code"] == "duplicate_relation"
    shown = await rest.call("GET", "/graph", params={"centre": memory["memory_id"], "depth": 1})
    assert {node["id"] for node in shown["nodes"]} == {memory["memory_id"], new["id"]}
    assert [(edge["from"], edge["to"]) for edge in shown["edges"]] == [(memory["memory_id"], new["id"])]
    drawn = await rest.call("GET", "/graph/mermaid", params={"types": "decision,milestone"})
    assert "-->|implements|" in drawn and "explains" not in drawn

    brief = await rest.call("GET", "/brief", params={"focus": "nomad", "budget_tokens": 900})
    assert [item["id"] for item in brief["blockers"]] == [held["id"]]
    assert [item["id"] for item in brief["milestones"]] == [reached["id"]]
    assert memory["memory_id"] in {item["id"] for item in brief["memories"]}
    assert brief["tokens"] <= 900
    analysis = await rest.call("POST", "/analyze", json={"topic": "nomad"})
    assert analysis["mode"] == "extractive" and "[1]" in analysis["markdown"]

    await rest.call("DELETE", f"/milestones/{reached['id']}", 204)
    await rest.call("GET", f"/milestones/{reached['id']}", 404)
    await rest.call("DELETE", f"/relations/{tie['id']}", 204)
    left = await rest.call("GET", "/relations")
    assert [each["relation"] for each in left["items"]] == ["supersedes"]


async def test_a_nul_character_is_the_callers_mistake(rest: Rest) -> None:
    for path in ("/decisions/%00", "/milestones/%00", "/graph?centre=%00", "/timeline?decision_id=%00"):
        answer = await rest.client.get(rest.base + path)
        # In a path it does not get past the gate.
        assert answer.status_code in ((400,) if "?" not in path else (404, 422)), f"{path}: {answer.status_code}"


async def test_a_memory_that_is_removed_takes_its_relations(small: Rest) -> None:
    decision = await small.decide("Use queues")
    memory = (await small.call("POST", "/memories", 201, json={"content": "Rabbits are fast"}))["memory_id"]
    await small.relate(("memory", memory), "supports", ("decision", decision["id"]))
    await small.call("DELETE", f"/memories/{memory}", 204)
    assert (await small.call("GET", "/relations"))["items"] == []


async def test_pages_follow_the_cursor(small: Rest) -> None:
    for number in range(5):
        await small.decide(f"Decision {number}", decided_at=f"2026-01-0{number + 1}")
    first = await small.call("GET", "/decisions", params={"limit": 3})
    rest = await small.call("GET", "/decisions", params={"limit": 3, "cursor": first["next_cursor"]})
    titles = [each["title"] for each in (*first["items"], *rest["items"])]
    assert titles == [f"Decision {number}" for number in (4, 3, 2, 1, 0)]
    assert rest["next_cursor"] is None


async def test_wrong_input_names_its_field(small: Rest) -> None:
    decision = await small.decide("One")
    for method, path, options, field in (
        ("POST", "/decisions", {"json": {}}, "title"),
        ("POST", "/decisions", {"json": {"title": "x", "status": "maybe"}}, "status"),
        ("POST", "/decisions", {"json": {"title": "x", "decided_at": "soon"}}, "decided_at"),
        ("POST", "/milestones", {"json": {"title": "x", "type": "Big Bang"}}, "type"),
        ("GET", "/timeline", {"params": {"since": "soon"}}, "since"),
        ("GET", "/decisions", {"params": {"cursor": "nonsense"}}, "cursor"),
        ("GET", "/graph", {"params": {"depth": "99"}}, "depth"),
        ("GET", "/brief", {"params": {"budget_tokens": "1"}}, "budget_tokens"),
    ):
        answer = await small.call(method, path, 422, **options)
        assert answer["error"]["fields"][0]["field"] == field
    ends = ("decision", decision["id"])
    assert (await small.relate(ends, "Depends On", ("decision", "dec_none"), 422))["error"]["fields"][0][
        "field"
    ] == "relation"
    await small.relate(ends, "depends_on", ("decision", "dec_none"), 404)
    await small.relate(ends, "depends_on", ("planet", "x"), 422)
    await small.relate(ends, "depends_on", ends, 422)


async def test_another_tenants_project_is_not_found(sqlite_server: TestServer) -> None:
    tenant = await sqlite_server.another_tenant()
    stranger = await sqlite_server.mint(owner=tenant.owner, project_id=tenant.project_id)
    async with sqlite_server.client() as mine, sqlite_server.client(stranger.secret) as theirs:
        ours = Rest(mine, f"/api/workspaces/{sqlite_server.start.workspace_id}")
        decision = await ours.decide("Secret plan")
        across = Rest(theirs, ours.base)
        own = Rest(theirs, f"/api/workspaces/{tenant.workspace_id}")
        for path in ("/decisions", f"/decisions/{decision['id']}", "/timeline", "/relations", "/graph", "/brief"):
            await across.call("GET", path, 404)
        await own.call("GET", f"/decisions/{decision['id']}", 404)
        await own.call("PATCH", f"/decisions/{decision['id']}", 404, json={"title": "Mine"})
        await own.call("GET", "/graph", 404, params={"centre": decision["id"]})
        assert (await own.call("GET", "/decisions", params={"q": "Secret plan"}))["items"] == []


async def test_a_key_that_only_reads_changes_nothing(sqlite_server: TestServer) -> None:
    reader = await sqlite_server.mint("read")
    async with sqlite_server.client(reader.secret) as client:
        rest = Rest(client, f"/api/workspaces/{sqlite_server.start.workspace_id}")
        await rest.call("GET", "/brief")
        await rest.call("POST", "/analyze", json={})
        await rest.call("POST", "/decisions", 403, json={"title": "x"})
        await rest.call("POST", "/milestones", 403, json={"title": "x"})
        await rest.relate(("decision", "a"), "blocks", ("decision", "b"), 403)
