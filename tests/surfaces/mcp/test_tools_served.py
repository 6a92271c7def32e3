"""Tools on the wire: what is listed for whom, how errors read, what happens to large results."""

import json
from typing import Any

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import ERAS, serve_site

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
@pytest.mark.contract("XM-3")
async def test_every_tool_says_what_it_takes_gives_and_does(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), era) as client:
        for tool in (await client.list_tools()).tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert tool.title and tool.description
            notes = tool.annotations
            assert notes is not None
            hints = (notes.read_only_hint, notes.destructive_hint, notes.idempotent_hint, notes.open_world_hint)
            assert None not in hints


async def test_argument_schemas_are_plain_enough_for_any_client(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key()) as client:
        for tool in (await client.list_tools()).tools:
            text = json.dumps(tool.input_schema)
            assert "$ref" not in text and '"null"' not in text and '"title": "' not in text, tool.name
            assert tool.input_schema["type"] == "object"


@both_eras
@pytest.mark.contract("XM-10")
async def test_a_tier_hides_tools_prompts_and_resources(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        async with site.client(await site.key(tier="core"), era) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "xerotier.memory.save" in names and "xerotier.intelligence.brief" not in names
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["session.init", "save-this"]
            assert (await client.list_resources()).resources == []
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.name for template in templates] == ["memory", "artifact"]
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.get_prompt("brief")
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.read_resource("xerotier://workspace/current/brief")
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.call_tool("xerotier.intelligence.brief", {})
        denied = await site.services.audit.list(site.owner)
        actions = [event.action for event in denied.items if event.outcome == "denied"]
        assert sorted(actions) == [
            "prompts/get brief",
            "resources/read xerotier://workspace/current/brief",
            "tool.call",
        ]


@both_eras
async def test_wrong_arguments_are_explained_by_field(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), era) as client:
        result = await client.call_tool("test.add", {"left": "many"})
        assert result.is_error
        text = result.content[0].text  # type: ignore[union-attr]
        assert "left" in text and "integer" in text
        missing = await client.call_tool("test.add", {})
        assert "left: this field is required" in missing.content[0].text  # type: ignore[union-attr]


@both_eras
async def test_a_tool_nobody_has_is_named_in_the_error(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(), era) as client:
        with pytest.raises(MCPError, match=r"Unknown tool: no\.such\.tool"):
            await client.call_tool("no.such.tool", {})


@both_eras
async def test_a_large_result_is_kept_as_an_artifact(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.client(await site.key(), era) as client:
        result = await client.call_tool("test.long", {"characters": 900_000})
        assert len(json.dumps(result.structured_content)) < 200_000
        link = result.content[1]
        assert link.type == "resource_link"
        whole = (await client.read_resource(str(link.uri))).contents[0].text  # type: ignore[union-attr]
        assert json.loads(whole) == {"text": "x" * 900_000}
        small = await client.call_tool("test.long", {"characters": 1_000})
        assert small.structured_content == {"text": "x" * 1_000}
        assert len(small.content) == 1


@both_eras
async def test_a_key_with_catalog_search_sees_two_tools_and_reaches_all(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key(tier="core", catalog_search=True)
        async with site.client(key, era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["find_tool", "call_tool"]
            found = await client.call_tool("find_tool", {"query": "remember a fact for later, save memory"})
            names = [tool["name"] for tool in (found.structured_content or {})["tools"]]
            assert names[0] == "xerotier.memory.save"
            assert not any(name.startswith("xerotier.intelligence") for name in names)
            called = await client.call_tool("call_tool", {"name": "test.add", "arguments": {"left": 4}})
            assert called.structured_content == {"total": 4}
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.call_tool("call_tool", {"name": "xerotier.intelligence.brief", "arguments": {}})


@pytest.mark.contract("XM-3")
async def test_the_catalog_fits_a_context(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        tools = (await raw.request("tools/list")).json()["result"]["tools"]
        own = [tool for tool in tools if tool["name"].startswith("xerotier.")]
        text = json.dumps({"tools": own}, ensure_ascii=False, separators=(",", ":"))
        assert len(text) / 4 < 8_000
        assert [tool["name"] for tool in own if "Example" not in tool["description"]] == []


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("xerotier.workspace.list", {}),
    ("xerotier.workspace.get", {}),
    ("xerotier.session.init", {}),
    ("xerotier.memory.save", {"content": "The barn door needs oil every month."}),
    ("xerotier.memory.recall", {"query": "barn"}),
    ("xerotier.memory.search", {"query": "barn door"}),
    (
        "xerotier.artifact.create",
        {"identifier": "note", "title": "Note", "type": "text/markdown", "content": "# Note"},
    ),
    ("xerotier.artifact.list", {}),
    ("xerotier.intelligence.track_decision", {"title": "Oil the door", "rationale": "It squeaks."}),
    ("xerotier.intelligence.track_milestone", {"title": "Door oiled"}),
    ("xerotier.intelligence.brief", {}),
    ("xerotier.intelligence.timeline", {}),
    ("xerotier.intelligence.decisions", {"query": "door"}),
    ("xerotier.intelligence.analyze", {}),
    ("xerotier.intelligence.graph", {}),
]


@both_eras
@pytest.mark.contract("XM-3")
async def test_results_follow_their_schemas_in_both_forms(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.client(await site.key(), era) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result.content)
            jsonschema.validate(result.structured_content, schemas[name])
            assert result.content[0].text  # type: ignore[union-attr]


@both_eras
async def test_tool_calls_are_counted_for_the_key_and_the_workspace(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        async with site.client(await site.key(), era) as client:
            await client.call_tool("test.add", {"left": 1})
            await client.call_tool("test.add", {"bogus": 1})
        rows = await site.services.usage.report(site.owner, group_by=("source", "workspace"))
        counted = {(row.source, row.workspace_id): row.amount for row in rows if row.kind == "tool_calls"}
        assert counted == {("mcp", site.workspace): 2}


async def test_wrong_input_is_named_once_with_what_to_do(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key()) as client:
        result = await client.call_tool("xerotier.artifact.update", {"content": "x"})
        text = result.content[0].text  # type: ignore[union-attr]
        assert result.is_error
        assert text.count("give either artifact_id or identifier") == 1
        assert "value error" not in text.lower()
