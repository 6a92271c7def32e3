"""Owns the proof that the artifact tools speak as the contract pins it."""

from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.core.errors import Invalid
from holdfast.core.tools.tool import ToolCall
from holdfast.features.artifacts.model import READ_BYTES
from holdfast.features.artifacts.tools import tools
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.library import Library, library


@pytest.fixture
async def here(sqlite_database: SqliteDatabase, clock: MovableClock) -> Library:
    return await library(sqlite_database, clock)


async def _call(here: Library, name: str, **given: Any) -> dict[str, Any]:
    tool = next(tool for tool in tools(here.artifacts) if tool.name == f"xerotier.artifact.{name}")
    answer = await tool.handler(ToolCall(here.principal, here.workspace_id, "mcp"), tool.input.model_validate(given))
    assert isinstance(answer, tool.output)
    dumped: dict[str, Any] = answer.model_dump(mode="json")
    return dumped


@pytest.mark.contract("XM-6")
async def test_create_update_read_and_list_answer_the_pinned_shapes(here: Library) -> None:
    made = await _call(
        here, "create", identifier="fib.py", title="Fibonacci", type="text/x-python", language="python", content="1"
    )
    assert {name: made[name] for name in ("identifier", "version", "status")} == {
        "identifier": "fib.py",
        "version": 1,
        "status": "created",
    }

    by_id = await _call(here, "update", artifact_id=made["artifact_id"], content="2")
    by_name = await _call(here, "update", identifier="fib.py", content="3")
    assert (by_id["version"], by_name["version"], by_name["status"]) == (2, 3, "updated")

    read = await _call(here, "read", artifact_id=made["artifact_id"], version=2)
    assert read["content"] == "2"
    assert read["content_truncated"] is False
    assert (read["artifact_id"], read["version"], read["type"]) == (made["artifact_id"], 2, "text/x-python")

    listed = await _call(here, "list", artifact_type="text/x-python", limit=1)
    assert listed["total"] == 1
    assert listed["artifacts"][0]["identifier"] == "fib.py"


async def test_long_content_is_left_out_and_says_so(here: Library) -> None:
    made = await _call(
        here, "create", identifier="long", title="Long", type="text/plain", content="x" * (READ_BYTES + 1)
    )
    read = await _call(here, "read", artifact_id=made["artifact_id"])
    assert read["content"] is None
    assert read["content_truncated"] is True


async def test_artifacts_belong_to_the_tier_intel() -> None:
    names = {tool.name: tool for tool in tools(None)}  # type: ignore[arg-type]
    assert sorted(names) == [f"xerotier.artifact.{name}" for name in ("create", "list", "read", "update")]
    assert all(tool.within("intel") and tool.within("all") and not tool.within("core") for tool in names.values())


async def test_an_update_names_one_artifact(here: Library) -> None:
    with pytest.raises(ValidationError, match="either artifact_id or identifier"):
        await _call(here, "update", content="x")
    with pytest.raises(ValidationError, match="either artifact_id or identifier"):
        await _call(here, "update", artifact_id="a", identifier="b", content="x")


async def test_without_a_workspace_the_remedy_is_told(here: Library) -> None:
    tool = next(tool for tool in tools(here.artifacts) if tool.name.endswith("list"))
    with pytest.raises(Invalid, match="No workspace is bound"):
        await tool.handler(ToolCall(here.principal, None, "mcp"), tool.input.model_validate({}))
