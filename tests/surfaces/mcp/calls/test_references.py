"""What one call shows, the next one takes: slugs where ids are taken, and both in the text that every client reads."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.client.client import Client

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import ERAS, Site, serve_site

FACT = "The barn door needs oil every month, or it squeaks."
OTHER = "Deploys to production happen on Tuesdays after nine."


@dataclass
class Stocked:
    """A workspace with one of each thing, under its id and its slug."""

    client: Client
    ids: dict[str, str]
    slugs: dict[str, str]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        result = await self.client.call_tool(name, arguments)
        text = result.content[0].text  # type: ignore[union-attr]
        assert not result.is_error, (name, arguments, text)
        return text, result.structured_content or {}


@asynccontextmanager
async def stocked(site: Site, era: str = ERAS[0]) -> AsyncIterator[Stocked]:
    async with site.client(await site.key(), era) as client:
        here = Stocked(client, {}, {})
        saved = await here.call("xerotier.memory.save", {"content": FACT})
        other = await here.call("xerotier.memory.save", {"content": OTHER})
        made = await here.call(
            "xerotier.artifact.create",
            {"identifier": "plan.md", "title": "Plan", "type": "text/markdown", "content": "# Barn plan"},
        )
        decided = await here.call("xerotier.intelligence.track_decision", {"title": "Oil the barn door"})
        reached = await here.call(
            "xerotier.intelligence.track_milestone",
            {"title": "Barn door oiled", "decisions": [decided[1]["decision_id"]]},
        )
        workspace = await here.call("xerotier.workspace.get", {})
        here.ids = {
            "workspace": workspace[1]["workspace_id"],
            "memory": saved[1]["memory_id"],
            "other": other[1]["memory_id"],
            "artifact": made[1]["artifact_id"],
            "decision": decided[1]["decision_id"],
            "milestone": reached[1]["milestone_id"],
        }
        here.slugs = {
            "workspace": workspace[1]["slug"],
            "memory": saved[1]["slug"],
            "other": other[1]["slug"],
            "artifact": "plan.md",
        }
        yield here


# Every argument that takes an id, with a call that uses it; `{thing}` becomes its id, and its slug where it has one.
REFERENCES: dict[tuple[str, str], dict[str, Any]] = {
    ("xerotier.session.init", "workspace_id"): {"workspace_id": "{workspace}"},
    ("xerotier.memory.save", "supersedes"): {"content": "The barn door needs no oil.", "supersedes": "{memory}"},
    ("xerotier.artifact.update", "artifact_id"): {"artifact_id": "{artifact}", "content": "# New plan"},
    ("xerotier.artifact.update", "identifier"): {"identifier": "plan.md", "content": "# Newer plan"},
    ("xerotier.artifact.read", "artifact_id"): {"artifact_id": "{artifact}"},
    ("xerotier.intelligence.timeline", "decision_id"): {"decision_id": "{decision}"},
    ("xerotier.intelligence.graph", "centre"): {"centre": "{memory}"},
    ("xerotier.intelligence.relate", "from.id"): {
        "from": {"type": "memory", "id": "{memory}"},
        "to": {"type": "decision", "id": "{decision}"},
        "relation": "explains",
    },
    ("xerotier.intelligence.relate", "to.id"): {
        "from": {"type": "milestone", "id": "{milestone}"},
        "to": {"type": "artifact", "id": "{artifact}"},
        "relation": "produced",
    },
    ("xerotier.intelligence.track_decision", "supersedes"): {"title": "Replace the door", "supersedes": "{decision}"},
    ("xerotier.intelligence.track_milestone", "decisions"): {"title": "Done", "decisions": ["{decision}"]},
}
# Chats are known by the ids that their clients gave them, and an artifact to create has no id yet.
ONE_NAME = {
    ("xerotier.artifact.create", "identifier"),
    ("xerotier.artifact.create", "chat_id"),
    ("xerotier.artifact.update", "chat_id"),
    ("xerotier.artifact.list", "chat_id"),
    ("xerotier.artifact.read", "identifier"),
    ("xerotier.artifact.read", "chat_id"),
    ("xerotier.exec.poll", "invocation_id"),
    ("xerotier.exec.cancel", "invocation_id"),
}


def parameters(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every parameter by its path."""
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, part
        yield from parameters(part, where)


def takes_an_id(path: str, part: dict[str, Any]) -> bool:
    name = path.rpartition(".")[2]
    described = re.search(r"\bids?\b|\bslug\b|identifier", part.get("description", ""), re.IGNORECASE)
    # `workspace` is every tool's, and has tests of its own.
    return name != "workspace" and (
        name == "id" or name.endswith(("_id", "_ids", "identifier")) or described is not None
    )


def filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], value)


async def test_every_argument_that_takes_an_id_is_in_the_matrix(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        found = {
            (tool.name, path)
            for tool in site.services.gateway.listed("mcp")
            for path, part in parameters(tool.input_schema())
            if takes_an_id(path, part)
        }
        assert found - ONE_NAME == set(REFERENCES)


@pytest.mark.parametrize(("tool", "argument"), list(REFERENCES))
async def test_an_argument_that_takes_an_id_takes_the_slug_too(
    sqlite_database: SqliteDatabase, tool: str, argument: str
) -> None:
    async with serve_site(sqlite_database) as site, stocked(site) as here:
        await here.call(tool, filled(REFERENCES[tool, argument], {**here.ids, **here.slugs}))


async def test_the_same_thing_is_meant_by_id_and_by_slug(database: Database) -> None:
    async with serve_site(database) as site, stocked(site) as here:

        async def relate(names: dict[str, str]) -> dict[str, Any]:
            ends = {"from": {"type": "memory", "id": "{memory}"}, "to": {"type": "artifact", "id": "{artifact}"}}
            return (await here.call("xerotier.intelligence.relate", filled({**ends, "relation": "explains"}, names)))[1]

        by_id, by_slug = await relate(here.ids), await relate(here.slugs)
        assert (by_id["status"], by_slug["status"]) == ("created", "exists")
        assert by_id["relation_id"] == by_slug["relation_id"]
        for names in (here.ids, here.slugs):
            graph = (await here.call("xerotier.intelligence.graph", {"centre": names["artifact"]}))[1]
            assert {node["id"] for node in graph["nodes"]} == {here.ids["memory"], here.ids["artifact"]}
        result = await here.client.call_tool(
            "xerotier.intelligence.relate",
            {
                "from": {"type": "memory", "id": here.ids["memory"]},
                "to": {"type": "memory", "id": here.slugs["memory"]},
                "relation": "explains",
            },
        )
        assert result.is_error and "itself" in result.content[0].text  # type: ignore[union-attr]


async def test_a_name_that_two_things_have_is_not_guessed(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, stocked(site) as here:
        name = here.slugs["memory"]
        await here.call(
            "xerotier.artifact.create", {"identifier": name, "title": "Door", "type": "text/plain", "content": "Oil."}
        )
        result = await here.client.call_tool("xerotier.intelligence.graph", {"centre": name})
        text = result.content[0].text  # type: ignore[union-attr]
        assert result.is_error and here.ids["memory"] in text and "art_" in text


# One call of every tool that gives things which other calls name.
GIVES: list[tuple[str, dict[str, Any]]] = [
    ("xerotier.workspace.list", {}),
    ("xerotier.workspace.list", {"limit": 1}),
    ("xerotier.workspace.get", {}),
    ("xerotier.session.init", {}),
    ("xerotier.memory.save", {"content": "The well has clean water in summer."}),
    ("xerotier.memory.save", {"content": FACT}),
    ("xerotier.memory.recall", {}),
    ("xerotier.memory.recall", {"query": "barn door"}),
    ("xerotier.memory.search", {"query": "barn"}),
    ("xerotier.artifact.update", {"identifier": "plan.md", "content": "# Next"}),
    ("xerotier.artifact.read", {"artifact_id": "{artifact}"}),
    ("xerotier.artifact.list", {}),
    ("xerotier.intelligence.brief", {}),
    ("xerotier.intelligence.timeline", {"limit": 1}),
    ("xerotier.intelligence.decisions", {}),
    ("xerotier.intelligence.analyze", {"topic": "barn"}),
    ("xerotier.intelligence.graph", {"types": ["memory", "decision", "artifact", "milestone"]}),
    (
        "xerotier.intelligence.relate",
        {
            "from": {"type": "memory", "id": "{memory}"},
            "to": {"type": "memory", "id": "{other}"},
            "relation": "explains",
        },
    ),
    ("xerotier.intelligence.track_decision", {"title": "Paint the barn"}),
    ("xerotier.intelligence.track_milestone", {"title": "Barn painted"}),
]
NAMES = re.compile(r"(?:\w+_)?id|slug|identifier|next_cursor")


def things(value: Any) -> Iterator[dict[str, str]]:
    """The names of each thing in a result that other calls can name."""
    if isinstance(value, list):
        for item in value:
            yield from things(item)
    elif isinstance(value, dict):
        own = {key: name for key, name in value.items() if NAMES.fullmatch(key) and isinstance(name, str)}
        own = {key: name for key, name in own.items() if key not in ("project_id", "session_id")}
        if "next_cursor" in own:
            yield {"next_cursor": own.pop("next_cursor")}
        if own:
            yield own
        for item in value.values():
            yield from things(item)


@pytest.mark.parametrize("era", ERAS)
async def test_the_text_of_every_result_has_what_the_next_call_needs(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        await site.services.workspaces.create(site.owner, site.project, "Other")
        async with stocked(site, era) as here:
            seen = 0
            for name, arguments in GIVES:
                text, data = await here.call(name, filled(arguments, here.ids))
                for names in things(data):
                    seen += 1
                    assert any(each in text for each in names.values()), (name, names, text)
            assert seen > 30


async def test_whoever_reads_only_text_learns_a_tools_arguments_from_find_tool(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.client(await site.key(catalog_search=True)) as client:
        found = await client.call_tool("find_tool", {"query": "relate two entities"})
        text = found.content[0].text  # type: ignore[union-attr]
        assert "xerotier.intelligence.relate" in text and '"required":["from","to","relation"]' in text
