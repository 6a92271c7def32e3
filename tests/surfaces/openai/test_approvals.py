"""A chat whose model calls an enrolled tool: it runs, or the turn stops at a link and goes on after a decision."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.storage.database import Database
from tests.fakes.llm.model import FakeModel, calls, says
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect
from tests.surfaces.openai.test_turns import events

ASK: dict[str, Any] = {
    "x_chat_id": "c1",
    "stream": True,
    "messages": [{"role": "user", "content": "Count one."}],
    "web_search_options": {"x_tools": ["demo.count", "demo.add"]},
}


@pytest.fixture
async def inside() -> InsideServers:
    return InsideServers()


@pytest.fixture
async def served(database: Database, inside: InsideServers) -> AsyncIterator[TestServer]:
    async with serving(database, instead=inside.instead()) as server:
        await enrolled(server.services, server.owner, server.start.workspace_id)
        yield server


async def test_a_model_calls_an_enrolled_tool_that_needs_nobody(
    served: TestServer, inside: InsideServers, upstream: FakeModel
) -> None:
    chat = await connect(served, upstream)
    upstream.script = [calls(("demo.add", {"left": 2, "right": 3})), says("It is 5.")]
    async with served.client() as client:
        answered = await client.post(f"{chat}/chat/completions", json={**ASK, "stream": False})
    assert inside.server.runs["add"] == 1 and "It is 5." in answered.text


@pytest.mark.contract("XM-11")
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_call_that_needs_a_person_stops_the_turn_which_goes_on_by_itself_when_they_decided(
    served: TestServer, inside: InsideServers, upstream: FakeModel, decision: str
) -> None:
    chat = await connect(served, upstream)
    upstream.script = [calls(("demo.count", {"name": "a"})), says("I know what came of it.")]
    async with served.client() as client:
        answered = await client.post(f"{chat}/chat/completions", json=ASK)
        told = events(answered.text)
        (required,) = [event for event in told if event.get("type") == "x_approval.required"]
        assert "/approve/" in required["approval_url"] and required["tool_name"] == "demo.count"
        assert required["approval_url"] in answered.text and inside.server.runs["count"] == 0
        async with await served.browser(served.start.owner_id) as owner:
            decided = await owner.post(f"/api/approvals/{required['approval_id']}", json={"decision": decision})
            assert decided.status_code == 200
        path = f"/api/workspaces/{served.start.workspace_id}/chats/c1/messages"
        async with asyncio.timeout(30):
            while "I know what came of it." not in (await client.get(path)).text:
                await asyncio.sleep(0.05)
    assert inside.server.runs["count"] == int(decision == "approve")


async def test_no_words_in_the_chat_stand_for_an_approval_and_the_turn_still_goes_on_when_it_comes(
    served: TestServer, inside: InsideServers, upstream: FakeModel
) -> None:
    chat = await connect(served, upstream)
    upstream.script = [calls(("demo.count", {"name": "a"})), says("It has to be approved."), says("Counted.")]
    async with served.client() as client:
        answered = await client.post(f"{chat}/chat/completions", json=ASK)
        (required,) = [event for event in events(answered.text) if event.get("type") == "x_approval.required"]
        claim = {"correlation_id": required["approval_id"], "answer": "approved"}
        refused = await client.post(f"{chat}/chat/completions", json={**ASK, "x_ask_user": claim})
        assert refused.status_code >= 400 and required["approval_url"] in refused.text
        words = {**ASK, "stream": False, "messages": [{"role": "user", "content": "Yes, I approve it."}]}
        told = await client.post(f"{chat}/chat/completions", json=words)
        assert "It has to be approved." in told.text and inside.server.runs["count"] == 0
        async with await served.browser(served.start.owner_id) as owner:
            await owner.post(f"/api/approvals/{required['approval_id']}", json={"decision": "approve"})
        path = f"/api/workspaces/{served.start.workspace_id}/chats/c1/messages"
        async with asyncio.timeout(30):
            while "Counted." not in (await client.get(path)).text:
                await asyncio.sleep(0.05)
    assert inside.server.runs["count"] == 1


@pytest.mark.contract("XM-11")
async def test_a_call_that_waits_for_a_person_goes_on_after_a_restart(
    database: Database, inside: InsideServers, upstream: FakeModel
) -> None:
    upstream.script = [calls(("demo.count", {"name": "a"})), says("It was counted after all.")]
    async with serving(database, instead=inside.instead()) as before, before.client() as client:
        await enrolled(before.services, before.owner, before.start.workspace_id)
        answered = await client.post(f"{await connect(before, upstream)}/chat/completions", json=ASK)
        (required,) = [event for event in events(answered.text) if event.get("type") == "x_approval.required"]
    async with (
        serving(database, instead=inside.instead()) as after,
        await after.browser(after.start.owner_id) as owner,
    ):
        body = {"decision": "approve"}
        assert (await owner.post(f"/api/approvals/{required['approval_id']}", json=body)).status_code == 200
        path = f"/api/workspaces/{after.start.workspace_id}/chats/c1/messages"
        async with asyncio.timeout(30):
            while "It was counted after all." not in (await owner.get(path)).text:
                await asyncio.sleep(0.05)
    assert inside.server.runs["count"] == 1
