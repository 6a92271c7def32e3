"""The page where a person decides about a call: what it shows, that looking decides nothing, and who may."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.model import Invocation, InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving


@dataclass
class Asking:
    server: TestServer
    inside: InsideServers

    async def ask(self, name: str = "a", *, chat_id: str | None = None) -> Invocation:
        request = InvocationRequest(
            principal=self.server.owner,
            workspace_id=self.server.start.workspace_id,
            tool_name="demo.count",
            arguments={"name": name},
            source="cli",
            chat_id=chat_id,
        )
        return (await self.server.services[Execution].invoke(request)).invocation

    async def now(self, invocation: Invocation) -> Invocation:
        return await self.server.services[Execution].wait(
            self.server.owner,
            invocation.workspace_id,
            invocation.id,
            seconds=20,
            until=lambda found: found.finished,
        )


@pytest.fixture
async def asking(sqlite_database: SqliteDatabase) -> AsyncIterator[Asking]:
    inside = InsideServers()
    async with serving(sqlite_database, instead=inside.instead()) as server:
        await enrolled(server.services, server.owner, server.start.workspace_id)
        yield Asking(server, inside)


@pytest.mark.contract("XM-11")
async def test_a_person_reads_what_is_asked_and_approves_it_on_the_page(asking: Asking) -> None:
    invocation = await asking.ask("<script>alert(1)</script>")
    assert invocation.approval is not None
    path = f"/approve/{invocation.approval.token}"
    async with await asking.server.browser(asking.server.start.owner_id) as owner:
        listed = (await owner.get("/approvals")).text
        assert path in listed and "demo.count" in listed
        for _ in range(3):
            page = await owner.get(path)
            assert page.status_code == 200 and "demo.count" in page.text and "<script>alert(1)" not in page.text
            assert "&lt;script&gt;" in page.text and 'name="decision" value="approve"' in page.text
        await owner.head(path)
        assert asking.inside.server.runs["count"] == 0
        answer = await owner.post(
            path, data={"decision": "approve", "note": "fine", "csrf": owner.headers["X-CSRF-Token"]}
        )
        assert answer.status_code == 303
        assert (await asking.now(invocation)).status == "succeeded"
        again = await owner.post(path, data={"decision": "deny", "csrf": owner.headers["X-CSRF-Token"]})
        assert again.status_code == 409
        assert (await asking.now(invocation)).status == "succeeded"


@pytest.mark.contract("XM-11")
async def test_a_stranger_is_sent_to_sign_in_and_a_member_cannot_decide(asking: Asking) -> None:
    invocation = await asking.ask()
    assert invocation.approval is not None
    path = f"/approve/{invocation.approval.token}"
    async with asking.server.stranger() as stranger:
        assert (await stranger.get(path)).headers["location"] == "/sign-in"
        assert (await stranger.post(path, data={"decision": "approve"})).status_code in (303, 403)
    member = await asking.server.services.identity.create_user(
        asking.server.owner, email="eve@example.com", name="Eve", role="member"
    )
    async with await asking.server.browser(member.id) as eve:
        assert 'name="decision"' not in (await eve.get(path)).text
        refused = await eve.post(path, data={"decision": "approve", "csrf": eve.headers["X-CSRF-Token"]})
        assert refused.status_code == 403
        api = await eve.post(f"/api/approvals/{invocation.approval.id}", json={"decision": "approve"})
        assert api.status_code == 403
    async with asking.server.client() as key:
        assert (await key.post(path, data={"decision": "approve"})).status_code in (303, 403)
        by_key = await key.post(f"/api/approvals/{invocation.approval.id}", json={"decision": "approve"})
        assert by_key.status_code == 403
        given = await key.post(
            "/grants",
            json={
                "workspace": invocation.workspace_id,
                "subject": {"type": "key", "id": "key_x"},
                "grant_type": "tool_scope",
                "details": {"tool": "demo.count"},
            },
        )
        assert given.status_code == 403
    assert asking.inside.server.runs["count"] == 0


@pytest.mark.contract("XM-11")
@pytest.mark.contract("XA-7")
async def test_a_signed_in_person_decides_and_gives_grants_over_the_api_with_the_sessions_token(asking: Asking) -> None:
    invocation = await asking.ask()
    assert invocation.approval is not None
    decide = f"/api/approvals/{invocation.approval.id}"
    space = f"/api/workspaces/{invocation.workspace_id}"
    async with await asking.server.browser(asking.server.start.owner_id) as owner:
        token = owner.headers.pop("X-CSRF-Token")
        assert (await owner.post(decide, json={"decision": "approve"})).status_code == 403
        owner.headers["X-CSRF-Token"] = token
        assert (await owner.post(decide, json={"decision": "perhaps"})).status_code == 422
        decided = await owner.post(decide, json={"decision": "approve", "note": "go"})
        assert decided.status_code == 200 and decided.json()["state"] == "approved"
        found = (await owner.get(f"{space}/invocations/{invocation.id}?wait_seconds=20")).json()
        assert found["approval"]["via"] == "api"
        subject = {"type": "key", "id": "key_x"}
        body = {"workspace": invocation.workspace_id, "subject": subject, "grant_type": "tool_scope"}
        wrong = await owner.post("/grants", json=body)
        assert wrong.status_code == 422 and "details.scope" in wrong.text
        given = await owner.post("/grants", json={**body, "details": {"scope": "x.y"}, "scope": "persistent"})
        assert given.status_code == 201
        grant_id = given.json()["grant_id"]
        assert [each["grant_id"] for each in (await owner.get(f"{space}/grants")).json()["items"]] == [grant_id]
        assert (await owner.delete(f"{space}/grants/{grant_id}")).status_code == 204
        assert (await owner.get(f"{space}/grants")).json()["items"] == []


async def test_equal_calls_stand_together_and_are_decided_at_once_each_by_itself(asking: Asking) -> None:
    first = await asking.ask("a")
    assert first.approval is not None
    async with await asking.server.browser(asking.server.start.owner_id) as owner:
        await owner.post(f"/api/approvals/{first.approval.id}", json={"decision": "approve"})
        await asking.now(first)
        equal = [await asking.ask("b", chat_id=f"chat-{number}") for number in range(3)]
        other = await asking.ask("c")
        page = (await owner.get("/approvals")).text
        assert "3 equal calls" in page and page.count("Decide here") == 2
        assert "<del>&#34;a&#34;</del> <ins>&#34;b&#34;</ins>" in page
        ids = " ".join(each.approval.id for each in equal if each.approval is not None)
        await owner.post(f"/api/approvals/{ids.split()[0]}", json={"decision": "deny"})
        late = await owner.post("/approvals", data={"ids": ids, "decision": "approve"})
        assert late.status_code == 409 and "decided already" in late.text
        assert [(await asking.now(each)).status for each in equal] == ["denied", "succeeded", "succeeded"]
        assert other.approval is not None and asking.inside.server.runs["count"] == 3
        done = await owner.post("/approvals", data={"ids": other.approval.id, "decision": "deny"})
        assert done.status_code == 303 and (await asking.now(other)).status == "denied"
        assert "Nothing waits" in (await owner.get("/approvals")).text


async def test_a_member_decides_no_call_of_the_digest(asking: Asking) -> None:
    invocation = await asking.ask()
    assert invocation.approval is not None
    async with await asking.server.browser((await people(asking.server))["member"]) as member:
        assert "Decide here" not in (await member.get("/approvals")).text
        refused = await member.post("/approvals", data={"ids": invocation.approval.id, "decision": "approve"})
        assert refused.status_code == 403
    assert asking.inside.server.runs["count"] == 0


@pytest.mark.parametrize("destructive", [False, True])
async def test_the_page_offers_to_allow_a_session_only_where_nothing_can_be_destroyed(
    asking: Asking, destructive: bool
) -> None:
    change = ToolChange(destructive=destructive)
    await asking.server.services[ToolPins].set(
        asking.server.owner, asking.server.start.workspace_id, "demo", "count", change
    )
    invocation = await asking.ask(chat_id="one")
    assert invocation.approval is not None
    path = f"/approve/{invocation.approval.token}"
    async with await asking.server.browser(asking.server.start.owner_id) as owner:
        assert ('name="session"' in (await owner.get(path)).text) is not destructive
        answer = await owner.post(path, data={"decision": "approve", "session": "1"})
        assert answer.status_code == (422 if destructive else 303)
        assert ("is destructive" in answer.text) is destructive
