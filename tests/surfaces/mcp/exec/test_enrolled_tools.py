"""Enrolled tools over MCP: who is shown which, how much of a context they take, and what calling one gives."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.surfaces.mcp.harness import ERAS, Site, serve_site, until

both_eras = pytest.mark.parametrize("era", ERAS)


@dataclass
class Enrolled:
    site: Site
    inside: InsideServers


@pytest.fixture
async def here(sqlite_database: SqliteDatabase) -> AsyncIterator[Enrolled]:
    inside = InsideServers()
    async with serve_site(sqlite_database, instead=inside.instead()) as site:
        await enrolled(site.services, site.owner, site.workspace)
        yield Enrolled(site, inside)


async def names(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@both_eras
@pytest.mark.contract("XM-9")
@pytest.mark.contract("XM-13")
async def test_tiers_exec_and_all_see_enrolled_tools_after_ours_and_destructive_ones_only_where_allowed(
    here: Enrolled, era: str
) -> None:
    site = here.site
    async with site.client(await site.key(tier="exec"), era) as client:
        found = await names(client)
        assert [name for name in found if name.startswith("xerotier.exec.")] == [
            f"xerotier.exec.{verb}" for verb in ("invoke", "invoke_blocking", "poll", "cancel")
        ]
        assert "demo.add" in found and "demo.wipe" not in found
        assert found.index("demo.add") > max(found.index(name) for name in found if name.startswith("xerotier."))
    async with site.client(await site.key(tier="exec", allow_destructive=True), era) as client:
        assert "demo.wipe" in await names(client)
    for tier in ("core", "intel"):
        async with site.client(await site.key(tier=tier), era) as client:
            assert not [name for name in await names(client) if name.startswith(("demo.", "xerotier.exec."))]
            with pytest.raises(MCPError, match="tier"):
                await client.call_tool("demo.add", {"left": 1})


@both_eras
@pytest.mark.contract("XM-9")
async def test_what_the_list_has_no_room_for_is_found_and_called(here: Enrolled, era: str) -> None:
    site = here.site
    here.inside.server.tools += [
        {
            "name": f"issue_{number}",
            "description": f"Work with issue tracker number {number}. " + "It does many things. " * 20,
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": True},
        }
        for number in range(100)
    ]
    await site.services[ToolPins].probe(site.owner, site.workspace, "demo")
    for number in range(100):
        await site.services[ToolPins].accept(site.owner, site.workspace, "demo", f"issue_{number}")
    for tier in ("exec", "all"):
        async with site.client(await site.key(tier=tier), era) as client:
            listed = (await client.list_tools()).tools
            own = [tool for tool in listed if not tool.name.startswith("test.")]
            wire = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in own]
            assert len(json.dumps(wire, ensure_ascii=False, separators=(",", ":"))) < 34_000
            assert [tool.name for tool in listed[-2:]] == ["find_tool", "call_tool"]
            found = await client.call_tool("find_tool", {"query": "issue tracker number 97"})
            tools = [tool["name"] for tool in (found.structured_content or {})["tools"]]
            assert "demo.issue_97" in tools or any(name.startswith("demo.issue_") for name in tools)
            called = await client.call_tool("call_tool", {"name": "demo.issue_97", "arguments": {}})
            assert called.content[0].text.startswith("issue_97")  # type: ignore[union-attr]


@both_eras
async def test_a_tool_is_called_by_its_own_name_and_its_answer_is_its_servers(here: Enrolled, era: str) -> None:
    async with here.site.client(await here.site.key(), era) as client:
        answer = await client.call_tool("demo.add", {"left": 2, "right": 3})
        assert answer.structured_content == {"total": 5} and not answer.is_error
        wrong = await client.call_tool("demo.add", {})
        assert wrong.is_error and "left" in wrong.content[0].text  # type: ignore[union-attr]
        unknown = await client.call_tool("xerotier.exec.poll", {"invocation_id": "inv_nothing"})
        assert unknown.is_error


@both_eras
@pytest.mark.contract("XM-11")
async def test_a_call_that_needs_a_person_gives_the_link_in_text_and_data(here: Enrolled, era: str) -> None:
    async with here.site.client(await here.site.key(), era) as client:
        asked = await client.call_tool("xerotier.exec.invoke", {"tool_name": "demo.count", "arguments": {}})
        data = asked.structured_content or {}
        assert data["status"] == "awaiting_approval" and "/approve/" in data["approval_url"]
        assert data["approval_url"] in asked.content[0].text  # type: ignore[union-attr]
        polled = await client.call_tool("xerotier.exec.poll", {"invocation_id": data["invocation_id"]})
        assert (polled.structured_content or {})["approval_url"] == data["approval_url"]
        direct = await client.call_tool("demo.count", {})
        assert direct.is_error and data["approval_url"] in direct.content[0].text  # type: ignore[union-attr]
        cancelled = await client.call_tool("xerotier.exec.cancel", {"invocation_id": data["invocation_id"]})
        assert (cancelled.structured_content or {})["status"] == "cancelled"
    assert here.inside.server.runs["count"] == 0


@both_eras
@pytest.mark.contract("XM-15")
async def test_a_call_that_is_waited_for_tells_its_progress_and_ends_in_one_round(here: Enrolled, era: str) -> None:
    site = here.site
    await site.services[ToolPins].set(site.owner, site.workspace, "demo", "slow", ToolChange(policy="auto"))
    told: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        if message == "half":
            here.inside.server.go_on.set()

    async with site.client(await site.key(), era) as client:
        asked = {"tool_name": "demo.slow", "arguments": {"name": era}}
        ended = await client.call_tool("xerotier.exec.invoke_blocking", asked, progress_callback=heard)
        assert (ended.structured_content or {})["status"] == "succeeded"
    assert "half" in told


async def test_the_list_changes_live_when_a_tool_does(here: Enrolled) -> None:
    site = here.site
    changed: list[str] = []

    async def heard(message: Any) -> None:
        changed.append(type(message).__name__)

    async with site.client(await site.key(tier="exec"), "legacy", message_handler=heard) as client:
        assert "demo.add" in await names(client)

        # The standalone stream is opened by the client on its own; a change after that is heard.
        async def told() -> bool:
            await site.services[ToolPins].set(
                site.owner, site.workspace, "demo", "add", ToolChange(idempotent=len(changed) % 2 == 0)
            )
            return any("ToolListChanged" in name for name in changed)

        await until(told)
        await site.services[ToolPins].set(site.owner, site.workspace, "demo", "add", ToolChange(policy="deny"))
        assert "demo.add" not in await names(client)
