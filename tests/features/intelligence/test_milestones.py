"""Owns the proof of the rules of milestones and the timeline, on both stores."""

from dataclasses import replace

import pytest

from holdfast.core.errors import Forbidden, Invalid, NotFound
from holdfast.engines.search.model import Query
from holdfast.features.intelligence.model import MilestoneEdit, MilestoneFilter, NewMilestone
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.intelligence import Stage, decision_ref, milestone_ref, stage

DAY = 86_400_000


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> Stage:
    return await stage(database, clock)


async def _timeline(at: Stage, **wanted: object) -> list[str]:
    page = await at.service.milestones.timeline(
        at.principal,
        at.workspace,
        MilestoneFilter(**wanted),  # type: ignore[arg-type]
    )
    return [each.title for each in page.items]


@pytest.mark.contract("XM-7")
async def test_a_tracked_milestone_reads_back_whole_with_its_decisions(at: Stage) -> None:
    one, two = await at.decide("One"), await at.decide("Two")
    kept = await at.reach(
        "Version 1", "First public release.", type="release", occurred_at=5_000, decisions=(one.id, two.id, one.id)
    )
    assert kept == await at.service.milestones.get(at.principal, at.workspace, kept.id)
    assert set(kept.decisions) == {one.id, two.id}
    assert (kept.type, kept.occurred_at, kept.description) == ("release", 5_000, "First public release.")


async def test_the_timeline_is_newest_first_by_when_it_happened(at: Stage) -> None:
    await at.reach("Later", occurred_at=3 * DAY)
    await at.reach("Earlier", occurred_at=1 * DAY)
    await at.reach("Between", occurred_at=2 * DAY)
    assert await _timeline(at) == ["Later", "Between", "Earlier"]


async def test_the_timeline_is_filtered_by_type_dates_and_decision(at: Stage) -> None:
    chosen = await at.decide("Ship weekly")
    await at.reach("Release 1", type="release", occurred_at=1 * DAY, decisions=(chosen.id,))
    await at.reach("Outage", type="incident", occurred_at=2 * DAY)
    release = await at.reach("Release 2", type="release", occurred_at=3 * DAY)
    await at.relate(decision_ref(chosen), "led_to", milestone_ref(release))
    assert await _timeline(at, type="incident") == ["Outage"]
    assert await _timeline(at, since=2 * DAY) == ["Release 2", "Outage"]
    assert await _timeline(at, until=2 * DAY) == ["Outage", "Release 1"]
    assert await _timeline(at, since=2 * DAY, until=2 * DAY) == ["Outage"]
    assert await _timeline(at, decision=chosen.id) == ["Release 2", "Release 1"]
    assert await _timeline(at, decision=chosen.id, type="release", until=DAY) == ["Release 1"]


async def test_filtering_by_a_decision_that_is_not_here_is_not_found(at: Stage) -> None:
    elsewhere = await at.decide("Elsewhere", workspace=at.other_workspace)
    with pytest.raises(NotFound):
        await _timeline(at, decision=elsewhere.id)


async def test_pages_go_through_the_timeline_once(at: Stage) -> None:
    for number in range(7):
        await at.reach(f"Step {number}", occurred_at=number // 3)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await at.service.milestones.timeline(at.principal, at.workspace, limit=2, cursor=cursor)
        seen += [each.title for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == [f"Step {number}" for number in range(7)]


async def test_an_edit_replaces_the_decisions_and_keeps_the_rest(at: Stage) -> None:
    one, two, three = [await at.decide(title) for title in ("One", "Two", "Three")]
    kept = await at.reach("Cut-over", "Moved traffic.", decisions=(one.id, two.id))
    change = MilestoneEdit(title="Cut-over done", decisions=(two.id, three.id))
    edited = await at.service.milestones.edit(at.principal, at.workspace, kept.id, change)
    assert set(edited.decisions) == {two.id, three.id}
    assert (edited.title, edited.description) == ("Cut-over done", "Moved traffic.")
    none = await at.service.milestones.edit(at.principal, at.workspace, kept.id, MilestoneEdit(decisions=()))
    assert none.decisions == ()


async def test_a_deleted_milestone_is_gone_with_its_relations_and_from_search(at: Stage) -> None:
    decision = await at.decide("Keep")
    kept = await at.reach("Zeppelin landed", decisions=(decision.id,))
    assert await at.search.search(Query(at.workspace, "Zeppelin"))
    await at.service.milestones.delete(at.principal, at.workspace, kept.id)
    assert not [hit for hit in await at.search.search(Query(at.workspace, "Zeppelin")) if hit.type == "milestone"]
    assert not (await at.service.relations.page(at.principal, at.workspace)).items
    with pytest.raises(NotFound):
        await at.service.milestones.delete(at.principal, at.workspace, kept.id)


async def test_a_milestone_is_found_by_its_words_after_an_edit(at: Stage) -> None:
    kept = await at.reach("Launch", "The observatory opened.")
    change = MilestoneEdit(description="The planetarium opened.")
    await at.service.milestones.edit(at.principal, at.workspace, kept.id, change)
    hits = await at.search.search(Query(at.workspace, "planetarium", frozenset({"milestone"})))
    assert [hit.id for hit in hits] == [kept.id]


async def test_a_decision_that_is_not_here_keeps_nothing(at: Stage) -> None:
    elsewhere = await at.decide("Elsewhere", workspace=at.other_workspace)
    with pytest.raises(NotFound):
        await at.reach("Half", decisions=(elsewhere.id,))
    assert await _timeline(at) == []


async def test_what_cannot_be_kept_is_refused_with_its_field(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    for fields, wrong in (
        ({"title": ""}, "title"),
        ({"title": "x", "type": "Big Release"}, "type"),
        ({"title": "x", "description": "y" * 20_001}, "description"),
        ({"title": "x", "decisions": ("dec_1",) * 51}, "decisions"),
    ):
        with pytest.raises(Invalid) as refusal:
            await at.service.milestones.track(at.principal, at.workspace, NewMilestone(**fields))
        assert [each.field for each in refusal.value.fields] == [wrong]


async def test_another_tenant_sees_and_changes_nothing(at: Stage) -> None:
    kept = await at.reach("Ours")
    with pytest.raises(NotFound):
        await at.service.milestones.get(at.stranger, at.foreign_workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.milestones.delete(at.stranger, at.foreign_workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.milestones.timeline(at.stranger, at.workspace)
    with pytest.raises(Forbidden):
        await at.service.milestones.delete(replace(at.principal, scopes=frozenset({"read"})), at.workspace, kept.id)


async def test_every_change_is_audited(at: Stage) -> None:
    kept = await at.reach("Ours")
    await at.service.milestones.edit(at.principal, at.workspace, kept.id, MilestoneEdit(title="Yours"))
    await at.service.milestones.delete(at.principal, at.workspace, kept.id)
    assert sorted(await at.actions()) == ["milestone.delete", "milestone.edit", "milestone.track"]
