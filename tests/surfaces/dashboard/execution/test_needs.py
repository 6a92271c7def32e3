"""What of governed execution waits for a person on the first page, and what keys see of enrolled tools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from holdfast.engines.mcp_client.base import LoginNeeded
from holdfast.engines.mcp_client.oauth import AuthServer, Login, OAuthClient
from holdfast.features.catalog.model import NewEntry, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerStart
from holdfast.features.catalog.servers.kept_logins import KeptLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals
from holdfast.features.execution.model import Invocation, InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.identity.sessions.sign_in import principal_of
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.mcp.inside import InsideServer, InsideServers
from tests.support.execution.counting import enrolled
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving


class Forgetful(InsideServers):
    """Servers at which everybody has to sign in once `ended` is set."""

    ended = False

    @asynccontextmanager
    async def connection(self, start: ServerStart) -> AsyncIterator[InsideServer]:
        if self.ended:
            raise LoginNeeded("far needs you to sign in.", "https://holdfast.example/connect/far")
        async with super().connection(start) as connection:
            yield connection


@dataclass
class First:
    server: TestServer
    inside: Forgetful

    async def needs(self, user_id: str | None = None) -> str:
        async with await self.server.browser(user_id or self.server.start.owner_id) as person:
            page = (await person.get("/")).text
        return page.partition('id="needs"')[2].partition("</section>")[0]

    async def call(self, tool: str, **arguments: object) -> Invocation:
        link = await self.server.link(self.server.start.owner_id)
        session = (await self.server.services.sign_in.by_link(link)).session
        request = InvocationRequest(
            principal=principal_of(session),
            workspace_id=self.server.start.workspace_id,
            tool_name=tool,
            arguments=arguments,
            source="rest",
        )
        return (await self.server.services[Execution].invoke(request)).invocation


@pytest.fixture
async def first(sqlite_database: SqliteDatabase) -> AsyncIterator[First]:
    inside = Forgetful()
    async with serving(sqlite_database, instead=inside.instead()) as server:
        yield First(server, inside)


async def test_a_call_waits_on_the_first_page_of_who_may_decide_until_it_is_decided(first: First) -> None:
    services, start = first.server.services, first.server.start
    await enrolled(services, first.server.owner, start.workspace_id)
    call = await first.call("demo.count", name="a")
    assert call.approval is not None
    shown = await first.needs()
    assert f'href="/approve/{call.approval.token}"' in shown and "waits for your decision" in shown
    assert "Nothing waits for you." in await first.needs((await people(first.server))["member"])
    await services[Approvals].decide(call.principal, call.approval.id, ApprovalDecision(False), "page")
    assert "Nothing waits for you." in await first.needs()


async def test_a_changed_tool_waits_for_who_can_accept_it(first: First) -> None:
    services, workspace = first.server.services, first.server.start.workspace_id
    await enrolled(services, first.server.owner, workspace)
    first.inside.server.tools[0]["description"] = "Something else."
    await services[ToolPins].probe(first.server.owner, workspace, "demo")
    shown = await first.needs()
    assert 'href="/w/default/settings/mcp-servers/demo"' in shown and "was changed by its server" in shown
    assert "Nothing waits for you." in await first.needs((await people(first.server))["member"])
    await services[ToolPins].accept(first.server.owner, workspace, "demo", first.inside.server.tools[0]["name"])
    assert "Nothing waits for you." in await first.needs()


async def test_a_login_that_ended_waits_for_the_person_whose_call_it_stopped_until_they_sign_in(first: First) -> None:
    services, start = first.server.services, first.server.start
    entry = await services[ServerCatalog].register(
        first.server.owner, start.workspace_id, NewEntry(name="far", shape="remote", url="https://mcp.example.com/mcp")
    )
    await services[ToolPins].probe(first.server.owner, start.workspace_id, "far")
    await services[ToolPins].set(first.server.owner, start.workspace_id, "far", "count", ToolChange(policy="auto"))
    first.inside.ended = True
    call = await first.call("far.count", name="a")
    ended = await services[Execution].wait(
        call.principal, call.workspace_id, call.id, seconds=20, until=lambda found: found.finished
    )
    assert ended.error is not None and ended.error["code"] == "login_needed"
    shown = await first.needs()
    assert f'href="/connect/{entry.id}"' in shown and "wants you to sign in" in shown
    assert "wants you to sign in" not in await first.needs((await people(first.server))["admin"])
    await services[KeptLogins].save(entry.id, start.owner_id, _login())
    assert "wants you to sign in" not in await first.needs()


@pytest.mark.parametrize(("tier", "is_listed"), [("core", False), ("exec", True)])
async def test_what_a_key_sees_names_the_tools_of_mcp_servers(first: First, tier: str, is_listed: bool) -> None:
    await enrolled(first.server.services, first.server.owner, first.server.start.workspace_id)
    async with await first.server.browser(first.server.start.owner_id) as owner:
        assert ("<code>demo.count</code>" in await _seen(first, owner, tier)) is is_listed
        assert "<code>demo.wipe</code>" not in await _seen(first, owner, tier)


async def test_what_has_no_room_in_a_keys_list_is_counted(first: First) -> None:
    first.inside.server.tools = [
        {"name": f"tool{number}", "description": "x" * 1_900, "inputSchema": {"type": "object"}} for number in range(40)
    ]
    await enrolled(first.server.services, first.server.owner, first.server.start.workspace_id)
    async with await first.server.browser(first.server.start.owner_id) as owner:
        part = await _seen(first, owner, "exec")
    listed = part.count("<code>demo.tool")
    assert 0 < listed < 20 and f"{40 - listed} more tools of MCP servers" in part


async def _seen(first: First, owner: httpx.AsyncClient, tier: str) -> str:
    form = {"name": "x", "kind": "project", "project_id": first.server.start.project_id, "tier": tier}
    answer = await owner.post(
        "/settings/keys/seen", data=form | {"scopes": "inference"}, headers={"HX-Request": "true"}
    )
    return answer.text


def _login() -> Login:
    at = "https://login.example.com"
    server = AuthServer(at, f"{at}/authorize", f"{at}/token", None, "https://mcp.example.com/mcp", "", True)
    return Login(server, OAuthClient("holdfast", None, "none"), "an access token", None, None, "")
