"""Proves the memory tools: their pinned shapes, and that they are what every key sees."""

from typing import Any

import jsonschema
import pytest

from holdfast.core.errors import Invalid
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.memory.tools import tools
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world


@pytest.fixture
async def world(sqlite_database: SqliteDatabase, clock: MovableClock) -> MemoryWorld:
    return await memory_world(sqlite_database, clock)


async def _call(world: MemoryWorld, name: str, arguments: dict[str, Any], **circumstances: Any) -> dict[str, Any]:
    tool: AnyTool = {each.name: each for each in tools(world.memory)}[name]
    call = ToolCall(world.agent, world.ws, "mcp", **circumstances)
    output = await tool.handler(call, tool.input.model_validate(arguments))
    answer: dict[str, Any] = output.model_dump(mode="json")
    jsonschema.validate(answer, tool.output.model_json_schema())
    assert tool.text is not None
    assert tool.text(output)
    return answer


@pytest.mark.contract("XM-4")
async def test_save_recall_and_search_answer_in_the_pinned_shapes(world: MemoryWorld) -> None:
    saved = await _call(
        world,
        "xerotier.memory.save",
        {"content": "Shipped MCP M8 with sampling-based approvals.", "category": "decision"},
        session_id="session-1",
    )
    assert saved["status"] == "saved"
    assert saved["category"] == "decision"
    assert saved["slug"] == "shipped-mcp-m8-with-sampling-based-approvals"
    repeated = await _call(world, "xerotier.memory.save", {"content": "shipped MCP M8 with sampling-based approvals"})
    assert (repeated["status"], repeated["memory_id"]) == ("duplicate", saved["memory_id"])
    rejected = await _call(world, "xerotier.memory.save", {"content": "thanks!"})
    assert (rejected["status"], rejected["memory_id"]) == ("rejected", None)
    assert rejected["reason"]
    recalled = await _call(world, "xerotier.memory.recall", {"query": "sampling approvals", "limit": 5})
    memory = recalled["memories"][0]
    assert {"id", "slug", "content", "category", "relevance", "created_at"} <= memory.keys()
    assert memory["id"] == saved["memory_id"]
    assert memory["created_at"].endswith("Z")
    found = await _call(world, "xerotier.memory.search", {"query": "sampling approvals", "types": ["memory"]})
    result = found["results"][0]
    assert {"type", "id", "slug", "title", "snippet", "score"} <= result.keys()
    assert (result["type"], result["id"], result["slug"]) == ("memory", saved["memory_id"], saved["slug"])
    assert result["provenance"]["trust"] == "agent"


async def test_recall_without_a_query_is_chronological(world: MemoryWorld) -> None:
    for number in (1, 2, 3):
        await _call(world, "xerotier.memory.save", {"content": f"Step {number} is done"})
        world.clock.advance(seconds=1)
    for arguments in ({}, {"query": ""}, {"query": None}):
        recalled = await _call(world, "xerotier.memory.recall", arguments)
        assert [each["content"] for each in recalled["memories"]] == [f"Step {number} is done" for number in (3, 2, 1)]


async def test_a_contradiction_names_what_to_supersede(world: MemoryWorld) -> None:
    old = await _call(world, "xerotier.memory.save", {"content": "The API listens on port 8080"})
    new = await _call(world, "xerotier.memory.save", {"content": "The API now listens on port 9090"})
    assert [each["memory_id"] for each in new["contradicts"]] == [old["memory_id"]]
    assert new["contradicts"][0]["reason"]


async def test_without_a_workspace_the_remedy_is_named(world: MemoryWorld) -> None:
    tool = tools(world.memory)[0]
    with pytest.raises(Invalid, match="No workspace"):
        await tool.handler(ToolCall(world.agent, None, "mcp"), tool.input.model_validate({"query": "anything"}))


def test_every_memory_tool_is_in_the_core_tier(world: MemoryWorld) -> None:
    found = tools(world.memory)
    assert {each.name for each in found} == {f"xerotier.memory.{verb}" for verb in ("save", "recall", "search")}
    assert all(each.within("core") and "inference" in each.access.scopes for each in found)
    assert [each.annotations.read_only for each in found] == [True, True, False]
