"""Owns the proof of the intelligence tools: the pinned shapes, through the gateway that every surface uses."""

import json
from typing import Any

import pytest

from holdfast.core.errors import Invalid, NotFound
from holdfast.core.text.schema import input_schema, output_schema
from holdfast.core.tools.gateway import Catalog, Gateway
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import ToolCall
from holdfast.features.intelligence.tools import tools
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import START, MovableClock
from tests.support.features.intelligence import Stage, stage

NAMES = {"brief", "timeline", "decisions", "analyze", "graph", "relate", "track_decision", "track_milestone"}


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, clock: MovableClock) -> Stage:
    return await stage(sqlite_database, clock)


async def _outcome(at: Stage, name: str, **arguments: Any) -> Outcome:
    box = Gateway(lambda: Catalog(tools(at.service)))
    return await box.call(ToolCall(at.principal, at.workspace, "mcp"), f"xerotier.intelligence.{name}", arguments)


async def _call(at: Stage, name: str, **arguments: Any) -> dict[str, Any]:
    return (await _outcome(at, name, **arguments)).data


@pytest.mark.contract("XM-7")
async def test_what_one_agent_tracks_another_reads(at: Stage) -> None:
    old = await _call(at, "track_decision", title="Use REST", status="accepted")
    new = await _call(
        at,
        "track_decision",
        title="Use gRPC",
        rationale="Streaming.",
        alternatives=["REST"],
        supersedes=old["decision_id"],
    )
    held = await _call(at, "track_decision", title="Which broker?", blocking=True)
    reached = await _call(
        at,
        "track_milestone",
        title="First stream",
        type="release",
        occurred_at="2026-11-01",
        description="Telemetry flows.",
        decisions=[new["decision_id"]],
    )
    tie = await _call(
        at,
        "relate",
        **{
            "from": {"type": "decision", "id": held["decision_id"]},
            "to": {"type": "milestone", "id": reached["milestone_id"]},
        },
        relation="blocks",
        note="until chosen",
    )
    assert (held["status"], new["supersedes"], tie["status"], tie["inverse"]) == (
        "open",
        old["decision_id"],
        "created",
        "blocked_by",
    )
    found = await _call(at, "decisions", query="streaming")
    assert found["decisions"][0]["decision_id"] == new["decision_id"]
    assert 0 <= found["decisions"][0]["score"] <= 1
    line = await _call(at, "timeline", type="release", since="2026-10-31", until="2026-11-02")
    assert [each["milestone_id"] for each in line["milestones"]] == [reached["milestone_id"]]
    assert line["milestones"][0]["occurred_at"] == "2026-11-01T00:00:00.000Z"
    shown = await _call(at, "graph")
    assert {node["id"] for node in shown["nodes"]} >= {new["decision_id"], reached["milestone_id"]}
    assert {(edge["from"], edge["relation"], edge["to"]) for edge in shown["edges"]} == {
        (new["decision_id"], "supersedes", old["decision_id"]),
        (reached["milestone_id"], "implements", new["decision_id"]),
        (held["decision_id"], "blocks", reached["milestone_id"]),
    }


async def test_the_brief_reads_as_markdown_and_as_data(at: Stage) -> None:
    await _call(at, "track_decision", title="Which broker?", blocking=True)
    at.memories.add(at.workspace, "mem_1", "Backups run at night.", START)
    outcome = await _outcome(at, "brief", focus="backups")
    assert [item["title"] for item in outcome.data["blockers"]] == ["Which broker?"]
    assert [item["title"] for item in outcome.data["memories"]] == ["Backups run at night"]
    direct = await at.service.brief(at.principal, at.workspace, focus="backups")
    assert outcome.text == direct.markdown


async def test_the_analysis_reads_as_its_markdown(at: Stage) -> None:
    await _call(at, "track_decision", title="Use gRPC", rationale="Streaming.")
    outcome = await _outcome(at, "analyze", topic="streaming")
    assert outcome.text == outcome.data["markdown"]
    assert outcome.data["sources"][0]["n"] == 1


async def test_saying_a_relation_again_gives_the_one_we_have(at: Stage) -> None:
    one = (await _call(at, "track_decision", title="One"))["decision_id"]
    two = (await _call(at, "track_decision", title="Two"))["decision_id"]
    ends = {"from": {"type": "decision", "id": one}, "to": {"type": "decision", "id": two}}
    first = await _call(at, "relate", **ends, relation="blocks")
    again = await _call(at, "relate", **{"from": ends["to"], "to": ends["from"]}, relation="blocked_by")
    assert (again["relation_id"], again["status"]) == (first["relation_id"], "exists")


async def test_the_graph_draws_on_request(at: Stage) -> None:
    one = await _call(at, "track_decision", title="One")
    shown = await _call(at, "graph", centre=one["decision_id"], depth=1, types=["decision"], mermaid=True)
    assert shown["mermaid"].startswith("flowchart LR")
    assert (await _call(at, "graph"))["mermaid"] is None


async def test_wrong_arguments_say_what_to_do(at: Stage) -> None:
    for name, arguments, field in (
        ("track_decision", {}, "title"),
        ("track_decision", {"title": "x", "status": "maybe"}, "status"),
        ("timeline", {"since": "yesterday-ish"}, "since"),
        ("relate", {"from": {"type": "decision", "id": "x"}, "relation": "blocks"}, "to"),
        ("brief", {"budget_tokens": 10}, "budget_tokens"),
        ("graph", {"depth": 9}, "depth"),
    ):
        with pytest.raises(Invalid) as refusal:
            await _call(at, name, **arguments)
        assert refusal.value.fields[0].field == field
    with pytest.raises(NotFound):
        await _call(at, "graph", centre="dec_none")


def test_the_eight_tools_are_intel_tools_and_lean(at: Stage) -> None:
    offered = tools(at.service)
    assert {tool.name for tool in offered} == {f"xerotier.intelligence.{name}" for name in NAMES}
    assert all(tool.tier == "intel" for tool in offered)
    writing = {tool.name.rpartition(".")[2] for tool in offered if not tool.annotations.read_only}
    assert writing == {"relate", "track_decision", "track_milestone"}
    for tool in offered:
        size = len(tool.description) + len(json.dumps([input_schema(tool.input), output_schema(tool.output)]))
        assert size <= 1_600, f"{tool.name}: {size}"
