"""Which workspace a call works in: the header's, the one it names, the session's, or the only one there is."""

from typing import Any

import pytest
from mcp import types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from holdfast.features.usage.model import UsageFilter
from holdfast.features.workspaces.model import Workspace
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import ERAS, MODERN, Site, serve_site

both_eras = pytest.mark.parametrize("era", ERAS)


async def _another(site: Site, name: str = "Field office") -> Workspace:
    return await site.services.workspaces.create(site.owner, site.project, name)


async def _called(client: Client, name: str, /, **arguments: Any) -> tuple[str, dict[str, Any] | None]:
    result = await client.call_tool(name, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    return text, None if result.is_error else result.structured_content


async def test_a_stateless_client_without_the_header_works_in_the_only_workspace(database: Database) -> None:
    async with serve_site(database) as site, site.client(await site.key(), MODERN, workspace=None) as client:
        _, saved = await _called(client, "xerotier.memory.save", content="We release on Tuesdays, after the tests.")
        assert saved is not None and saved["status"] == "saved"
        kept = await site.services.memory.get(site.owner, site.workspace, saved["slug"])
        assert kept.workspace_id == site.workspace
        _, ready = await _called(client, "xerotier.session.init")
        assert ready is not None and ready["bound"] is True
        brief = await client.get_prompt("brief")
        assert "Tuesdays" in brief.messages[0].content.text  # type: ignore[union-attr]
        listed = await client.list_resources()
        assert listed.resources


async def test_the_only_workspace_is_the_only_one_that_the_key_sees(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        key = await site.key(workspaces=[other.id])
        async with site.client(key, MODERN, workspace=None) as client:
            _, found = await _called(client, "xerotier.workspace.get")
            assert found is not None and found["slug"] == other.slug


@both_eras
async def test_without_a_workspace_the_error_names_those_there_are_and_what_to_do(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        first = await site.services.workspaces.get(site.owner, site.workspace)
        async with site.client(await site.key(), era, workspace=None) as client:
            told, _ = await _called(client, "xerotier.memory.recall")
            assert first.slug in told and other.slug in told and "argument workspace" in told
            assert ("xerotier.session.init" in told) is (era != MODERN)
            text, found = await _called(client, "xerotier.workspace.get", workspace=other.slug)
            assert found is not None and found["workspace_id"] == other.id and other.slug in text
            unknown, _ = await _called(client, "xerotier.memory.recall", workspace="nowhere")
            assert "nowhere" in unknown and other.slug in unknown
            wrong, _ = await _called(client, "xerotier.memory.recall", workspace=7)
            assert "workspace: give its id or slug" in wrong


@both_eras
async def test_every_tool_that_works_in_a_workspace_takes_its_id_uuid_or_slug(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), era, workspace=None) as client:
            tools = [
                tool for tool in (await client.list_tools()).tools if "workspace" in tool.input_schema["properties"]
            ]
            assert len(tools) == 20
            for spelling in (other.id, other.uuid, other.slug):
                _, found = await _called(client, "xerotier.workspace.get", workspace=spelling)
                assert found is not None and found["workspace_id"] == other.id
            for tool in tools:
                told, _ = await _called(client, tool.name, workspace="nowhere", **_needed(tool.input_schema))
                assert "No workspace" in told and other.slug in told, (tool.name, told)


def _needed(schema: dict[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = {"string": "x", "object": {"type": "memory", "id": "x"}}
    return {name: filled[schema["properties"][name]["type"]] for name in schema.get("required", [])}


@both_eras
async def test_a_call_cannot_leave_the_workspace_that_the_header_pins(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), era) as client:
            told, found = await _called(client, "xerotier.workspace.get", workspace=other.slug)
            assert found is None and "pins this connection" in told
            _, found = await _called(client, "xerotier.workspace.get", workspace=site.workspace)
            assert found is not None


async def test_a_call_may_name_another_workspace_than_the_session_is_bound_to(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), workspace=None) as client:
            _, bound = await _called(client, "xerotier.session.init", workspace_id=site.workspace)
            assert bound is not None and bound["bound"] is True
            _, found = await _called(client, "xerotier.workspace.get", workspace=other.slug)
            assert found is not None and found["workspace_id"] == other.id
            _, found = await _called(client, "xerotier.workspace.get")
            assert found is not None and found["workspace_id"] == site.workspace


@both_eras
async def test_session_init_takes_the_slug_that_the_list_prints(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), era, workspace=None) as client:
            listed, _ = await _called(client, "xerotier.workspace.list")
            assert f"slug {other.slug}" in listed
            told, init = await _called(client, "xerotier.session.init", workspace_id=other.slug)
            assert init is not None and init["workspace"]["workspace_id"] == other.id
            if era == MODERN:
                assert f"the argument workspace: {other.slug}" in told
            else:
                _, found = await _called(client, "xerotier.workspace.get")
                assert found is not None and found["workspace_id"] == other.id


async def test_a_header_may_have_the_slug(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), MODERN, workspace=other.slug) as client:
            _, found = await _called(client, "xerotier.workspace.get")
            assert found is not None and found["workspace_id"] == other.id


async def test_a_workspace_of_another_project_is_not_found_by_its_slug(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        project = await site.services.identity.create_project(site.owner, "Elsewhere")
        await site.services.workspaces.create(site.owner, project.id, "Hidden")
        await _another(site)
        async with site.client(await site.key(), MODERN, workspace=None) as client:
            told, found = await _called(client, "xerotier.workspace.get", workspace="hidden")
            assert found is None and "No workspace" in told and "hidden (" not in told


async def test_a_refused_tool_is_refused_before_its_workspace_is_looked_for(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key(tier="core")
        async with site.client(key, MODERN, workspace=None) as client:
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.call_tool("xerotier.intelligence.brief", {"workspace": "nowhere"})


async def test_a_key_that_searches_the_catalog_names_a_workspace_too(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(catalog_search=True), MODERN, workspace=None) as client:
            _, found = await _called(client, "find_tool", query="which workspace am I in")
            assert found is not None
            schemas = {tool["name"]: tool["inputSchema"] for tool in found["tools"]}
            assert "workspace" in schemas["xerotier.workspace.get"]["properties"]
            chosen = {"name": "xerotier.workspace.get", "arguments": {"workspace": other.slug}}
            _, placed = await _called(client, "call_tool", **chosen)
            assert placed is not None and placed["workspace_id"] == other.id


async def test_a_call_is_counted_in_the_workspace_that_it_names(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await _another(site)
        async with site.client(await site.key(), MODERN, workspace=None) as client:
            await _called(client, "xerotier.memory.recall", workspace=other.slug)
        rows = await site.services.usage.report(site.owner, UsageFilter(kind="tool_calls"), ["workspace"])
        assert [row.workspace_id for row in rows] == [other.id]


async def test_a_prompt_in_a_session_without_a_workspace_keeps_the_documented_sentence(
    sqlite_database: SqliteDatabase,
) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), workspace=None) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("brief")
        assert caught.value.error.code == types.INVALID_REQUEST
