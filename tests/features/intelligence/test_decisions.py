"""Owns the proof of the rules of decisions, on both stores."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.engines.search.model import Query
from holdfast.features.intelligence.model import DecisionEdit, DecisionFilter, FoundDecision, NewDecision
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.intelligence import Stage, stage


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> Stage:
    return await stage(database, clock)


def _titles(found: list[FoundDecision]) -> list[str]:
    return [each.decision.title for each in found]


@pytest.mark.contract("XM-7")
async def test_a_tracked_decision_reads_back_whole(at: Stage) -> None:
    kept = await at.decide(
        "Use  PostgreSQL\nfor replicas",
        "One writer is not enough.",
        alternatives=("MySQL", "SQLite with litestream"),
        decided_at=at.clock.now() - 5,
    )
    read = await at.service.decisions.get(at.principal, at.workspace, kept.id)
    assert read == kept
    assert kept.title == "Use PostgreSQL for replicas"
    assert kept.alternatives == ("MySQL", "SQLite with litestream")
    assert (kept.status, kept.blocking, kept.author, kept.author_name) == ("accepted", False, "usr_1", "Ada")


async def test_a_blocking_decision_is_open_until_said_otherwise(at: Stage) -> None:
    assert (await at.decide("Which region?", blocking=True)).status == "open"
    assert (await at.decide("Which cloud?", blocking=True, status="accepted")).status == "accepted"


async def test_a_decision_is_found_by_its_words_and_listed_by_time(at: Stage) -> None:
    await at.decide("Use PostgreSQL for replicas", "Failover needs streaming replication.")
    at.clock.advance(days=1)
    await at.decide("Paint the bikeshed green", "It matches the lawn.")
    search = at.service.decisions.search
    assert (
        _titles(await search(at.principal, at.workspace, "streaming replication"))[0] == "Use PostgreSQL for replicas"
    )
    assert _titles(await search(at.principal, at.workspace, "")) == [
        "Paint the bikeshed green",
        "Use PostgreSQL for replicas",
    ]


async def test_search_scores_are_between_zero_and_one_and_fall(at: Stage) -> None:
    for number in range(8):
        await at.decide(f"Cache choice {number}", "We cache session rows " + "in memory " * number)
    found = await at.service.decisions.search(at.principal, at.workspace, "cache session rows")
    scores = [each.score or 0.0 for each in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)


async def test_superseding_marks_the_old_one_and_takes_it_out_of_present_answers(at: Stage) -> None:
    old = await at.decide("Deploy with Ansible", "Everyone knows the playbooks.")
    before = at.clock.now()
    at.clock.advance(days=2)
    new = await at.decide("Deploy with Nomad playbooks", "Ansible became slow.", supersedes=old.id)
    ended = await at.service.decisions.get(at.principal, at.workspace, old.id)
    assert (ended.status, ended.superseded_by, ended.superseded_at) == ("superseded", new.id, at.clock.now())
    assert new.supersedes == old.id
    search = at.service.decisions.search
    assert _titles(await search(at.principal, at.workspace, "playbooks")) == ["Deploy with Nomad playbooks"]
    then = DecisionFilter(as_of=before)
    assert _titles(await search(at.principal, at.workspace, "playbooks", then)) == ["Deploy with Ansible"]
    listed = await at.service.decisions.page(at.principal, at.workspace, then)
    assert [each.title for each in listed.items] == ["Deploy with Ansible"]
    gone = DecisionFilter(status="superseded")
    assert _titles(await search(at.principal, at.workspace, "ansible deploy", gone)) == ["Deploy with Ansible"]


async def test_a_superseded_decision_cannot_be_superseded_again(at: Stage) -> None:
    old = await at.decide("One")
    new = await at.decide("Two", supersedes=old.id)
    with pytest.raises(Conflict, match=new.id):
        await at.decide("Three", supersedes=old.id)
    everything = await at.service.decisions.page(at.principal, at.workspace)
    assert {each.title for each in everything.items} == {"One", "Two"}


async def test_only_one_of_many_at_once_supersedes(at: Stage) -> None:
    old = await at.decide("Contested")
    attempts = await asyncio.gather(
        *(at.decide(f"Successor {number}", supersedes=old.id) for number in range(6)), return_exceptions=True
    )
    won = [each for each in attempts if not isinstance(each, BaseException)]
    assert len(won) == 1
    assert all(isinstance(each, Conflict) for each in attempts if isinstance(each, BaseException))
    ended = await at.service.decisions.get(at.principal, at.workspace, old.id)
    assert ended.superseded_by == won[0].id


async def test_superseding_what_is_not_there_keeps_nothing(at: Stage) -> None:
    with pytest.raises(NotFound):
        await at.decide("Orphan", supersedes="dec_none")
    assert not (await at.service.decisions.page(at.principal, at.workspace)).items
    assert not await at.search.search(Query(at.workspace, "Orphan"))


async def test_another_status_puts_a_superseded_decision_in_force_again(at: Stage) -> None:
    old = await at.decide("Deploy with Ansible", "Known playbooks.")
    new = await at.decide("Deploy with Nomad", supersedes=old.id)
    back = await at.service.decisions.edit(at.principal, at.workspace, old.id, DecisionEdit(status="accepted"))
    assert (back.status, back.superseded_by, back.superseded_at) == ("accepted", None, None)
    successor = await at.service.decisions.get(at.principal, at.workspace, new.id)
    assert successor.supersedes is None
    assert not (await at.service.relations.page(at.principal, at.workspace)).items
    assert "Deploy with Ansible" in _titles(await at.service.decisions.search(at.principal, at.workspace, "playbooks"))


async def test_an_edit_changes_only_what_it_names_and_is_searchable(at: Stage) -> None:
    kept = await at.decide("Use gRPC", "Typed contracts.", alternatives=("REST",))
    at.clock.advance(seconds=5)
    change = DecisionEdit(rationale="Streaming telemetry needs it.", status="rejected")
    edited = await at.service.decisions.edit(at.principal, at.workspace, kept.id, change)
    wanted = replace(kept, rationale="Streaming telemetry needs it.", status="rejected", updated_at=at.clock.now())
    assert edited == wanted == await at.service.decisions.get(at.principal, at.workspace, kept.id)
    assert _titles(await at.service.decisions.search(at.principal, at.workspace, "telemetry")) == ["Use gRPC"]


async def test_pages_go_through_all_decisions_once(at: Stage) -> None:
    for number in range(7):
        await at.decide(f"Decision {number}", decided_at=1_000 + number // 2)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await at.service.decisions.page(at.principal, at.workspace, limit=3, cursor=cursor)
        seen += [each.title for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == [f"Decision {number}" for number in range(7)]


async def test_filters_narrow_the_list_and_the_search(at: Stage) -> None:
    await at.decide("Rollout order", "rollout", status="open", blocking=True)
    await at.decide("Rollout window", "rollout", status="accepted", decided_at=1_000)
    open_ones = DecisionFilter(status="open")
    assert _titles(await at.service.decisions.search(at.principal, at.workspace, "rollout", open_ones)) == [
        "Rollout order"
    ]
    page = await at.service.decisions.page(at.principal, at.workspace, DecisionFilter(blocking=False, until=2_000))
    assert [each.title for each in page.items] == ["Rollout window"]


async def test_another_tenant_and_another_workspace_see_nothing(at: Stage) -> None:
    kept = await at.decide("Secret plan")
    with pytest.raises(NotFound):
        await at.service.decisions.get(at.stranger, at.workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.decisions.get(at.stranger, at.foreign_workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.decisions.get(at.principal, at.other_workspace, kept.id)
    with pytest.raises(NotFound):
        await at.decide("Thief", workspace=at.other_workspace, supersedes=kept.id)
    with pytest.raises(NotFound):
        await at.service.decisions.search(at.stranger, at.workspace, "Secret")


async def test_reading_needs_a_scope_and_writing_needs_inference(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    reader = replace(at.principal, scopes=frozenset({"read"}))
    kept = await at.decide("Known")
    assert (await at.service.decisions.get(reader, at.workspace, kept.id)).id == kept.id
    with pytest.raises(Forbidden):
        await at.service.decisions.track(reader, at.workspace, NewDecision("New"))
    with pytest.raises(Forbidden):
        await at.service.decisions.edit(reader, at.workspace, kept.id, DecisionEdit(title="Other"))
    with pytest.raises(Forbidden):
        await at.service.decisions.get(replace(at.principal, scopes=frozenset()), at.workspace, kept.id)


async def test_what_cannot_be_kept_is_refused_with_its_field(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    cases: list[tuple[NewDecision, str]] = [
        (NewDecision("  "), "title"),
        (NewDecision("x" * 301), "title"),
        (NewDecision("x", "y" * 20_001), "rationale"),
        (NewDecision("x", "a\x00b"), "rationale"),
        (NewDecision("x", alternatives=("a", " ")), "alternatives[1]"),
        (NewDecision("x", alternatives=("a",) * 31), "alternatives"),
        (NewDecision("x", "use ghp_" + "a1B2" * 10), "rationale"),
    ]
    for new, wrong in cases:
        with pytest.raises(Invalid) as refusal:
            await at.service.decisions.track(at.principal, at.workspace, new)
        assert [each.field for each in refusal.value.fields] == [wrong]
        assert "ghp_" not in str(refusal.value) + refusal.value.fields[0].message


async def test_every_change_is_audited_and_published(at: Stage) -> None:
    async with at.events.subscribe(["decision.*"], workspace_ids=[at.workspace]) as events:
        old = await at.decide("One")
        new = await at.decide("Two", supersedes=old.id)
        await at.service.decisions.edit(at.principal, at.workspace, new.id, DecisionEdit(title="Three"))
        seen = []
        for _ in range(4):
            event = await asyncio.wait_for(events.get(), 10)
            seen.append((event.topic, event.payload["id"]))
    wanted = [
        ("decision.track", old.id),
        ("decision.track", new.id),
        ("decision.supersede", old.id),
        ("decision.edit", new.id),
    ]
    assert seen == wanted
    assert sorted(await at.actions()) == sorted(topic for topic, _ in wanted)
