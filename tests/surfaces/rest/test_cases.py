"""Owns the proof of cases over REST: shapes, statuses and refusals."""

from typing import Any

import httpx
import pytest

from tests.support.server import TestServer


async def _add(client: httpx.AsyncClient, space: str, **fields: Any) -> dict[str, Any]:
    answer = await client.post(space, json={"title": "Mend the fence", **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.mark.contract("ZE-4")
async def test_a_case_has_the_pinned_fields_and_moves_with_its_version(server: TestServer) -> None:
    space = f"/api/workspaces/{server.start.workspace_id}/cases"
    async with server.client() as client:
        case = await _add(client, space, criteria=["It stands"], labels=["fence"], due_at="7d")
        pinned = ("id", "title", "body", "kind", "state", "priority", "criteria", "repository", "base_commit")
        assert {*pinned, "head_commit", "parent", "links", "claim", "version", "history"} <= case.keys()
        one = f"{space}/{case['id']}"
        moved = await client.post(f"{one}/move", json={"state": "PLANNING", "expected_version": 1})
        assert (moved.json()["state"], moved.json()["version"]) == ("PLANNING", 2)
        stale = await client.post(f"{one}/move", json={"state": "IMPLEMENTING", "expected_version": 1})
        assert (stale.status_code, stale.json()["error"]["code"]) == (409, "version_conflict")
        illegal = await client.post(f"{one}/move", json={"state": "DONE"})
        assert illegal.status_code == 409
        assert illegal.json()["error"]["fields"][0]["message"] == "one of: IMPLEMENTING, BLOCKED, CANCELLED"
        unknown = await client.post(f"{one}/move", json={"state": "FINISHED"})
        assert unknown.status_code == 422
        changed = await client.patch(one, json={"assignee": "ada", "priority": 0})
        assert (changed.json()["assignee"], changed.json()["priority"]) == ("ada", 0)
        cleared = await client.patch(one, json={"assignee": None, "title": None})
        assert (cleared.json()["assignee"], cleared.json()["title"]) == (None, "Mend the fence")
        remark = await client.post(f"{one}/comments", json={"text": "@ada look"})
        assert (remark.status_code, remark.json()["mentions"]) == (201, ["ada"])
        assert [each["text"] for each in (await client.get(one)).json()["comments"]] == ["@ada look"]


async def test_the_queue_over_rest(server: TestServer) -> None:
    space = f"/api/workspaces/{server.start.workspace_id}/cases"
    other = await server.mint(name="other")
    async with server.client() as client, server.client(other.secret) as second:
        nothing = await client.post(f"{space}/claim-next", json={})
        assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "nothing_ready")
        case = await _add(client, space)
        assert [each["id"] for each in (await client.get(f"{space}/ready")).json()["items"]] == [case["id"]]
        claimed = (await client.post(f"{space}/claim-next", json={"session_id": "ses_1"})).json()
        assert (claimed["id"], claimed["claim"]["session_id"], claimed["claim"]["fence"]) == (case["id"], "ses_1", 1)
        one = f"{space}/{case['id']}"
        held = await second.post(f"{one}/claim", json={})
        assert held.status_code == 409 and "session ses_1" in held.json()["error"]["message"]
        refused = await second.post(f"{one}/move", json={"state": "PLANNING"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "held")
        renewed = await client.post(f"{one}/renew", json={"fence": 1})
        assert renewed.json()["claim"]["expires_at"] >= claimed["claim"]["expires_at"]
        assert (await client.post(f"{one}/renew", json={"fence": 7})).status_code == 409
        assert (await client.post(f"{one}/release", json={"fence": 1})).json()["claim"] is None
        again = (await second.post(f"{one}/claim", json={})).json()
        assert again["claim"]["fence"] == 2


async def test_the_queue_is_read_page_by_page(server: TestServer) -> None:
    space = f"/api/workspaces/{server.start.workspace_id}/cases"
    async with server.client() as client:
        ids = [(await _add(client, space))["id"] for _ in range(5)]
        seen: list[str] = []
        cursor: str | None = None
        while cursor is not None or not seen:
            where = {"limit": "2"} if cursor is None else {"limit": "2", "cursor": cursor}
            page = (await client.get(f"{space}/ready", params=where)).json()
            seen += [each["id"] for each in page["items"]]
            cursor = page["next_cursor"]
        assert seen == ids


async def test_links_proofs_and_keys_over_rest(server: TestServer) -> None:
    space = f"/api/workspaces/{server.start.workspace_id}/cases"
    async with server.client() as client:
        first, second = await _add(client, space), await _add(client, space)
        link = {"type": "blocks", "case_id": second["id"]}
        linked = await client.post(f"{space}/{first['id']}/links", json=link)
        assert linked.json()["links"] == [link]
        circle = await client.post(f"{space}/{second['id']}/links", json={"type": "blocks", "case_id": first["id"]})
        assert (circle.status_code, circle.json()["error"]["code"]) == (409, "cycle")
        gone = await client.delete(f"{space}/{first['id']}/links/blocks/{second['id']}")
        assert gone.status_code == 204
        wrong = await client.delete(f"{space}/{first['id']}/links/likes/{second['id']}")
        assert wrong.status_code == 422
        reported = {"kind": "reported", "outcome": "passed", "claim": "CI was green", "commit": "0" * 40}
        proof = await client.post(f"{space}/{first['id']}/proofs", json=reported)
        assert (proof.status_code, proof.json()["verdict"]) == (201, "reported")
        listed = (await client.get(f"{space}/{first['id']}/proofs")).json()["items"]
        assert [each["id"] for each in listed] == [proof.json()["id"]]
        assert (await client.post(f"{space}/proofs/{proof.json()['id']}/run")).status_code == 409
        assert (await client.get(f"{space}/proofs/{proof.json()['id']}/statement")).status_code == 409
        word = await client.post(f"{space}/{first['id']}/proofs", json={"kind": "word", "claim": "trust me"})
        assert word.status_code == 403
        keys = (await client.get("/api/proof-keys")).json()["items"]
        assert "BEGIN PUBLIC KEY" in keys[0]["pem"]
