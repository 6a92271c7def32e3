"""Clients that help a person decide: they open the page, or let their own model answer where that is allowed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp_types import CreateMessageResult, ElicitRequestURLParams, ElicitResult, TextContent

from holdfast.core.principal import SCOPES, Principal
from holdfast.features.audit.model import AuditFilter
from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals
from holdfast.features.execution.model import ExecutionSetting
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.surfaces.mcp.exec.test_enrolled_tools import Enrolled
from tests.surfaces.mcp.harness import ERAS, serve_site

both_eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
async def here(sqlite_database: SqliteDatabase) -> AsyncIterator[Enrolled]:
    inside = InsideServers()
    async with serve_site(sqlite_database, instead=inside.instead()) as site:
        await enrolled(site.services, site.owner, site.workspace)
        yield Enrolled(site, inside)


async def person(here: Enrolled) -> Principal:
    user = await here.site.services.identity.create_user(
        here.site.owner, email="ada@example.com", name="Ada", role="admin"
    )
    return Principal(
        here.site.owner.organization_id, user.id, "session", True, frozenset(SCOPES), role="admin", name="Ada"
    )


@both_eras
@pytest.mark.contract("XM-11")
async def test_a_client_that_opens_pages_gets_the_link_and_the_decision_in_one_call(here: Enrolled, era: str) -> None:
    ada = await person(here)
    opened: list[str] = []
    decisions: list[Any] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestURLParams)
        opened.append(params.url)
        token = params.url.rsplit("/", 1)[-1]
        decisions.append(await here.site.services[Approvals].decide(ada, token, ApprovalDecision(True), "page"))
        return ElicitResult(action="accept")

    async with here.site.client(await here.site.key(), era, elicitation_callback=elicit) as client:
        asked = {"tool_name": "demo.count", "arguments": {}}
        ended = await client.call_tool("xerotier.exec.invoke_blocking", asked)
        assert (ended.structured_content or {})["status"] == "succeeded", ended
    assert len(opened) == 1 and here.inside.server.runs["count"] == 1


@both_eras
async def test_a_person_who_declines_to_open_the_page_leaves_the_call_waiting(here: Enrolled, era: str) -> None:
    async def elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    async with here.site.client(await here.site.key(), era, elicitation_callback=elicit) as client:
        asked = await client.call_tool("xerotier.exec.invoke", {"tool_name": "demo.count", "arguments": {}})
        assert (asked.structured_content or {})["status"] == "awaiting_approval"
    assert here.inside.server.runs["count"] == 0


def says(word: str) -> Any:
    async def sample(context: Any, params: Any) -> CreateMessageResult:
        content = TextContent(type="text", text=word)
        return CreateMessageResult(role="assistant", content=content, model="fake", stop_reason="endTurn")

    return sample


@both_eras
@pytest.mark.contract("XM-12")
@pytest.mark.parametrize(
    ("allowed", "tool", "word", "status"),
    [
        (True, "demo.count", "APPROVE", "succeeded"),
        (True, "demo.count", "APPROVE.", "awaiting_approval"),
        (True, "demo.count", "DENY", "awaiting_approval"),
        (True, "demo.wipe", "APPROVE", "awaiting_approval"),
        (False, "demo.count", "APPROVE", "awaiting_approval"),
    ],
)
async def test_a_clients_model_approves_only_what_it_may_and_only_with_the_one_word(
    here: Enrolled, era: str, allowed: bool, tool: str, word: str, status: str
) -> None:
    site = here.site
    await site.services[ExecutionSettings].set(site.owner, site.workspace, ExecutionSetting(sampling_approvals=allowed))
    key = await site.key(allow_destructive=True)
    async with site.client(key, era, sampling_callback=says(word)) as client:
        asked = {"tool_name": tool, "arguments": {}}
        ended = await client.call_tool("xerotier.exec.invoke_blocking", asked)
        assert (ended.structured_content or {})["status"] == status
    events = await site.services.audit.list(site.owner, AuditFilter(action="approval.approved"))
    assert [event.detail["via"] for event in events.items] == (["sampling"] if status == "succeeded" else [])


async def test_a_dropped_client_can_poll_for_what_it_began(here: Enrolled) -> None:
    site = here.site
    await site.services[ToolPins].set(site.owner, site.workspace, "demo", "slow", ToolChange(policy="auto"))
    key = await site.key()
    asked = {"tool_name": "demo.slow", "arguments": {}}
    async with site.client(key, "2026-07-28") as client:
        dropped = asyncio.create_task(client.call_tool("xerotier.exec.invoke_blocking", asked))
        await here.inside.server.begun.wait()
        dropped.cancel()
    async with site.client(key, "2026-07-28") as client:
        again = await client.call_tool("xerotier.exec.invoke", asked)
        id = (again.structured_content or {})["invocation_id"]
        here.inside.server.go_on.set()
        status = "running"
        while status in ("running", "queued"):
            polled = await client.call_tool("xerotier.exec.poll", {"invocation_id": id, "wait_seconds": 20})
            status = (polled.structured_content or {})["status"]
        assert status == "succeeded"
    assert here.inside.server.runs["slow"] == 1
