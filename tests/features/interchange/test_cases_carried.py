"""Proves that exports carry cases with all that was said of them, and that no file forges a result."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from holdfast.core.principal import Principal
from holdfast.engines.search.model import Query
from holdfast.features.cases import store
from holdfast.features.cases.model import CaseFilter, NewLink
from holdfast.features.cases.proofs import store as proof_store
from holdfast.features.cases.service import CaseService
from holdfast.features.intelligence.model import NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.model import Report, SourceFile
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.memory.model import NewMemory
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.cases import CaseStage, case_stage, seen_to_pass

DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Carrying:
    """The cases' stage, with a second workspace to carry them to."""

    stage: CaseStage
    other: str

    async def export(self, workspace_id: str) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        await self.stage.services[InterchangeService].export(self.stage.ada, workspace_id, files.__setitem__)
        return files

    async def bring(self, workspace_id: str, files: dict[str, bytes], by: Principal | None = None) -> Report:
        sources = [SourceFile(path, data) for path, data in sorted(files.items())]
        return await self.stage.services[InterchangeService].import_files(by or self.stage.ada, workspace_id, sources)

    async def titled(self, workspace_id: str, title: str) -> Any:
        cases = self.stage.services[CaseService]
        found = await cases.page(self.stage.ada, workspace_id)
        one = next(each for each in found.items if each.title == title)
        return await cases.detail(self.stage.ada, workspace_id, one.id)


@pytest.fixture
async def carrying(database: Database, clock: MovableClock) -> Carrying:
    stage = await case_stage(database, clock)
    home = await stage.services[Workspaces].get(stage.ada, stage.workspace)
    other = await stage.services[Workspaces].create(stage.ada, home.project_id, "Other")
    return Carrying(stage, other.id)


async def _lived_in(stage: CaseStage) -> None:
    """Cases in all sorts of states."""
    roof = await stage.add(
        "Mend the roof",
        body="It rains in.\n\n---\n# Not a heading of ours\n",
        kind="bug",
        priority=0,
        criteria=("No drop falls", 'It says "dry"'),
        labels=("roof", "é"),
        assignee="Ada",
        due_at=stage.clock.now() + 3 * DAY,
        source="acme/shop#12",
    )
    stage.clock.advance(seconds=5)
    paint = await stage.add("Paint it", parent=roof.id, links=(NewLink("discovered_from", roof.id),))
    held = await stage.add("Sweep", links=(NewLink("related", paint.id),))
    await stage.cases.links.link(stage.ada, stage.workspace, roof.id, NewLink("blocks", held.id))
    await stage.cases.comment(stage.ada, stage.workspace, roof.id, "Look, @agent: it drips")
    await stage.cases.comment(stage.agent, stage.workspace, roof.id, "I do")
    await stage.move(roof.id, "REPRODUCING", reason="seen")
    await stage.prove(roof.id, by=stage.agent, kind="reported", outcome="failed", criteria=("c1",), claim="wet")
    await stage.prove(roof.id, by=stage.ada, kind="word", claim="I stood there", criteria=("c2",))
    await stage.claim(roof.id)
    await stage.move(paint.id, "BLOCKED", reason="no paint")
    done = await stage.add("Done already")
    await stage.prove(done.id, by=stage.ada, kind="word", claim="I did it")
    await stage.move(done.id, "PLANNING", "IMPLEMENTING", "VERIFYING", "DONE")
    await stage.move(done.id, "OPEN", reason="not quite")
    await stage.move((await stage.add("Not wanted")).id, "CANCELLED", reason="no")
    saved = await stage.services.memory.save(stage.ada, stage.workspace, NewMemory("The roof is of slate."))
    assert saved.memory is not None
    tie = NewRelation(Ref("memory", saved.memory.id), Ref("case", roof.id), "informs", "why")
    await stage.services[IntelligenceService].relations.relate(stage.ada, stage.workspace, tie)


async def test_cases_come_out_of_another_workspace_as_they_went_into_the_export(carrying: Carrying) -> None:
    stage = carrying.stage
    await _lived_in(stage)
    exported = await carrying.export(stage.workspace)
    assert sum(path.startswith("cases/") for path in exported) == 5
    report = await carrying.bring(carrying.other, exported)
    assert not report.problems and report.created["case"] == 5
    assert await carrying.export(carrying.other) == exported
    was, now = (
        await carrying.titled(stage.workspace, "Mend the roof"),
        await carrying.titled(carrying.other, "Mend the roof"),
    )
    same = {"id": now.case.id, "workspace_id": carrying.other}
    assert replace(was.case, **same) == now.case and was.case.id != now.case.id
    assert (now.claim.holder, now.claim.fence) == (stage.agent.actor, 1)
    assert [each.text for each in now.comments] == [each.text for each in was.comments]
    assert [each.action for each in now.history] == [each.action for each in was.history]
    # What names a case, a comment or a proof in the history names the one that is here.
    told = next(each.detail for each in now.history if each.action == "comment")
    assert told["comment_id"] == now.comments[0].id != was.comments[0].id
    sweep = await carrying.titled(carrying.other, "Sweep")
    assert sweep.blocked_by == (now.case.id,)
    paint = await carrying.titled(carrying.other, "Paint it")
    assert (paint.case.parent, paint.case.state, paint.case.blocked_from) == (now.case.id, "BLOCKED", "OPEN")
    # It is worked on there as any other: the fence counts on, what is ready is counted anew.
    renewed = await stage.cases.claims.release(stage.agent, carrying.other, now.case.id, 1)
    assert renewed.version == now.case.version + 1
    ready = await stage.cases.claims.ready(stage.ada, carrying.other)
    assert sweep.case.id not in [each.id for each in ready]
    found = await stage.services.search.search(Query(carrying.other, "drips", types=frozenset({"case"}), limit=5))
    assert [hit.id for hit in found] == [now.case.id]


async def test_bringing_cases_in_again_changes_nothing_and_says_what_differs(carrying: Carrying) -> None:
    stage = carrying.stage
    await _lived_in(stage)
    exported = await carrying.export(stage.workspace)
    await carrying.bring(carrying.other, exported)
    for place in (carrying.other, stage.workspace):
        again = await carrying.bring(place, exported)
        assert (again.created, again.updated, again.problems) == ({}, 0, [])
        assert await carrying.export(place) == exported
    roof = await carrying.titled(carrying.other, "Mend the roof")
    await stage.cases.edit(stage.ada, carrying.other, roof.case.id, {"body": "It is dry."})
    later = await carrying.bring(carrying.other, exported)
    assert [each.reason for each in later.problems] == ["it is here already and differs; it was left as it is"]
    assert (await carrying.titled(carrying.other, "Mend the roof")).case.body == "It is dry."


async def test_results_of_runs_stay_with_the_server_that_saw_them(carrying: Carrying) -> None:
    stage = carrying.stage
    case = await stage.add("Sum", criteria=("1 and 2 make 3",), head_commit=None)
    proof, run = seen_to_pass(case, "a" * 40)

    def work(tx: Any) -> None:
        proof_store.add(tx, proof)
        proof_store.put_run(tx, run)

    await stage.services.database.write(work)
    exported = await carrying.export(stage.workspace)
    assert not any(b"1 passed" in data for data in exported.values())
    await carrying.bring(carrying.other, exported)
    there = await carrying.titled(carrying.other, "Sum")
    _, proven = await stage.proofs.of_case(stage.ada, carrying.other, there.case.id)
    assert [(each.verdict, each.runs) for each in proven] == [("unrun", ())]
    assert proven[0].proof.command == proof.command and proven[0].proof.tests == proof.tests


async def test_an_agent_brings_in_no_finished_work_no_word_and_nobody_elses_claim(carrying: Carrying) -> None:
    stage = carrying.stage
    await _lived_in(stage)
    done = await stage.add("Finished")
    await stage.prove(done.id, by=stage.ada, kind="word", claim="I did it")
    await stage.move(done.id, "PLANNING", "IMPLEMENTING", "VERIFYING", "DONE")
    sweep = await carrying.titled(stage.workspace, "Sweep")
    await stage.cases.links.unlink(
        stage.ada,
        stage.workspace,
        (await carrying.titled(stage.workspace, "Mend the roof")).case.id,
        NewLink("blocks", sweep.case.id),
    )
    await stage.claim(sweep.case.id, by=stage.another(7))
    exported = {path: data for path, data in (await carrying.export(stage.workspace)).items() if path[:6] == "cases/"}
    report = await carrying.bring(carrying.other, exported, by=stage.agent)
    assert report.created["case"] == 3
    words = [each.reason for each in report.problems if "only an owner or an admin" in each.reason]
    assert len(words) == 3
    there = await carrying.titled(carrying.other, "Sweep")
    assert (there.claim, there.case.author, {each.actor for each in there.history}) == (
        None,
        stage.agent.actor,
        {stage.agent.actor},
    )


def _edited(files: dict[str, bytes], old: str, new: str) -> dict[str, bytes]:
    return {path: data.replace(old.encode(), new.encode()) for path, data in files.items()}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"kind": "reported"', '"kind": "run"', "only our runner says"),
        ('"id": "c2"', '"id": "c1"', "two of its criteria have one id"),
        ("priority: 0", "priority: 9", "from 0, the most urgent"),
        ('state: "REPRODUCING"', 'state: "BLOCKED"', "blocked_from does not fit"),
        ('"outcome": "failed"', '"outcome": "great"', "outcome is not one of"),
        ('"expected_exit": 0', '"expected_exit": 999', "from 0 to 255"),
        ("It rains in.", "ghp_" + "a1B2" * 9, "credential"),
        ('"detail": {"title"', '"detail": 5, "x": {"title"', "detail is not a record"),
    ],
)
async def test_a_case_that_was_tampered_with_is_left_out_with_its_reason(
    carrying: Carrying, old: str, new: str, why: str
) -> None:
    stage = carrying.stage
    await _lived_in(stage)
    exported = await carrying.export(stage.workspace)
    roof = {path: data for path, data in exported.items() if path.startswith("cases/mend-the-roof")}
    edited = _edited(roof, old, new)
    assert edited != roof
    report = await carrying.bring(carrying.other, edited)
    assert why in report.problems[0].reason and "case" not in report.created
    cases = stage.services[CaseService]
    assert not (await cases.page(stage.ada, carrying.other)).items


async def test_files_that_tie_cases_in_a_circle_or_to_none_are_named_and_the_rest_comes_in(carrying: Carrying) -> None:
    stage = carrying.stage
    one = await stage.add("One")
    two = await stage.add("Two", links=(NewLink("blocks", one.id),), parent=one.id)
    exported = await carrying.export(stage.workspace)
    path = next(path for path in exported if path.startswith("cases/one"))
    exported[path] = exported[path].replace(
        b"history:", f'parent: "{two.id}"\nlinks:\n  - {{"type": "blocks", "case_id": "{two.id}"}}\nhistory:'.encode()
    )
    report = await carrying.bring(carrying.other, exported)
    assert report.created["case"] == 2
    assert any("circle" in each.reason for each in report.problems)
    alone = {path: data for path, data in exported.items() if path.startswith("cases/two")}
    third = await stage.services[Workspaces].create(
        stage.ada, (await stage.services[Workspaces].get(stage.ada, stage.workspace)).project_id, "Third"
    )
    report = await carrying.bring(third.id, alone)
    assert report.created == {"case": 1} and "which is not here" in report.problems[0].reason
    rows = await stage.services.database.read(lambda tx: store.page(tx, [third.id], CaseFilter(), 5))
    assert [each.parent for each in rows] == [None]
