"""Proves that exports carry the records of collections with the edges between them, and that no file smuggles one."""

import json

import pytest

from holdfast.engines.search.model import Query
from holdfast.features.collections.model import NewRecord
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
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


async def _texts_and_vectors(stage: CaseStage) -> None:
    vectors, by, workspace = stage.services[VectorCollections], stage.agent, stage.workspace
    for number in range(45):
        text, said = f"Harbour note {number} é\u2028", {"lang": "de", "z": [number, None], "a": {"b": 1.5}}
        await vectors.upsert(
            by, workspace, f"Z/{number}", text=text, metadata=said, collection="notes", session_id="s-1"
        )
    for id in ("é", "b", "A"):
        vector = [0.25, -1.0, ord(id[0]) / 100]
        await vectors.upsert(by, workspace, id, vector=vector, metadata={"of": id}, collection="points")
    stage.clock.advance(seconds=7)


async def test_texts_and_vectors_of_collections_come_back_as_they_were(stage: CaseStage) -> None:
    await _texts_and_vectors(stage)
    vectors = stage.services[VectorCollections]
    exported = await _export(stage, stage.workspace)
    assert [path for path in exported if path.startswith("vectors/")] == ["vectors/000001.md", "vectors/000002.md"]
    other = await _other(stage, "Other")
    report = await _bring(stage, other, exported)
    assert not report.problems and report.created == {"vector": 48}
    assert await _export(stage, other) == exported
    for place in (other, stage.workspace):
        again = await _bring(stage, place, exported)
        assert (again.created, again.unchanged, again.problems) == ({}, 48, [])
    for words in ({"text": "Harbour note 7"}, {"vector": [0.2, -1.0, 0.9]}):
        name = "notes" if "text" in words else "points"
        was, now = [
            await vectors.search(stage.ada, each, collection=name, top_k=3, **words)
            for each in (stage.workspace, other)
        ]
        assert len(now) == 3 and now == was
    await vectors.upsert(stage.agent, other, "b", vector=[1.0, 0.0, 0.0], collection="points")
    later = await _bring(stage, other, exported)
    assert [each.reason for each in later.problems] == ["it is here already and differs; it was left as it is"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"collection": "points"', '"collection": "Poi/nts"', "small letters"),
        ('"collection": "points"', '"collection": "notes"', "holds texts"),
        ('"text": "Harbour note 1 ', '"vector": "AAA=", "text": "Harbour note 1 ', "either vector or text"),
        ('"vector": "', '"vector": "!', "halves in base64"),
        ('"vector": "', '"vector": "AA', "halves in base64"),
        ('"lang": "de"', '"lang": "ghp_' + "a1B2" * 9 + '"', "credential"),
    ],
)
async def test_a_vector_that_was_tampered_with_is_left_out_with_its_reason(
    stage: CaseStage, old: str, new: str, why: str
) -> None:
    await _texts_and_vectors(stage)
    exported = await _export(stage, stage.workspace)
    edited = {path: data.replace(old.encode(), new.encode()) for path, data in exported.items()}
    assert edited != exported
    report = await _bring(stage, await _other(stage, "Other"), edited)
    assert report.problems and {why in each.reason for each in report.problems} == {True}, report.problems
