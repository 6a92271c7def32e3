"""Owns the proof of the brief: what is in it, in which order, and that it keeps to its budget."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid, NotFound
from holdfast.features.intelligence.briefing.brief import Material, item_json, render, write_brief
from holdfast.features.intelligence.briefing.budget import MAX_BUDGET, MIN_BUDGET, clip, fill, tokens_of
from holdfast.features.intelligence.model import SECTIONS, Brief, Decision, DecisionEdit, Milestone, Ref, Relation
from holdfast.registry.entities import Blocker, Source
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import START, MovableClock
from tests.support.features.intelligence import Stage, decision_ref, stage
from tests.support.properties import examples


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, clock: MovableClock) -> Stage:
    return await stage(sqlite_database, clock)


async def _brief(at: Stage, **wanted: object) -> Brief:
    return await at.service.brief(at.principal, at.workspace, **wanted)  # type: ignore[arg-type]


def _titles(brief: Brief, section: str) -> list[str]:
    return [item.title for item in brief.sections[section]]


@pytest.mark.contract("XM-7")
async def test_a_brief_says_where_the_project_stands(database: Database, clock: MovableClock) -> None:
    failed = Blocker("invocation", "inv_1", "deploy.staging failed", "exit code 1", START)
    at = await stage(database, clock, blockers=[failed])
    held = await at.decide("Which region?", "Latency matters.", blocking=True)
    proposed = await at.decide("Which cloud?", blocking=True, status="proposed")
    chosen = await at.decide("Use PostgreSQL", "Replicas.")
    await at.reach("Schema shipped", decisions=(chosen.id,))
    await at.relate(decision_ref(held), "blocks", decision_ref(chosen))
    at.memories.add(at.workspace, "mem_1", "Backups run at night.", START)
    at.memories.add(at.other_workspace, "mem_2", "Elsewhere.", START)
    found = await _brief(at)
    assert set(_titles(found, "blockers")) == {"Which region?", "Which cloud?", "deploy.staging failed"}
    assert _titles(found, "decisions") == ["Use PostgreSQL"]
    assert _titles(found, "milestones") == ["Schema shipped"]
    assert _titles(found, "connections")[0] == "Which region? — blocks → Use PostgreSQL"
    assert _titles(found, "memories") == ["Backups run at night"]
    assert all(f"`{id}`" in found.markdown for id in (held.id, proposed.id, chosen.id, "mem_1", "inv_1"))
    assert not any(found.omitted.values())


async def test_a_blocker_that_is_decided_is_no_blocker(at: Stage) -> None:
    held = await at.decide("Which region?", blocking=True)
    await at.service.decisions.edit(at.principal, at.workspace, held.id, DecisionEdit(status="accepted"))
    found = await _brief(at)
    assert _titles(found, "blockers") == []
    assert _titles(found, "decisions") == ["Which region?"]


async def test_superseded_decisions_are_not_in_a_brief(at: Stage) -> None:
    old = await at.decide("Old way")
    await at.decide("New way", supersedes=old.id)
    assert _titles(await _brief(at), "decisions") == ["New way"]


async def test_the_newest_and_the_best_connected_come_first(at: Stage) -> None:
    hub = await at.decide("Hub")
    await at.decide("Plain")
    for number in range(4):
        memory = at.memories.add(at.workspace, f"mem_{number}", f"Note {number}.")
        await at.relate(memory, "supports", decision_ref(hub))
    await at.decide("Ancient", decided_at=START - 400 * 86_400_000)
    await at.decide("Turned down", status="rejected")
    assert _titles(await _brief(at), "decisions") == ["Hub", "Plain", "Turned down", "Ancient"]


async def test_a_focus_brings_what_fits_it_first(at: Stage) -> None:
    await at.decide("Encrypt backups with age", "Off-site copies.", decided_at=START - 300 * 86_400_000)
    for number in range(5):
        await at.decide(f"Colour of page {number}", "Design system.")
    assert _titles(await _brief(at), "decisions")[-1] == "Encrypt backups with age"
    assert _titles(await _brief(at, focus="encrypt backups"), "decisions")[0] == "Encrypt backups with age"


async def test_an_empty_workspace_says_so(at: Stage) -> None:
    found = await _brief(at)
    assert "Nothing is on record here yet." in found.markdown
    assert found.tokens <= found.budget_tokens


async def test_what_the_budget_leaves_out_is_counted(at: Stage) -> None:
    for number in range(30):
        await at.decide(f"Decision {number}", "Because of a long and winding reason. " * 5)
    found = await _brief(at, budget_tokens=400)
    assert 0 < len(found.sections["decisions"]) < 30
    assert found.omitted["decisions"] == 30 - len(found.sections["decisions"])
    assert f"{found.omitted['decisions']} decisions" in found.markdown


def test_one_thing_that_is_left_out_is_one() -> None:
    omitted = {**dict.fromkeys(SECTIONS, 0), "decisions": 2, "memories": 1, "repositories": 1}
    markdown = render("Shop", dict.fromkeys(SECTIONS, ()), omitted)
    assert "Left out for room: 2 decisions, 1 memory, 1 repository." in markdown


async def test_budget_and_tenant_are_checked(at: Stage) -> None:
    for budget in (MIN_BUDGET - 1, MAX_BUDGET + 1):
        with pytest.raises(Invalid):
            await _brief(at, budget_tokens=budget)
    with pytest.raises(NotFound):
        await at.service.brief(at.stranger, at.workspace)
    with pytest.raises(NotFound):
        await at.service.brief(replace(at.principal, workspace_ids=frozenset({at.other_workspace})), at.workspace)


_texts = st.text(max_size=400)
_ids = st.integers(0, 10**6).map(str)
_moments = st.integers(0, 2 * START)
_decisions = st.builds(
    Decision,
    id=_ids.map(lambda n: f"dec_{n}"),
    workspace_id=st.just("ws"),
    title=_texts,
    rationale=_texts,
    alternatives=st.just(()),
    status=st.sampled_from(["proposed", "open", "accepted", "rejected", "deferred"]),
    blocking=st.booleans(),
    decided_at=_moments,
    supersedes=st.none(),
    superseded_by=st.none(),
    superseded_at=st.none(),
    author=st.just("usr_1"),
    author_name=_texts,
    created_at=_moments,
    updated_at=_moments,
)
_milestones = st.builds(
    Milestone,
    id=_ids.map(lambda n: f"mil_{n}"),
    workspace_id=st.just("ws"),
    title=_texts,
    type=st.just("release"),
    description=_texts,
    occurred_at=_moments,
    decisions=st.just(()),
    author=st.just("usr_1"),
    author_name=_texts,
    created_at=_moments,
    updated_at=_moments,
)
_refs = st.builds(Ref, st.just("decision"), st.sampled_from(["dec_1", "dec_2", "dec_3"]))
_relations = st.builds(
    Relation, _ids.map(lambda n: f"rel_{n}"), st.just("ws"), _refs, _refs, st.just("blocks"), _texts, _texts, _moments
)
_blockers = st.builds(Blocker, st.just("case"), _ids, _texts, _texts, _moments)
_memories = st.builds(Source, st.just("memory"), _ids.map(lambda n: f"mem_{n}"), _texts, _texts, _moments)
_materials = st.builds(
    Material,
    blockers=st.lists(_blockers, max_size=12),
    decisions=st.lists(_decisions, max_size=12),
    milestones=st.lists(_milestones, max_size=12),
    relations=st.lists(_relations, max_size=12),
    titles=st.dictionaries(_refs, _texts, max_size=3),
    degrees=st.dictionaries(_ids.map(lambda n: f"dec_{n}"), st.integers(0, 9), max_size=5),
    memories=st.lists(_memories, max_size=12),
    relevance=st.dictionaries(_ids.map(lambda n: f"dec_{n}"), st.floats(0, 1), max_size=5),
    repositories=st.lists(_memories, max_size=3),
)


@given(_materials, _texts, st.integers(MIN_BUDGET, 3_000))
@examples(60)
def test_no_brief_exceeds_its_budget(material: Material, name: str, budget: int) -> None:
    brief = write_brief("ws", name, material, budget, START)
    assert brief.tokens == tokens_of(brief.markdown) <= budget
    sections = {section: [item_json(item) for item in brief.sections[section]] for section in SECTIONS}
    assert tokens_of(json.dumps({"workspace": clip(name, 60), **sections}, ensure_ascii=False)) <= budget
    shown = sum(len(brief.sections[section]) for section in SECTIONS)
    held = {blocker.id for blocker in material.blockers}
    known = [tie for tie in material.relations if tie.start in material.titles and tie.end in material.titles]
    decisions = [decision for decision in material.decisions if decision.id not in held]
    given_items = len(material.blockers) + len(decisions) + len(material.milestones) + len(material.memories)
    assert shown + sum(brief.omitted.values()) == given_items + len(known) + len(material.repositories)


_costs = st.lists(st.integers(1, 60), max_size=15)


@given(_costs, _costs, st.integers(0, 300))
def test_filling_takes_the_best_of_each_section_and_wastes_no_room(
    first: list[int], second: list[int], room: int
) -> None:
    sections = {"a": list(enumerate(first)), "b": list(enumerate(second))}
    taken = fill(sections, {"a": 0.6, "b": 0.4}, room, 2)
    used = 0
    for name, costs in (("a", first), ("b", second)):
        assert taken[name] == list(range(len(taken[name])))
        used += sum(costs[: len(taken[name])]) + (2 if taken[name] else 0)
    assert used <= room
    for name, costs in (("a", first), ("b", second)):
        if len(taken[name]) < len(costs):
            assert used + costs[len(taken[name])] + (0 if taken[name] else 2) > room


@given(_texts, st.integers(20, 300))
def test_a_clipped_text_is_one_line_of_at_most_that_length(text: str, length: int) -> None:
    clipped = clip(text, length)
    assert len(clipped) <= length
    assert "\n" not in clipped
