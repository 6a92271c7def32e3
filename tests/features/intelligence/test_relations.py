"""Owns the proof of the rules of relations, on both stores."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.features.intelligence.graph.vocabulary import inverse
from holdfast.features.intelligence.model import DecisionEdit, DuplicateRelation, NewRelation, Ref, Relation
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.intelligence import Stage, decision_ref, milestone_ref, stage
from tests.support.properties import examples


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> Stage:
    return await stage(database, clock)


async def _all(at: Stage, **wanted: str) -> list[Relation]:
    page = await at.service.relations.page(at.principal, at.workspace, entity=wanted.get("entity"))
    return list(page.items)


@pytest.mark.contract("XM-7")
async def test_any_two_entities_relate_by_an_open_word(at: Stage) -> None:
    decision = await at.decide("Use queues")
    memory = at.memories.add(at.workspace, "mem_1", "Rabbits run fast.")
    kept = await at.relate(memory, "whispered_before", decision_ref(decision), "in the corridor")
    assert await _all(at) == [kept]
    assert (kept.start, kept.end, kept.relation, kept.note) == (
        memory,
        decision_ref(decision),
        "whispered_before",
        "in the corridor",
    )


async def test_both_ends_must_exist_in_this_workspace(at: Stage) -> None:
    here = decision_ref(await at.decide("Here"))
    elsewhere = decision_ref(await at.decide("Elsewhere", workspace=at.other_workspace))
    memory = at.memories.add(at.foreign_workspace, "mem_1", "Theirs.")
    for missing in (Ref("decision", "dec_none"), elsewhere, memory, Ref("milestone", here.id)):
        with pytest.raises(NotFound):
            await at.relate(here, "relates_to", missing)
        with pytest.raises(NotFound):
            await at.relate(missing, "relates_to", here)
    assert await _all(at) == []


async def test_an_unknown_type_is_refused_with_those_there_are(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    here = decision_ref(await at.decide("Here"))
    with pytest.raises(Invalid) as refusal:
        await at.relate(here, "relates_to", Ref("planet", "x"))
    assert refusal.value.fields[0].field == "to.type"
    assert "memory" in refusal.value.fields[0].message


async def test_the_same_is_not_kept_twice_nor_from_the_other_end(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), decision_ref(await at.decide("Two"))
    kept = await at.relate(one, "blocks", two)
    for start, name, end in (
        (one, "blocks", two),
        (two, "blocked_by", one),
        (two, "inverse_of_blocks", one),
    ):
        with pytest.raises(DuplicateRelation) as refusal:
            await at.relate(start, name, end)
        assert refusal.value.relation == kept
    symmetric = await at.relate(one, "relates_to", two)
    with pytest.raises(DuplicateRelation):
        await at.relate(two, "relates_to", one)
    opposite = await at.relate(two, "blocks", one)
    assert {each.id for each in await _all(at)} == {kept.id, symmetric.id, opposite.id}


async def test_of_many_who_say_the_same_at_once_one_is_kept(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), decision_ref(await at.decide("Two"))
    said = [(one, "depends_on", two), (two, "required_by", one)] * 5
    outcomes = await asyncio.gather(*(at.relate(*each) for each in said), return_exceptions=True)
    assert sum(isinstance(each, Relation) for each in outcomes) == 1
    assert sum(isinstance(each, DuplicateRelation) for each in outcomes) == 9
    assert len(await _all(at)) == 1


async def test_nothing_relates_to_itself(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    one = decision_ref(await at.decide("One"))
    with pytest.raises(Invalid):
        await at.relate(one, "relates_to", one)


async def test_relating_decisions_by_supersedes_supersedes(at: Stage) -> None:
    old, new = await at.decide("Old"), await at.decide("New")
    kept = await at.relate(decision_ref(old), "superseded_by", decision_ref(new), "faster")
    ended = await at.service.decisions.get(at.principal, at.workspace, old.id)
    assert (ended.status, ended.superseded_by) == ("superseded", new.id)
    assert (kept.start.id, kept.relation, kept.end.id, kept.note) == (new.id, "supersedes", old.id, "faster")
    with pytest.raises(Conflict, match="another status"):
        await at.service.relations.unrelate(at.principal, at.workspace, kept.id)
    await at.service.decisions.edit(at.principal, at.workspace, old.id, DecisionEdit(status="accepted"))
    assert await _all(at) == []


async def test_decisions_cannot_supersede_in_a_circle(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    one = await at.decide("One")
    two = await at.decide("Two", supersedes=one.id)
    with pytest.raises(Conflict):
        await at.relate(decision_ref(one), "supersedes", decision_ref(two))


async def test_of_two_who_supersede_each_other_at_once_one_wins(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), decision_ref(await at.decide("Two"))
    outcomes = await asyncio.gather(
        at.relate(one, "supersedes", two), at.relate(two, "supersedes", one), return_exceptions=True
    )
    assert [isinstance(each, Relation) for each in outcomes].count(True) == 1
    assert [isinstance(each, Conflict) for each in outcomes].count(True) == 1


async def test_a_removed_relation_is_gone_and_can_be_told_again(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), decision_ref(await at.decide("Two"))
    kept = await at.relate(one, "blocks", two)
    await at.service.relations.unrelate(at.principal, at.workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.relations.unrelate(at.principal, at.workspace, kept.id)
    assert (await at.relate(two, "blocked_by", one)).id != kept.id
    actions = await at.actions()
    assert (actions.count("relation.create"), actions.count("relation.delete")) == (2, 1)


async def test_an_entity_that_goes_takes_its_relations(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), decision_ref(await at.decide("Two"))
    memory = at.memories.add(at.workspace, "mem_1", "Something.")
    await at.relate(memory, "supports", one)
    await at.relate(two, "mentions", memory)
    stays = await at.relate(one, "blocks", two)
    await at.database.write(lambda tx: at.service.forget(tx, at.workspace, "memory", "mem_1"))
    assert await _all(at) == [stays]


async def test_relations_are_listed_by_entity_and_by_name_in_pages(at: Stage) -> None:
    hub = decision_ref(await at.decide("Hub"))
    for number in range(5):
        memory = at.memories.add(at.workspace, f"mem_{number}", f"Note {number}.")
        at.clock.advance(seconds=1)
        await at.relate(memory, "supports" if number % 2 else "contradicts", hub)
    relations = at.service.relations
    for entity in (None, hub.id):
        first = await relations.page(at.principal, at.workspace, entity=entity, limit=3)
        rest = await relations.page(at.principal, at.workspace, entity=entity, limit=3, cursor=first.next_cursor)
        assert [each.start.id for each in (*first.items, *rest.items)] == [f"mem_{n}" for n in (4, 3, 2, 1, 0)]
        named = await relations.page(at.principal, at.workspace, entity=entity, relation="supports")
        assert [each.start.id for each in named.items] == ["mem_3", "mem_1"]
    with pytest.raises(NotFound):
        await relations.page(at.principal, at.workspace, entity="mem_none")


async def test_another_tenant_neither_sees_nor_removes_relations(at: Stage) -> None:
    one, two = decision_ref(await at.decide("One")), milestone_ref(await at.reach("Two"))
    kept = await at.relate(one, "led_to", two)
    assert not (await at.service.relations.page(at.stranger, at.foreign_workspace)).items
    with pytest.raises(NotFound):
        await at.service.relations.unrelate(at.stranger, at.foreign_workspace, kept.id)
    with pytest.raises(NotFound):
        await at.service.relations.relate(at.stranger, at.workspace, NewRelation(one, two, "causes"))


_tellings = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["blocks", "blocked_by", "relates_to", "part_of", "has_part", "hums", "inverse_of_hums"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(_tellings)
@examples(15)
async def test_whatever_is_told_each_fact_is_kept_once(
    sqlite_database: SqliteDatabase, tellings: list[tuple[int, str, int]]
) -> None:
    at = await stage(sqlite_database, MovableClock())
    refs = [at.memories.add(at.workspace, f"mem_{number}", f"Note {number}.") for number in range(4)]
    facts: set[frozenset[tuple[int, str, int]]] = set()
    for start, name, end in tellings:
        told = frozenset({(start, name, end), (end, inverse(name), start)})
        try:
            await at.relate(refs[start], name, refs[end])
            assert start != end and told not in facts
            facts.add(told)
        except DuplicateRelation:
            assert told in facts
        except Invalid:
            assert start == end
    assert len(await _all(at)) == len(facts)
