"""Owns the proof that real MCP clients of both eras list, read, follow and call at `/mcp`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from holdfast.features.cases.model import NewCase
from holdfast.features.cases.proofs.model import NewProof
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.service import CaseService
from holdfast.features.workspaces.model import Workspace
from tests.support.server import TestServer
from tests.surfaces.mcp.harness import ERAS, MODERN, until

both_eras = pytest.mark.parametrize("era", ERAS)


@asynccontextmanager
async def connected(server: TestServer, era: str, key: str | None = None, **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key or server.key}", **more.pop("headers", {})}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=era, **more) as client,
    ):
        yield client


async def add(server: TestServer, title: str, workspace: str | None = None, **fields: Any) -> str:
    cases = server.services[CaseService]
    new = NewCase(title=title, **fields)
    return (await cases.add(server.owner, workspace or server.start.workspace_id, new)).id


async def second(server: TestServer) -> Workspace:
    return await server.services.workspaces.create(server.owner, server.start.project_id, "Second")


@both_eras
@pytest.mark.contract("ZE-1")
@pytest.mark.contract("ZE-2")
async def test_a_client_lists_and_reads_all_of_the_project(server: TestServer, era: str) -> None:
    here, there = await add(server, "Here"), await add(server, "There", (await second(server)).id)
    async with connected(server, era) as client:
        listed = await client.list_resources()
        assert {str(each.uri) for each in listed.resources} == {f"zero://cases/{id}" for id in (here, there)}
        templates = await client.list_resource_templates()
        assert [each.uri_template for each in templates.resource_templates] == [
            "zero://cases/{id}",
            "zero://proofs/{case_id}",
        ]
        found = await client.read_resource(f"zero://cases/{there}")
        assert json.loads(found.contents[0].text)["title"] == "There"  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("zero://cases/case_0")


@both_eras
async def test_a_long_list_comes_in_pages(server: TestServer, era: str) -> None:
    made = {await add(server, f"Case {number}") for number in range(105)}
    seen: list[str] = []
    async with connected(server, era) as client:
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            seen += [str(each.uri).removeprefix("zero://cases/") for each in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert len(seen) == 105 and set(seen) == made


@both_eras
async def test_a_client_works_a_case_from_claim_to_done(server: TestServer, era: str) -> None:
    id = await add(server, "Paint", criteria=("It is green",))
    async with connected(server, era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools[:2] == ["zero_list_cases", "zero_get_case"] and "xerotier.memory.save" not in tools
        listed = await client.call_tool("zero_list_cases", {"state_filter": "open"})
        assert listed.structured_content is not None
        assert [each["id"] for each in listed.structured_content["cases"]] == [id]
        claimed = await client.call_tool("zero_claim_case", {})
        assert claimed.structured_content is not None and claimed.structured_content["id"] == id
        fence = claimed.structured_content["claim"]["fence"]
        for state in ("PLANNING", "IMPLEMENTING", "VERIFYING"):
            moved = await client.call_tool("zero_move_case", {"case_id": id, "state": state, "fence": fence})
            assert not moved.is_error
        refused = await client.call_tool("zero_move_case", {"case_id": id, "state": "DONE", "fence": fence})
        assert refused.is_error and "c1 (It is green)" in refused.content[0].text  # type: ignore[union-attr]
        stale = await client.call_tool("zero_move_case", {"case_id": id, "state": "PLANNING", "fence": fence + 1})
        assert stale.is_error and "held by" in stale.content[0].text  # type: ignore[union-attr]
        word = await client.call_tool("zero_add_proof", {"case_id": id, "kind": "word", "claim": "trust me"})
        assert word.is_error
        wrong = await client.call_tool("zero_list_cases", {"state_filter": "FINISHED"})
        assert wrong.is_error and "VERIFYING" in wrong.content[0].text  # type: ignore[union-attr]


async def test_a_strangers_calls_find_nothing_and_name_no_workspace(server: TestServer) -> None:
    case = await add(server, "Secret")
    new = NewProof(kind="word", outcome="passed", claim="seen")
    proof = await server.services[ProofService].add(server.owner, None, case, new)
    thieves = await server.another_tenant("Thieves")
    thief = await server.mint(owner=thieves.owner, project_id=thieves.project_id)
    calls: dict[str, dict[str, Any]] = {
        "zero_get_case": {"case_id": case},
        "zero_claim_case": {"case_id": case},
        "zero_move_case": {"case_id": case, "state": "PLANNING"},
        "zero_add_proof": {"case_id": case, "kind": "reported", "outcome": "passed"},
        "zero_run_proof": {"proof_id": proof.proof.id},
        "zero_run_session": {"case_id": case, "prompt": "Steal it"},
    }
    async with connected(server, MODERN, thief.secret) as client:
        for name, given in calls.items():
            refused = await client.call_tool(name, given)
            missing = f"No proof '{proof.proof.id}' here." if "proof_id" in given else f"No case '{case}' here."
            assert refused.is_error and refused.content[0].text == missing, name  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_a_subscriber_of_a_session_hears_of_its_case_in_any_workspace(server: TestServer) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        uri = getattr(getattr(message, "params", None), "uri", None)
        if uri is not None:
            heard.append(str(uri))

    place = (await second(server)).id
    mine, other = await add(server, "Mine", place), await add(server, "Other")
    cases = server.services[CaseService]
    async with connected(server, "legacy", message_handler=hear) as client:
        await client.session.subscribe_resource(f"zero://cases/{mine}")

        async def told() -> bool:
            await cases.comment(server.owner, None, mine, "Again")
            return f"zero://cases/{mine}" in heard

        # The stream that it hears on opens in its own time.
        async with asyncio.timeout(20):
            while not await told():
                await asyncio.sleep(0.05)
        await cases.move(server.owner, None, other, "PLANNING")
        heard.clear()
        await cases.move(server.owner, None, mine, "PLANNING")
        await until(lambda: f"zero://cases/{mine}" in heard)
        assert f"zero://cases/{other}" not in heard


@pytest.mark.parametrize("narrowed", [False, True])
async def test_a_listener_hears_of_its_project_and_of_nobody_elses(server: TestServer, narrowed: bool) -> None:
    thieves = await server.another_tenant("Thieves")
    thief = await server.mint(owner=thieves.owner, project_id=thieves.project_id)
    place = (await second(server)).id
    case = await add(server, "Secret", place)
    cases = server.services[CaseService]
    own = (await cases.add(thieves.owner, thieves.workspace_id, NewCase(title="Their own"))).id
    headers = {"X-Xerotier-Workspace": place} if narrowed else {}
    uris = [f"zero://cases/{case}", f"zero://proofs/{case}"]
    async with (
        connected(server, MODERN, headers=headers) as client,
        connected(server, MODERN, thief.secret) as stranger,
        client.listen(resource_subscriptions=uris, resources_list_changed=True) as events,
        stranger.listen(resource_subscriptions=[*uris, f"zero://cases/{own}"], resources_list_changed=True) as theirs,
    ):
        await cases.comment(server.owner, None, case, "Hush")
        await add(server, "Another", place)
        found = [await _next(events) for _ in range(3)]
        assert found == [*(ResourceUpdated(uri) for uri in uris), ResourcesListChanged()]
        await cases.comment(thieves.owner, None, own, "Mine")
        assert await _next(theirs) == ResourceUpdated(f"zero://cases/{own}")


async def _next(events: Any) -> Any:
    async with asyncio.timeout(20):
        return await anext(aiter(events))
