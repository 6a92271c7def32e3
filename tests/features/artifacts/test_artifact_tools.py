"""Owns the proof that the artifact tools speak as the contract pins it."""

from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.core.errors import Invalid
from holdfast.core.tools.tool import ToolCall
from holdfast.features.artifacts.model import MAX_PART_CHARACTERS, PART_CHARACTERS, READ_BYTES, ArtifactNotFound
from holdfast.features.artifacts.tools import tools
from holdfast.storage.database import Database
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


async def test_reading_takes_the_identifier_and_its_chat(here: Library) -> None:
    await _call(here, "create", identifier="plan.md", title="Plan", type="text/markdown", content="one")
    await _call(here, "update", identifier="plan.md", content="two")
    assert (await _call(here, "read", identifier="plan.md"))["content"] == "two"
    assert (await _call(here, "read", identifier="plan.md", version=1))["content"] == "one"
    with pytest.raises(ArtifactNotFound):
        await _call(here, "read", identifier="other.md")
    for given in ({}, {"artifact_id": "a", "identifier": "b"}):
        with pytest.raises(ValidationError, match="either artifact_id or identifier"):
            await _call(here, "read", **given)


TEXTS = ("", "a", "plain words", "größer\r\nals\n", "🙂🙃e\u0301\u200d", "\ufeffx\uffff\U0010ffff\t", "\n" * 7)


async def test_parts_put_together_are_the_whole_on_both_stores(database: Database, clock: MovableClock) -> None:
    here = await library(database, clock)
    for number, content in enumerate(TEXTS):
        name = f"text{number}"
        await _call(here, "create", identifier=name, title="T", type="text/plain", content=content)
        for length in range(1, len(content) + 2):
            read, offset, count = "", 0, 0
            while offset is not None:
                part = await _call(here, "read", identifier=name, offset=offset, length=length)
                assert part["content"] == content[offset : offset + length]
                assert part["content_truncated"] == (part["content"] != content)
                read, offset, count = read + part["content"], part["next_offset"], count + 1
            assert (read, count) == (content, max(1, -(-len(content) // length)))


@pytest.mark.slow
async def test_what_is_too_long_for_one_answer_is_read_in_parts(here: Library) -> None:
    # One long word: the index takes it in a moment.
    content = "".join(f"{number:07}ä" for number in range(120_000))
    await _call(here, "create", identifier="long", title="Long", type="text/plain", content=content)
    whole = await _call(here, "read", identifier="long")
    assert (whole["content"], whole["content_truncated"], whole["next_offset"]) == (None, True, 0)
    read, offset = "", 0
    while offset is not None:
        part = await _call(here, "read", identifier="long", offset=offset, length=MAX_PART_CHARACTERS)
        assert part["content_truncated"] is True and part["sha256"] == whole["sha256"]
        read, offset = read + part["content"], part["next_offset"]
    assert read == content
    first = await _call(here, "read", identifier="long", offset=5)
    assert first["content"] == content[5 : 5 + PART_CHARACTERS]
    assert (await _call(here, "read", identifier="long", length=3))["content"] == "000"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"offset": 5}, "5 is past the end: version 2 has 5 characters; begin below 5"),
        ({"offset": 2**53}, "is past the end: version 2 has 5 characters; begin below 5"),
        ({"offset": 1, "version": 1}, "1 is past the end: version 1 has 0 characters; leave it out"),
    ],
)
async def test_a_part_past_the_end_says_where_the_end_is(here: Library, given: dict[str, int], said: str) -> None:
    await _call(here, "create", identifier="c", title="C", type="text/plain", content="")
    await _call(here, "update", identifier="c", content="höhe!")
    with pytest.raises(Invalid) as caught:
        await _call(here, "read", identifier="c", **given)
    (problem,) = caught.value.fields
    assert problem.field == "offset" and said in problem.message


@pytest.mark.parametrize("given", [{"offset": -1}, {"length": 0}, {"length": MAX_PART_CHARACTERS + 1}])
async def test_a_range_that_cannot_be_is_refused_by_its_field(here: Library, given: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(given))):
        await _call(here, "read", identifier="c", **given)


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
