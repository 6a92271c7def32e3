"""What tools say of their arguments, and that they take what they say."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.text.schema import input_schema
from holdfast.features.intelligence.tool_models import RELATED_TYPES
from holdfast.features.memory.tools import SEARCHED_TYPES
from holdfast.registry.entities import Entities
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import Site, serve_site


def undescribed(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The parameters, at any depth, that do not say what they are for."""
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if not part.get("description"):
            yield where
        yield from undescribed(part, where)
    for inner in (schema.get("items"), *schema.get("anyOf", ())):
        if isinstance(inner, dict):
            yield from undescribed(inner, f"{path}[]")


async def _text(site: Site, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    async with site.client(await site.key()) as client:
        result = await client.call_tool(name, arguments)
        return result.content[0].text, bool(result.is_error)  # type: ignore[union-attr]


async def test_every_parameter_of_every_tool_says_what_it_is_for(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        gateway = site.services.gateway
        tools = [
            tool for consumer in ("mcp", "catalog", "keystone", "chat", "ask") for tool in gateway.listed(consumer)
        ]
        # The documented three are as the document has them, to the letter.
        tools += gateway.listed("zero")[3:]
        aliases = [alias for consumer in ("chat", "ask") for alias in gateway.aliases(consumer)]
        schemas = {tool.name: tool.input_schema() for tool in tools}
        schemas |= {f"alias {alias.name}": input_schema(alias.input) for alias in aliases}
        assert len(schemas) > 40
        assert {name: found for name, schema in schemas.items() if (found := list(undescribed(schema)))} == {}
        async with site.client(await site.key(catalog_search=True)) as client:
            for tool in (await client.list_tools()).tools:
                assert list(undescribed(tool.input_schema)) == [], tool.name


async def test_the_types_that_agents_are_told_are_those_there_are(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        entities = site.services[Entities]
        assert set(SEARCHED_TYPES) == set(entities.searchable)
        assert set(RELATED_TYPES) == set(entities.titles)


@pytest.mark.parametrize("type", SEARCHED_TYPES)
async def test_every_type_that_a_search_names_can_be_searched(sqlite_database: SqliteDatabase, type: str) -> None:
    async with serve_site(sqlite_database) as site:
        text, failed = await _text(site, "xerotier.memory.search", {"query": "barn", "types": [type]})
        assert not failed and text == "Nothing matches."


async def test_a_type_that_does_not_exist_is_an_error_that_names_those_that_do(database: Database) -> None:
    async with serve_site(database) as site:
        for arguments in ({"types": ["nope"]}, {"types": ["decision", "nope"]}):
            text, failed = await _text(site, "xerotier.intelligence.graph", arguments)
            assert failed and "'nope'" in text and "decision" in text and "memory" in text
        text, failed = await _text(site, "xerotier.memory.search", {"query": "barn", "types": ["nope"]})
        assert failed and "'nope'" in text and "memory" in text
        near, far = {"type": "nope", "id": "x"}, {"type": "memory", "id": "x"}
        text, failed = await _text(
            site, "xerotier.intelligence.relate", {"from": near, "to": far, "relation": "depends_on"}
        )
        assert failed and "from.type" in text and "decision" in text


TIMES = [
    ("xerotier.intelligence.timeline", "since"),
    ("xerotier.intelligence.timeline", "until"),
    ("xerotier.intelligence.decisions", "since"),
    ("xerotier.intelligence.decisions", "as_of"),
    ("xerotier.memory.recall", "as_of"),
    ("xerotier.memory.search", "as_of"),
    ("xerotier.memory.save", "occurred_at"),
    ("xerotier.intelligence.track_decision", "decided_at"),
    ("xerotier.intelligence.track_milestone", "occurred_at"),
]
NEEDED = {
    "xerotier.memory.search": {"query": "barn"},
    "xerotier.memory.save": {"content": "The barn door needs oil every month."},
    "xerotier.intelligence.track_decision": {"title": "Oil the door"},
    "xerotier.intelligence.track_milestone": {"title": "Door oiled"},
}


async def test_every_time_is_taken_as_iso_or_as_a_span(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key()) as client:
        told = {
            (tool.name, name)
            for tool in (await client.list_tools()).tools
            for name, part in tool.input_schema["properties"].items()
            if tool.name.startswith("xerotier.")
            if "ISO 8601" in part["description"] or name in ("since", "until", "as_of") or name.endswith("_at")
        }
        assert told == set(TIMES)
        for name, argument in TIMES:
            for value in ("7d", "12h", "2026-01-31", "2026-01-31T12:00:00Z"):
                result = await client.call_tool(name, {**NEEDED.get(name, {}), argument: value})
                assert not result.is_error, (name, argument, value, result.content)
            result = await client.call_tool(name, {**NEEDED.get(name, {}), argument: "soon"})
            assert result.is_error and argument in result.content[0].text, name  # type: ignore[union-attr]


async def test_a_span_counts_back_from_now(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key()) as client:
        for title, when in (("Old", "60d"), ("New", "2d")):
            await client.call_tool("xerotier.intelligence.track_milestone", {"title": title, "occurred_at": when})
        found = await client.call_tool("xerotier.intelligence.timeline", {"since": "30d"})
        assert [each["title"] for each in (found.structured_content or {})["milestones"]] == ["New"]
        found = await client.call_tool("xerotier.intelligence.timeline", {"until": "30d"})
        assert [each["title"] for each in (found.structured_content or {})["milestones"]] == ["Old"]


async def test_the_calculator_promises_nothing_that_it_cannot_do(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        tool = next(tool for tool in site.services.gateway.listed("mcp") if tool.name == "xerotier.calc.evaluate")
        assert "percent" not in tool.description and "conver" not in tool.description
        text, failed = await _text(site, tool.name, {"expression": "20% * 80"})
        assert failed and "20/100" in text and "position 3" in text
        text, failed = await _text(site, tool.name, {"expression": "5 km"})
        assert failed and "km" in text
