"""Proves that exports carry documents, that they come back as they were, and that broken ones are refused by name."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.jobs import JobEngine
from holdfast.features.documents.ingest import KIND, Ingestion
from holdfast.features.interchange import export
from holdfast.features.interchange.formats.places import folder_files, folder_sink
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.interchange import InterchangeWorld, interchange_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> InterchangeWorld:
    return await interchange_world(database, clock)


async def _bytes(world: InterchangeWorld, workspace_id: str, document_id: str) -> bytes:
    parts = [part async for part in world.documents.content(world.person, workspace_id, document_id)]
    return b"".join(parts)


async def test_a_document_comes_back_with_its_bytes_its_name_and_who_uploaded_it(world: InterchangeWorld) -> None:
    first, second = world.base.workspace_ids
    sent = await world.upload(first, "Plan für 2027.txt", b"The ferry leaves at noon. " + b"x " * 600_000)
    odd = await world.upload(first, "read/me.md", b"# Not a memory\n\nBut a document.")
    files = await world.export(first)
    assert any(path.endswith("/content/plan-fur-2027.txt") for path in files)
    report = await world.bring(second, files)
    assert (report.created, report.problems) == ({"document": 2}, [])
    page = await world.documents.page(world.person, second)
    found = {each.filename: each for each in page.items}
    there = found["Plan für 2027.txt"]
    assert (there.sha256, there.created_by, there.created_by_name, there.created_at) == (
        sent.sha256,
        sent.created_by,
        sent.created_by_name,
        sent.created_at,
    )
    assert there.state == "queued" and there.id != sent.id
    assert await _bytes(world, second, there.id) == await _bytes(world, first, sent.id)
    assert await _bytes(world, second, found["me.md"].id) == await _bytes(world, first, odd.id)


async def test_a_document_deleted_since_comes_back_under_its_own_id(world: InterchangeWorld) -> None:
    sent = await world.upload(world.base.ws, "notes.txt", b"The ferry leaves at noon.")
    files = await world.export(world.base.ws)
    await world.documents.delete(world.person, world.base.ws, sent.id)
    assert (await world.bring(world.base.ws, files)).created == {"document": 1}
    again = await world.documents.get(world.person, world.base.ws, sent.id)
    assert (again.filename, again.sha256) == (sent.filename, sent.sha256)
    assert (await world.bring(world.base.ws, files)).unchanged == 1


async def test_a_large_document_is_several_files_and_one_document(
    world: InterchangeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "CONTENT_BYTES", 1_500_000)
    first, second = world.base.workspace_ids
    sent = await world.upload(first, "large.txt", b"0123456789abcdef" * 300_000)
    files = await world.export(first)
    assert sum("/content/" in path for path in files) == 5
    assert (await world.bring(second, files)).created == {"document": 1}
    (there,) = (await world.documents.page(world.person, second)).items
    assert there.sha256 == sent.sha256
    assert await world.export(second) == files


async def test_bytes_that_were_changed_or_lost_are_named_and_the_rest_comes_in(world: InterchangeWorld) -> None:
    first, second = world.base.workspace_ids
    for name in ("one.txt", "two.txt", "three.txt"):
        await world.upload(first, name, f"This is {name}.".encode())
    files = await world.export(first)
    changed = next(path for path in files if path.endswith("one.txt"))
    lost = next(path for path in files if path.endswith("two.txt"))
    orphan = next(path for path in files if path.endswith("/content/three.txt"))
    broken = {**files, changed: b"Something else."}
    del broken[lost]
    report = await world.bring(second, broken)
    assert report.created == {"document": 1}
    assert [problem.reason for problem in report.problems] == [
        "its bytes are missing, or are not those that were exported"
    ] * 2
    alone = await world.bring(second, {orphan.replace("three.txt", "three.pdf"): b"%PDF"})
    assert [problem.reason for problem in alone.problems] == ["it is part of a document whose about.md is missing"]
    assert (await world.bring(second, files)).created == {"document": 2}


async def test_what_a_member_brings_in_is_theirs(world: InterchangeWorld) -> None:
    first, second = world.base.workspace_ids
    await world.upload(first, "notes.txt", b"The ferry leaves at noon.")
    member = replace(world.person, actor="usr_bob", role="member", name="Bob")
    await world.bring(second, await world.export(first), member)
    (there,) = (await world.documents.page(world.person, second)).items
    assert (there.created_by, there.created_by_name) == ("usr_bob", "Bob")


async def test_a_renewed_export_leaves_no_bytes_of_a_document_that_is_gone(
    world: InterchangeWorld, tmp_path: Path
) -> None:
    sent = await world.upload(world.base.ws, "notes.txt", b"The ferry leaves at noon.")
    await world.interchange.export(world.person, world.base.ws, folder_sink(tmp_path / "out", replace=False))
    files = {file.path: file.data for file in folder_files(tmp_path / "out")}
    assert files == await world.export(world.base.ws)
    await world.documents.delete(world.person, world.base.ws, sent.id)
    await world.interchange.export(world.person, world.base.ws, folder_sink(tmp_path / "out", replace=True))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.slow
async def test_a_document_that_came_back_is_read_and_found(database: Database) -> None:
    world = await interchange_world(database, MovableClock())
    first, second = world.base.workspace_ids
    await world.upload(first, "notes.txt", b"The ferry leaves at noon.")
    await world.bring(second, await world.export(first))
    jobs = JobEngine(database, world.base.events)
    ingestion = Ingestion(database, world.base.search, world.base.events, ExtractEngine(None), world.base.clock)
    jobs.handle(KIND, ingestion.run)
    (there,) = (await world.documents.page(world.person, second)).items
    running = asyncio.create_task(jobs.run())
    try:
        await jobs.wait(there.job_id, timeout_seconds=120)
    finally:
        await jobs.stop()
        await running
    assert (await world.documents.get(world.person, second, there.id)).state == "ready"
    passages = await world.documents.search(world.person, second, "ferry")
    assert [each.filename for each in passages] == ["notes.txt"]
