"""Proves that exports carry the records of collections with the edges between them, and that no file smuggles one."""

import json

import pytest

from holdfast.engines.search.model import Query
from holdfast.features.collections.model import NewRecord
from holdfast.features.collections.service import GraphRecords
from holdfast.features.interchange.model import Report, SourceFile
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.memory.model import NewMemory
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.cases import CaseStage, case_stage


@pytest.fixture
async def stage(database: Database, clock: MovableClock) -> CaseStage:
    return await case_stage(database, clock)


async def _other(stage: CaseStage, name: str) -> str:
    home = await stage.services[Workspaces].get(stage.ada, stage.workspace)
    return (await stage.services[Workspaces].create(stage.ada, home.project_id, name)).id


async def _export(stage: CaseStage, workspace_id: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    await stage.services[InterchangeService].export(stage.ada, workspace_id, files.__setitem__)
    return files


async def _bring(stage: CaseStage, workspace_id: str, files: dict[str, bytes]) -> Report:
    sources = [SourceFile(path, data) for path, data in sorted(files.items())]
    return await stage.services[InterchangeService].import_files(stage.ada, workspace_id, sources)


async def _lived_in(stage: CaseStage) -> list[str]:
    """Two records of two collections, an edge with properties, and one to a memory."""
    graph, by, workspace = stage.services[GraphRecords], stage.agent, stage.workspace
    data = {"name": "Ada é\u2028", "skills": ["maths", {"level": 1.5}], "left": False, "id": "ada"}
    ada, _ = await graph.write(
        by,
        workspace,
        NewRecord(type="person", data=data, collection="people", confidence=0.25, source="a letter", session_id="s-1"),
    )
    stage.clock.advance(seconds=7)
    firm, _ = await graph.write(by, workspace, NewRecord(type="company", data={"name": "Analytical"}))
    await graph.relate(by, workspace, ada.id, "works at", firm.id, collection="jobs", properties={"since": 1843})
    saved = await stage.services.memory.save(stage.ada, workspace, NewMemory("Ada wrote the first program."))
    assert saved.memory is not None
    await graph.relate(by, workspace, ada.id, "told_in", saved.memory.id)
    return [ada.id, firm.id]


async def test_records_come_out_of_another_workspace_as_they_went_into_the_export(stage: CaseStage) -> None:
    ada, _ = await _lived_in(stage)
    graph = stage.services[GraphRecords]
    exported = await _export(stage, stage.workspace)
    assert sum(path.startswith("records/") for path in exported) == 2
    other = await _other(stage, "Other")
    report = await _bring(stage, other, exported)
    assert not report.problems and (report.created["record"], report.created["relation"]) == (2, 2)
    assert await _export(stage, other) == exported
    was = await graph.get(stage.ada, stage.workspace, ada)
    page = await graph.records(stage.ada, other, type="person", collection="people", limit=5, cursor=None)
    now = page.items[0]
    assert now.id != ada and (now.data, now.title, now.confidence, now.source, now.author, now.session_id) == (
        was.data,
        was.title,
        0.25,
        "a letter",
        stage.agent.actor,
        "s-1",
    )
    found = await graph.query(stage.ada, other, "find person -> works_at company")
    assert [each.title for each in found.found] == ["company Analytical"]
    assert [dict(each.properties) for each in found.edges] == [{"since": 1843}]
    hits = await stage.services.search.search(Query(other, "maths", types=frozenset({"record"})))
    assert [hit.id for hit in hits] == [now.id]
    held = {each.name: (each.records, each.edges) for each in await graph.collections(stage.ada, other)}
    assert held == {"people": (1, 0), "default": (1, 1), "jobs": (0, 1)}


async def test_bringing_records_in_again_changes_nothing_and_says_what_differs(stage: CaseStage) -> None:
    await _lived_in(stage)
    exported = await _export(stage, stage.workspace)
    other = await _other(stage, "Other")
    await _bring(stage, other, exported)
    for place in (other, stage.workspace):
        again = await _bring(stage, place, exported)
        assert (again.created, again.updated, again.problems) == ({}, 0, [])
        assert await _export(stage, place) == exported
    graph = stage.services[GraphRecords]
    firm = (await graph.records(stage.ada, other, type="company", collection=None, limit=5, cursor=None)).items[0]
    await graph.write(stage.ada, other, NewRecord(type="company", data={"id": firm.id, "name": "Engines"}))
    later = await _bring(stage, other, exported)
    assert [each.reason for each in later.problems] == ["it is here already and differs; it was left as it is"]
    assert (await graph.get(stage.ada, other, firm.id)).data["name"] == "Engines"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('type: "person"', 'type: "no type"', "letters, digits"),
        ('collection: "people"', 'collection: "Peo/ple"', "small letters"),
        ("confidence: 0.25", "confidence: 7", "confidence"),
        ("confidence: 0.25", 'confidence: "much"', "confidence is not a number"),
        ('"maths"', json.dumps("ghp_" + "a1B2" * 9), "credential"),
        ('"left": false', '"le\\u0000ft": false', "remove NUL"),
    ],
)
async def test_a_record_that_was_tampered_with_is_left_out_with_its_reason(
    stage: CaseStage, old: str, new: str, why: str
) -> None:
    await _lived_in(stage)
    exported = await _export(stage, stage.workspace)
    edited = {
        path: data.replace(old.encode(), new.encode())
        for path, data in exported.items()
        if path.startswith("records/person")
    }
    assert edited and next(iter(edited.values())) != exported[next(iter(edited))]
    other = await _other(stage, "Other")
    report = await _bring(stage, other, edited)
    assert report.created == {} and why in report.problems[0].reason
    assert not (await stage.services[GraphRecords].collections(stage.ada, other))
