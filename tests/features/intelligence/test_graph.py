"""Owns the proof of what the knowledge graph shows, on both stores."""

from itertools import pairwise

import pytest

from holdfast.core.errors import Invalid, NotFound
from holdfast.features.intelligence.graph.drawing import mermaid
from holdfast.features.intelligence.model import Decision, Graph, GraphNode, GraphQuery, Ref, Relation
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.intelligence import Stage, decision_ref, milestone_ref, stage


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> Stage:
    return await stage(database, clock)


async def _graph(at: Stage, **wanted: object) -> Graph:
    return await at.service.graph(at.principal, at.workspace, GraphQuery(**wanted))  # type: ignore[arg-type]


def _titles(graph: Graph) -> list[str]:
    return sorted(node.title for node in graph.nodes)


async def _chain(at: Stage, length: int) -> list[Decision]:
    chain = [await at.decide(f"Link {number}") for number in range(length)]
    for one, two in pairwise(chain):
        await at.relate(decision_ref(one), "causes", decision_ref(two))
    return chain


@pytest.mark.contract("XM-7")
async def test_the_whole_graph_has_every_node_and_relation(at: Stage) -> None:
    decision = await at.decide("Use queues", status="proposed")
    milestone = await at.reach("Queues live", decisions=(decision.id,))
    await at.decide("Alone")
    memory = at.memories.add(at.workspace, "mem_1", "Rabbits are fast.")
    tie = await at.relate(memory, "supports", decision_ref(decision), "measured")
    found = await _graph(at)
    assert _titles(found) == ["Alone", "Queues live", "Rabbits are fast", "Use queues"]
    assert {(edge.start.id, edge.relation, edge.end.id) for edge in found.edges} == {
        (milestone.id, "implements", decision.id),
        ("mem_1", "supports", decision.id),
    }
    assert tie in found.edges and not found.truncated
    nodes = {node.id: node for node in found.nodes}
    assert (nodes[decision.id].status, nodes[decision.id].at) == ("proposed", decision.decided_at)
    assert nodes["mem_1"].type == "memory"


async def test_around_a_centre_the_depth_bounds_the_graph(at: Stage) -> None:
    chain = await _chain(at, 6)
    for depth, wanted in ((1, {1, 2, 3}), (2, {0, 1, 2, 3, 4}), (5, {0, 1, 2, 3, 4, 5})):
        found = await _graph(at, centre=chain[2].id, depth=depth)
        assert _titles(found) == [f"Link {number}" for number in sorted(wanted)]
        assert len(found.edges) == len(wanted) - 1
    assert {node.title: node.distance for node in (await _graph(at, centre=chain[2].id, depth=1)).nodes} == {
        "Link 2": 0,
        "Link 1": 1,
        "Link 3": 1,
    }


async def test_a_circle_is_walked_once_and_its_outer_relations_are_shown(at: Stage) -> None:
    one, two, three = await _chain(at, 3)
    await at.relate(decision_ref(three), "causes", decision_ref(one))
    found = await _graph(at, centre=one.id, depth=1)
    assert _titles(found) == ["Link 0", "Link 1", "Link 2"]
    assert len(found.edges) == 3
    assert two.id in {node.id for node in found.nodes}


async def test_the_centre_may_be_of_any_type(at: Stage) -> None:
    decision = await at.decide("Use queues")
    memory = at.memories.add(at.workspace, "mem_1", "Rabbits are fast.")
    await at.relate(memory, "supports", decision_ref(decision))
    found = await _graph(at, centre="mem_1", depth=1)
    assert _titles(found) == ["Rabbits are fast", "Use queues"]


async def test_types_select_nodes_and_ask_for_unrelated_ones(at: Stage) -> None:
    decision = await at.decide("Use queues")
    await at.reach("Queues live", decisions=(decision.id,))
    memory = at.memories.add(at.workspace, "mem_1", "Related.")
    at.memories.add(at.workspace, "mem_2", "Unrelated.")
    await at.relate(memory, "supports", decision_ref(decision))
    assert _titles(await _graph(at, types=frozenset({"decision"}))) == ["Use queues"]
    both = await _graph(at, types=frozenset({"decision", "memory"}))
    assert _titles(both) == ["Related", "Unrelated", "Use queues"]
    assert len(both.edges) == 1
    around = await _graph(at, centre=decision.id, types=frozenset({"milestone"}))
    assert _titles(around) == ["Queues live", "Use queues"]


async def test_the_limit_cuts_and_says_so(at: Stage) -> None:
    await _chain(at, 5)
    found = await _graph(at, limit=3)
    assert len(found.nodes) == 3 and found.truncated
    shown = {node.id for node in found.nodes}
    assert all(edge.start.id in shown and edge.end.id in shown for edge in found.edges)
    assert not (await _graph(at, limit=5)).truncated


async def test_what_was_deleted_elsewhere_leaves_no_loose_edge(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    decision = await at.decide("Use queues")
    memory = at.memories.add(at.workspace, "mem_1", "Gone soon.")
    await at.relate(memory, "supports", decision_ref(decision))
    at.memories.sources.clear()
    found = await _graph(at)
    assert _titles(found) == ["Use queues"] and not found.edges


async def test_a_centre_that_is_not_here_is_not_found(at: Stage) -> None:
    elsewhere = await at.decide("Elsewhere", workspace=at.other_workspace)
    with pytest.raises(NotFound):
        await _graph(at, centre=elsewhere.id)
    with pytest.raises(NotFound):
        await at.service.graph(at.stranger, at.workspace)


async def test_an_impossible_depth_or_limit_is_refused(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    for wanted in ({"depth": 0}, {"depth": 6}, {"limit": 0}, {"limit": 501}):
        with pytest.raises(Invalid):
            await _graph(at, **wanted)


async def test_the_graph_draws_as_mermaid(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    old = await at.decide("Old way")
    new = await at.decide("New way", supersedes=old.id)
    milestone = await at.reach("Done")
    await at.relate(milestone_ref(milestone), "implements", decision_ref(new))
    drawn = mermaid(await _graph(at))
    assert drawn.startswith("flowchart LR\n")
    assert "-->|supersedes|" in drawn and "-->|implements|" in drawn
    assert '{{"New way"}}' in drawn and '(["Done"])' in drawn
    assert "superseded\n" in drawn


def test_no_title_breaks_out_of_a_drawing() -> None:
    hostile = 'x"]; click n0 "javascript:alert(1)" %% <b>#quot;`\n'
    node = GraphNode("dec_1", "document", hostile)
    tie = Relation("rel_1", "ws", Ref("document", "dec_1"), Ref("document", "dec_1"), "causes", hostile, "a", 1)
    lines = mermaid(Graph((node,), (tie,), truncated=False)).splitlines()
    assert len(lines) == 3
    inside = lines[1].removeprefix('    n0["').removesuffix('"]')
    assert not set('"<>`[]{}%') & set(inside)
