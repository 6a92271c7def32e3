"""Owns the proof of the rules of cases, on both stores."""

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.engines.search.model import Query
from holdfast.features.cases.model import (
    CaseFilter,
    CaseNotFound,
    CaseVersionConflict,
    LinkCycle,
    NewCase,
    NewLink,
    Writing,
)
from holdfast.features.cases.service import NotProven
from holdfast.features.cases.states import IllegalMove, State
from holdfast.features.identity.service import local_principal
from holdfast.features.intelligence.model import GraphQuery, NewDecision, NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.cases import CaseStage, case_stage


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> CaseStage:
    return await case_stage(database, clock)


@pytest.mark.contract("ZE-4")
async def test_a_task_goes_one_step_at_a_time_and_keeps_who_moved_it_and_why(at: CaseStage) -> None:
    case = await at.add()
    await at.move(case.id, "PLANNING", "IMPLEMENTING", "VERIFYING", reason="as agreed")
    await at.move(case.id, "IMPLEMENTING", by=at.agent, reason="a test fails")
    detail = await at.cases.detail(at.ada, at.workspace, case.id)
    moves = [(each.from_state, each.to_state, each.actor, each.reason) for each in detail.history if each.from_state]
    assert moves == [
        ("OPEN", "PLANNING", "usr_1", "as agreed"),
        ("PLANNING", "IMPLEMENTING", "usr_1", "as agreed"),
        ("IMPLEMENTING", "VERIFYING", "usr_1", "as agreed"),
        ("VERIFYING", "IMPLEMENTING", "key_1", "a test fails"),
    ]
    assert detail.case.version == 5


async def test_an_illegal_move_names_the_legal_ones(at: CaseStage) -> None:
    task, bug = await at.add(), await at.add("It crashes", kind="bug")
    with pytest.raises(IllegalMove, match=r"a task does not go from OPEN to REPRODUCING|PLANNING, BLOCKED, CANCELLED"):
        await at.move(task.id, "REPRODUCING")
    with pytest.raises(IllegalMove, match="REPRODUCING, BLOCKED, CANCELLED"):
        await at.move(bug.id, "PLANNING")
    with pytest.raises(IllegalMove):
        await at.move(task.id, "DONE")


async def test_a_blocked_case_needs_a_reason_and_goes_back_where_it_was(at: CaseStage) -> None:
    case = await at.add()
    await at.move(case.id, "PLANNING")
    with pytest.raises(Invalid, match="needs a reason"):
        await at.move(case.id, "BLOCKED")
    assert (await at.move(case.id, "BLOCKED", reason="no access")).reason == "no access"
    with pytest.raises(IllegalMove, match="PLANNING, CANCELLED"):
        await at.move(case.id, "IMPLEMENTING")
    back = await at.move(case.id, "PLANNING")
    assert (back.state, back.reason, back.blocked_from) == ("PLANNING", "", None)


async def test_only_a_person_reopens_what_is_done_and_nobody_what_was_cancelled(at: CaseStage) -> None:
    case, other = await at.add(), await at.add("Another")
    await at.move(case.id, "PLANNING", "IMPLEMENTING", "VERIFYING")
    await at.prove(case.id, by=at.ada, kind="word", claim="I looked at it.")
    await at.move(case.id, "DONE")
    with pytest.raises(Forbidden, match="Only a person"):
        await at.move(case.id, "OPEN", by=at.agent)
    assert (await at.move(case.id, "OPEN")).state == "OPEN"
    await at.move(other.id, "CANCELLED", reason="a duplicate")
    with pytest.raises(IllegalMove, match="it is over"):
        await at.move(other.id, "OPEN")


async def test_a_write_from_an_old_version_is_refused(at: CaseStage) -> None:
    case = await at.add()
    await at.move(case.id, "PLANNING", expected_version=1)
    with pytest.raises(CaseVersionConflict, match="version 2, not 1"):
        await at.move(case.id, "IMPLEMENTING", expected_version=1)
    with pytest.raises(CaseVersionConflict):
        await at.cases.edit(at.ada, at.workspace, case.id, {"title": "New"}, Writing(expected_version=1))


@pytest.mark.contract("ZE-5")
async def test_done_says_what_is_missing_and_an_agents_report_does_not_help(at: CaseStage) -> None:
    case = await at.add(criteria=("It opens", "It shuts"))
    await at.move(case.id, "PLANNING", "IMPLEMENTING", "VERIFYING")
    await at.prove(case.id, kind="reported", outcome="passed", criteria=("c1", "c2"))
    with pytest.raises(NotProven, match=r"c1 .It opens.: it is only reported") as refused:
        await at.move(case.id, "DONE", by=at.agent)
    assert len(refused.value.fields) == 2
    with pytest.raises(Forbidden, match="A word is a person's"):
        await at.prove(case.id, kind="word", claim="Trust me")
    await at.prove(case.id, by=at.ada, kind="word", claim="I opened it", criteria=("c1",))
    with pytest.raises(NotProven, match="c2"):
        await at.move(case.id, "DONE")
    await at.prove(case.id, by=at.ada, kind="word", claim="And shut it", criteria=("c2",))
    await at.move(case.id, "DONE", by=at.agent)
    reached = (await at.services.intelligence.milestones.timeline(at.ada, at.workspace)).items
    assert [(each.title, each.type) for each in reached] == [(case.title, "case")]
    brief = await at.services.intelligence.brief(at.ada, at.workspace)
    tied = f"milestone {case.title} — completes → case {case.title}"
    assert tied in [each.title for items in brief.sections.values() for each in items]
    shown = await at.reading.read(at.ada, at.workspace, case.id)
    assert [each.verdict for each in shown.criteria] == ["word", "word"]


async def test_the_milestone_of_a_case_that_is_reopened_no_longer_says_that_it_is_done(at: CaseStage) -> None:
    case = await at.add()
    await at.prove(case.id, by=at.ada, kind="word", claim="I opened it")
    done: tuple[State, ...] = ("PLANNING", "IMPLEMENTING", "VERIFYING", "DONE")
    await at.move(case.id, *done, "OPEN", by=at.ada)
    await at.move(case.id, *done, by=at.ada)
    reached = (await at.services.intelligence.milestones.timeline(at.ada, at.workspace)).items
    assert sorted(each.description for each in reached) == [
        f"{case.id} is done.",
        f"{case.id} was done, and was reopened.",
    ]


async def test_criteria_keep_their_ids_and_a_new_one_never_takes_an_old_ones(at: CaseStage) -> None:
    case = await at.add(criteria=("one", "two"))
    await at.prove(case.id, by=at.ada, kind="word", claim="seen", criteria=("c2",))
    edited = await at.cases.edit(at.ada, at.workspace, case.id, {"criteria": ("three", "one")})
    assert [(each.id, each.text) for each in edited.criteria] == [("c3", "three"), ("c1", "one")]


async def test_what_is_blocked_by_an_open_case_is_not_ready_until_that_is_over(at: CaseStage) -> None:
    first, second = await at.add("First"), await at.add("Second")
    await at.cases.links.link(at.ada, at.workspace, first.id, NewLink("blocks", second.id))
    assert await at.ready() == [first.id]
    with pytest.raises(Conflict, match=first.id):
        await at.claim(second.id)
    await at.move(first.id, "CANCELLED", reason="not needed")
    assert await at.ready() == [second.id]


async def test_ready_goes_by_priority_then_age(at: CaseStage) -> None:
    ids = []
    for title, priority in (("late", 3), ("urgent", 0), ("usual", 2), ("urgent too", 0)):
        at.clock.advance(seconds=1)
        ids.append((await at.add(title, priority=priority)).id)
    late, urgent, usual, urgent_too = ids
    assert await at.ready() == [urgent, urgent_too, usual, late]


async def test_a_circle_of_blockers_is_refused_with_its_path(at: CaseStage) -> None:
    one, two, three = [await at.add(title) for title in ("one", "two", "three")]
    link = at.cases.links.link
    await link(at.ada, at.workspace, one.id, NewLink("blocks", two.id))
    await link(at.ada, at.workspace, two.id, NewLink("blocks", three.id))
    with pytest.raises(LinkCycle) as refused:
        await link(at.ada, at.workspace, three.id, NewLink("blocks", one.id))
    assert refused.value.path == (three.id, one.id, two.id, three.id)
    assert f"{three.id} blocks {one.id} blocks {two.id} blocks {three.id}" in refused.value.message
    with pytest.raises(Invalid):
        await link(at.ada, at.workspace, one.id, NewLink("blocks", one.id))
    with pytest.raises(LinkCycle):
        await at.cases.edit(at.ada, at.workspace, one.id, {"parent": one.id})


async def test_related_cases_are_so_from_either_end(at: CaseStage) -> None:
    one, two = await at.add("one"), await at.add("two")
    for first, second in ((one, two), (two, one)):
        await at.cases.links.link(at.ada, at.workspace, first.id, NewLink("related", second.id))
    shown = await at.reading.read(at.ada, at.workspace, two.id)
    assert [(each.type, each.case_id) for each in shown.links] == [("related", one.id)]
    await at.cases.links.unlink(at.ada, at.workspace, two.id, NewLink("related", one.id))
    assert (await at.reading.read(at.ada, at.workspace, one.id)).links == []


async def test_comments_keep_whom_they_mention_and_are_found(at: CaseStage) -> None:
    case = await at.add("Gate")
    comment = await at.cases.comment(at.agent, at.workspace, case.id, "@ada see hinges@home, and @bob.")
    assert comment.mentions == ("ada", "bob")
    hits = await at.services.search.search(Query(at.workspace, "hinges", frozenset({"case"})))
    assert [hit.id for hit in hits] == [case.id]


async def test_a_case_of_another_tenant_is_not_found(at: CaseStage) -> None:
    case = await at.add()
    identity, workspaces = at.services.identity, at.services.workspaces
    stranger = local_principal((await identity.create_organization(at.ada, "Other")).id)
    project = await identity.create_project(stranger, "Other")
    place = (await workspaces.create(stranger, project.id, "Other")).id
    for workspace in (None, place):
        with pytest.raises(CaseNotFound):
            await at.cases.get(stranger, workspace, case.id)
    with pytest.raises(NotFound):
        await at.cases.get(stranger, at.workspace, case.id)
    theirs = await at.cases.add(stranger, place, NewCase(title="Theirs"))
    with pytest.raises(CaseNotFound):
        await at.cases.links.link(at.ada, at.workspace, case.id, NewLink("blocks", theirs.id))
    with pytest.raises(CaseNotFound):
        await at.add("Part", parent=theirs.id)


async def test_labels_narrow_the_list_exactly(at: CaseStage) -> None:
    case = await at.add("one", labels=("100%", "a_b"))
    await at.add("two", labels=("1000", "axb"))
    for label in ("100%", "a_b"):
        page = await at.cases.page(at.ada, at.workspace, CaseFilter(label=label))
        assert [each.id for each in page.items] == [case.id]


async def test_blocked_cases_are_blockers_in_the_brief_and_cases_are_in_the_graph(at: CaseStage) -> None:
    case = await at.add("Paint the fence")
    await at.move(case.id, "BLOCKED", reason="the paint is not here")
    decided = await at.services.intelligence.decisions.track(at.ada, at.workspace, NewDecision(title="Use green paint"))
    relation = NewRelation(Ref("case", case.id), Ref("decision", decided.id), "depends_on")
    await at.services.intelligence.relations.relate(at.ada, at.workspace, relation)
    brief = await at.services.intelligence.brief(at.ada, at.workspace)
    assert any(item.id == case.id for item in brief.sections["blockers"])
    assert "the paint is not here" in brief.markdown
    graph = await at.services.intelligence.graph(
        at.ada, at.workspace, GraphQuery(types=frozenset({"case", "decision"}))
    )
    assert {node.id for node in graph.nodes} == {case.id, decided.id}
    assert [(edge.start.id, edge.end.id) for edge in graph.edges] == [(case.id, decided.id)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"title": "  "}, "title"),
        ({"title": "x" * 301}, "title"),
        ({"title": "x", "priority": 5}, "priority"),
        ({"title": "x", "criteria": ("a", "a")}, "criteria[1]"),
        ({"title": "x", "criteria": ("",)}, "criteria[0]"),
        ({"title": "x", "labels": ('"',)}, "labels"),
        ({"title": "x", "head_commit": "0" * 40}, "repository"),
        ({"title": "x", "repository": "nowhere"}, "repository"),
        ({"title": "x", "environment": "nowhere"}, "environment"),
    ],
)
async def test_bad_fields_are_named(at: CaseStage, fields: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        await at.add(**fields)  # type: ignore[arg-type]
    assert refused.value.fields[0].field == field


async def test_the_knowledge_graph_has_what_a_case_blocks_and_what_it_is_part_of(at: CaseStage) -> None:
    whole = await at.add("Whole")
    part = await at.add("Part", parent=whole.id)
    other = await at.add("Other", links=(NewLink("blocks", part.id),))
    far = await at.add("Far", links=(NewLink("related", other.id),))
    await at.add("Not tied")
    graph = at.services[IntelligenceService].graph
    near = await graph(at.ada, at.workspace, GraphQuery(centre=part.id, depth=1))
    assert {node.title for node in near.nodes} == {"Part", "Whole", "Other"}
    assert {(edge.start.id, edge.relation, edge.end.id) for edge in near.edges} == {
        (part.id, "part_of", whole.id),
        (other.id, "blocks", part.id),
    }
    wider = await graph(at.ada, at.workspace, GraphQuery(centre=part.id, depth=2))
    assert (far.id, "related_to", other.id) in {(edge.start.id, edge.relation, edge.end.id) for edge in wider.edges}
    every = await graph(at.ada, at.workspace, GraphQuery(types=frozenset({"case"})))
    assert len(every.nodes) == 5 and len(every.edges) == 3
