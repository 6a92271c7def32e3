"""The pages of calls: what was asked, by whom, what became of it, and stopping one that waits."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from holdfast.features.catalog.model import Policy
from holdfast.features.execution.model import Invocation, InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.support.server import TestServer, serving

LIST = "/w/default/invocations"
POLICIES: dict[str, Policy] = {"add": "auto", "fail": "auto", "count": "approve"}


@dataclass
class Called:
    server: TestServer

    async def call(self, tool: str, **arguments: object) -> Invocation:
        """Ask for a call; where nobody has to decide, until it ended."""
        execution, workspace = self.server.services[Execution], self.server.start.workspace_id
        request = InvocationRequest(
            principal=self.server.owner, workspace_id=workspace, tool_name=tool, arguments=arguments, source="cli"
        )
        asked = (await execution.invoke(request)).invocation
        if asked.approval is not None:
            return asked
        return await execution.wait(
            self.server.owner, workspace, asked.id, seconds=20, until=lambda found: found.finished
        )

    async def now(self, call: Invocation) -> Invocation:
        return await self.server.services[Execution].get(self.server.owner, call.workspace_id, call.id)


@pytest.fixture
async def called(sqlite_database: SqliteDatabase) -> AsyncIterator[Called]:
    async with serving(sqlite_database, instead=InsideServers().instead()) as server:
        await enrolled(server.services, server.owner, server.start.workspace_id, policies=POLICIES)
        yield Called(server)


@pytest.fixture
async def owner(called: Called) -> AsyncIterator[httpx.AsyncClient]:
    async with await called.server.browser(called.server.start.owner_id) as client:
        yield client


async def test_calls_are_listed_with_their_state_and_narrowed_by_it(called: Called, owner: httpx.AsyncClient) -> None:
    assert "No call is here" in (await owner.get(LIST)).text
    done, waiting = await called.call("demo.add", left=1, right=2), await called.call("demo.count", name="a")
    page = (await owner.get(LIST)).text
    assert f"{LIST}/{done.id}" in page and f"{LIST}/{waiting.id}" in page
    narrowed = (await owner.get(f"{LIST}?status=succeeded")).text
    assert f"{LIST}/{done.id}" in narrowed and waiting.id not in narrowed
    of_tool = (await owner.get(f"{LIST}?tool=demo.count")).text
    assert done.id not in of_tool and waiting.id in of_tool
    assert (await owner.get(f"{LIST}?status=lost")).status_code == 422


async def test_one_call_shows_its_arguments_its_result_and_its_timeline(
    called: Called, owner: httpx.AsyncClient
) -> None:
    call = await called.call("demo.add", left=40, right=2)
    assert call.status == "succeeded"
    page = (await owner.get(f"{LIST}/{call.id}")).text
    assert "&#34;left&#34;: 40" in page and ">42</pre>" in page and "&#34;total&#34;: 42" in page
    moments = [page.index(f">{word}</span>") for word in ("asked for", "begun", "sent to the server")]
    assert moments == sorted(moments) and "Cancel the call" not in page


async def test_a_call_that_failed_says_what_its_server_said(called: Called, owner: httpx.AsyncClient) -> None:
    call = await called.call("demo.fail")
    page = (await owner.get(f"{LIST}/{call.id}")).text
    assert call.status == "failed" and "It went wrong." in page


async def test_a_call_that_waits_leads_to_its_question_and_can_be_cancelled(
    called: Called, owner: httpx.AsyncClient
) -> None:
    call = await called.call("demo.count", name="<i>a</i>")
    assert call.approval is not None
    page = (await owner.get(f"{LIST}/{call.id}")).text
    assert f"/approve/{call.approval.token}" in page and "Cancel the call" in page and "<i>a</i>" not in page
    assert (await owner.post(f"{LIST}/{call.id}/cancel")).status_code == 303
    assert (await called.now(call)).status == "cancelled"
    assert "Cancel the call" not in (await owner.get(f"{LIST}/{call.id}")).text


async def test_a_call_is_not_there_in_another_workspace(called: Called, owner: httpx.AsyncClient) -> None:
    call, start = await called.call("demo.count", name="a"), called.server.start
    other = await called.server.services.workspaces.create(called.server.owner, start.project_id, "Other")
    path = f"/w/{other.slug}/invocations/{call.id}"
    assert (await owner.get(path)).status_code == 404
    assert (await owner.post(f"{path}/cancel")).status_code == 404
    assert (await called.now(call)).status == "awaiting_approval"
