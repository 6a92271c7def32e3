"""Audit, usage and jobs over the wire: filters, pages, export, verification, and nobody else's."""

import json

import pytest

from holdfast.core.principal import Scope
from holdfast.features.identity.model import NewKey
from tests.support.access.callers import signed_in
from tests.support.server import TestServer


async def organization_key(server: TestServer, *scopes: Scope) -> str:
    new = NewKey(name="org", kind="organization", scopes=frozenset(scopes))
    return (await server.services.keys.create(server.owner, new)).secret


async def remembered(server: TestServer, key: str, workspace_id: str, content: str) -> None:
    async with server.client(key) as client:
        made = await client.post(f"/api/workspaces/{workspace_id}/memories", json={"content": content})
        assert made.status_code == 201, made.text


async def test_what_a_key_does_is_listed_filtered_and_paged(server: TestServer) -> None:
    async with server.client() as client:
        for n in range(3):
            made = await client.post(
                f"/api/workspaces/{server.start.workspace_id}/memories", json={"content": f"Fact number {n} of many"}
            )
            assert made.status_code == 201, made.text
        everything = (await client.get("/api/audit")).json()["items"]
        first = (await client.get("/api/audit", params={"limit": 2})).json()
        second = (await client.get("/api/audit", params={"limit": 200, "cursor": first["next_cursor"]})).json()
        listed = [event["id"] for event in (*first["items"], *second["items"])]
        assert listed == [event["id"] for event in everything] and len(listed) >= 3
        event = everything[0]
        assert event["actor"].startswith("key_") and event["workspace_id"] == server.start.workspace_id
        for name in ("actor", "action", "resource", "resource_id", "workspace_id", "outcome"):
            found = (await client.get("/api/audit", params={name: event[name]})).json()["items"]
            assert found and {other[name] for other in found} == {event[name]}
        late = await client.get("/api/audit", params={"since": "2999-01-01"})
        assert late.json() == {"items": [], "next_cursor": None}


async def test_the_export_is_json_lines_and_the_chain_verifies(server: TestServer) -> None:
    async with server.client() as client:
        await client.post(f"/api/workspaces/{server.start.workspace_id}/memories", json={"content": "The sky is blue"})
        lines = await client.get("/api/audit/export")
        assert lines.headers["content-type"].startswith("application/x-ndjson")
        events = [json.loads(line) for line in lines.text.splitlines()]
        assert events and all(event["organization_id"] == server.start.organization_id for event in events)
        await server.services.audit.seal()
        refused = await client.get("/api/audit/verify")
        assert refused.status_code == 403 and "whole organization" in refused.json()["error"]["message"]
    async with server.client(await organization_key(server, "management")) as client:
        found = (await client.get("/api/audit/verify")).json()
    assert found["intact"] and found["problems"] == [] and len(found["head_hash"]) == 64


@pytest.mark.one_process("each records the first refusal itself")
async def test_a_refusal_is_in_the_audit(server: TestServer) -> None:
    reader = await server.mint("read")
    async with server.client(reader.secret) as weak:
        for _ in range(3):
            refused = await weak.get("/api/audit")
            assert refused.status_code == 403 and "management" in refused.json()["error"]["message"]
    async with server.client() as client:
        denied = (await client.get("/api/audit", params={"outcome": "denied"})).json()["items"]
    assert [(event["actor"], event["action"], event["times"]) for event in denied] == [
        (reader.key.id, "GET /api/audit", 1)
    ]


@pytest.mark.parametrize("path", ["/api/audit", "/api/audit/export", "/api/usage", "/api/usage/log"])
async def test_another_organization_sees_nothing_of_it(server: TestServer, path: str) -> None:
    other = await server.another_tenant()
    key = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client() as client, server.client(key.secret) as stranger:
        await client.post(f"/api/workspaces/{server.start.workspace_id}/memories", json={"content": "Ours alone"})
        await server.services.usage.flush()
        seen = (await stranger.get(path, params={"since": "2020-01-01"})).text
    assert server.start.organization_id not in seen and server.start.workspace_id not in seen
    assert server.start.project_id not in seen


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("/api/audit", {"since": "yesterday"}, "since"),
        ("/api/audit", {"cursor": "nonsense"}, "cursor"),
        ("/api/audit", {"actor": "a\x00b"}, "actor"),
        ("/api/audit", {"planet": "mars"}, "planet"),
        ("/api/audit", {"outcome": "maybe"}, "outcome"),
        ("/api/usage", {"group_by": "planet"}, "group_by"),
        ("/api/usage", {"until": "9"}, "until"),
        ("/api/usage/log", {"cursor": "WyJhIl0"}, "cursor"),
    ],
)
async def test_a_wrong_query_is_named(server: TestServer, path: str, params: dict[str, str], field: str) -> None:
    async with server.client() as client:
        answer = await client.get(path, params=params)
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["error"]["fields"]] == [field]


@pytest.mark.one_process("a report lacks the other's last second")
async def test_usage_sums_the_requests_of_each_key(server: TestServer) -> None:
    other = await server.mint()
    async with server.client() as client, server.client(other.secret) as second:
        for _ in range(4):
            await second.get("/api/me")
        rows = (await client.get("/api/usage", params={"group_by": "week,actor", "kind": "requests"})).json()["items"]
    mine = [row for row in rows if row["actor"] == other.key.id]
    assert [(row["kind"], row["amount"]) for row in mine] == [("requests", 4)]
    assert mine[0]["week"].endswith("T00:00:00.000Z") and mine[0]["project_id"] is None


async def test_the_usage_log_names_the_source(server: TestServer) -> None:
    server.services.usage.log(server.owner, source="mcp", operation="ask", model="m", tokens_in=5, tokens_out=7)
    project = await server.mint()
    whole = await organization_key(server, "management")
    async with server.client(whole) as client, server.client(project.secret) as confined:
        (entry,) = (await client.get("/api/usage/log")).json()["items"]
        assert (await confined.get("/api/usage/log")).json()["items"] == []
    assert (entry["source"], entry["tokens_in"], entry["tokens_out"]) == ("mcp", 5, 7)


async def test_workspace_admins_see_their_workspaces_events_and_members_none(server: TestServer) -> None:
    first = server.start.workspace_id
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    await remembered(server, server.key, first, "The first workspace learned this")
    await remembered(server, server.key, other.id, "The other workspace learned this")
    organization = server.start.organization_id
    admin = await signed_in(server, organization, "Ada", "admin")
    member = await signed_in(server, organization, "Mel", "member")
    ward = await signed_in(server, organization, "Ward", "member", administers=True)
    async with server.stranger() as client:
        for path in ("/api/audit", "/api/audit/export"):
            refused = await client.get(path, headers=member)
            assert refused.status_code == 403 and "role admin" in refused.json()["error"]["message"]
            seen = (await client.get(path, headers=ward)).text
            assert first in seen and other.id not in seen and "user.create" not in seen
            everything = (await client.get(path, headers=admin)).text
            assert first in everything and other.id in everything
        foreign = await client.get("/api/audit", headers=ward, params={"workspace_id": other.id})
        assert foreign.json()["items"] == []
        assert (await client.get("/api/audit/verify", headers=ward)).status_code == 403


async def test_a_confined_key_sees_its_workspaces_events_and_usage_alone(server: TestServer) -> None:
    first, services = server.start.workspace_id, server.services
    other = await services.workspaces.create(server.owner, server.start.project_id, "Other")
    for workspace in (first, other.id):
        await remembered(server, server.key, workspace, f"Something about {workspace}")
        services.usage.log(
            server.owner,
            source="mcp",
            operation="ask",
            model="m",
            tokens_in=5,
            tokens_out=7,
            workspace_id=workspace,
            project_id=server.start.project_id,
        )
    confined = await server.mint("management", workspace_ids=frozenset({first}))
    async with server.client(confined.secret) as client:
        for path in ("/api/audit", "/api/audit/export", "/api/usage/log"):
            seen = (await client.get(path)).text
            assert first in seen and other.id not in seen
        rows = (await client.get("/api/usage", params={"group_by": "workspace"})).json()["items"]
        assert rows and {row["workspace_id"] for row in rows} == {first}


async def test_members_and_keys_that_manage_nothing_see_their_own_usage(server: TestServer) -> None:
    organization = server.start.organization_id
    member = await signed_in(server, organization, "Mel", "member")
    admin = await signed_in(server, organization, "Ada", "admin")
    reader = await server.mint("read")
    async with server.stranger() as client, server.client(reader.secret) as key:
        await key.get("/api/me")
        own = (await client.get("/api/me", headers=member)).json()
        await client.get("/api/me", headers=admin)
        asked = {"group_by": "actor"}
        mine = (await client.get("/api/usage", headers=member, params=asked)).json()["items"]
        assert {row["actor"] for row in mine} == {own["actor"]}
        theirs = (await key.get("/api/usage", params=asked)).json()["items"]
        assert {row["actor"] for row in theirs} == {reader.key.id}
        everybody = (await client.get("/api/usage", headers=admin, params=asked)).json()["items"]
        assert {own["actor"], reader.key.id} < {row["actor"] for row in everybody}
        other = (await client.get("/api/usage", headers=member, params={**asked, "actor": reader.key.id})).json()
        assert other["items"] == []


async def test_jobs_are_listed_read_and_cancelled_in_their_workspace_only(server: TestServer) -> None:
    jobs, base = server.services.jobs, f"/api/workspaces/{server.start.workspace_id}/jobs"
    other = await server.another_tenant()
    job_id, foreign = await server.services.database.write(
        lambda tx: (
            jobs.enqueue(tx, "nobody handles this", {"n": 1}, workspace_id=server.start.workspace_id),
            jobs.enqueue(tx, "nobody handles this", workspace_id=other.workspace_id),
        )
    )
    async with server.client() as client:
        (listed,) = (await client.get(base, params={"kind": "nobody handles this"})).json()["items"]
        assert (listed["id"], listed["state"], listed["attempts"]) == (job_id, "queued", 0) and "payload" not in listed
        assert (await client.get(f"{base}/{job_id}")).json() == listed
        for wrong in (f"{base}/{foreign}", f"{base}/x", f"/api/workspaces/{other.workspace_id}/jobs/{foreign}"):
            assert (await client.get(wrong)).status_code == 404
            assert (await client.post(wrong + "/cancel")).status_code == 404
        assert (await client.get(f"/api/workspaces/{other.workspace_id}/jobs")).status_code == 404
        cancelled = (await client.post(f"{base}/{job_id}/cancel")).json()
        assert cancelled["state"] == "cancelled" and cancelled["finished_at"] is not None
        again = await client.post(f"{base}/{job_id}/cancel")
        assert (again.status_code, again.json()["state"]) == (200, "cancelled")
        events = (await client.get("/api/audit", params={"action": "job.cancel"})).json()["items"]
    assert [event["resource_id"] for event in events] == [job_id]
    assert (await jobs.get(foreign)).state == "queued"
