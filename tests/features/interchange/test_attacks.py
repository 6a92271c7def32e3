"""Owns the proof that no import file stops the server, forges whose words it holds, or reaches another workspace."""

import io
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid
from holdfast.features.interchange.formats import data_files
from holdfast.features.interchange.formats.places import archive_files, folder_files, folder_sink
from holdfast.features.interchange.model import SourceFile
from holdfast.features.memory.model import Filters, NewMemory
from holdfast.storage.database import Database, Row, Tx
from tests.support.attacks.hostile_imports import ATTACKS, Attack, bomb, crowded, line, memory, odd_archive, own
from tests.support.clock import MovableClock
from tests.support.features.interchange import InterchangeWorld, interchange_world


def _rows(sql: str, tx: Tx) -> list[Row]:
    return tx.all(sql)


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> InterchangeWorld:
    return await interchange_world(database, clock, workspaces=2)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_a_hostile_file_is_refused_or_harmless_and_the_good_one_beside_it_comes_in(
    world: InterchangeWorld, attack: Attack
) -> None:
    report = await world.bring(world.base.ws, attack.files() | {"zz.md": b"The bridge has nine arches."})
    assert report.created.get("memory", 0) >= 1
    if attack.told:
        assert any(attack.told in each.reason for each in report.problems), report.problems
    else:
        assert not report.problems
    assert all(each.isprintable() for problem in report.problems for each in (problem.file, problem.reason))
    page = await world.base.memory.list(world.person, world.base.ws, Filters(), limit=200)
    assert "The bridge has nine arches." in {each.content for each in page.items}
    assert await world.export(world.base.ws)


async def test_links_devices_and_names_that_climb_are_only_names(world: InterchangeWorld, tmp_path: Path) -> None:
    path = tmp_path / "odd.zip"
    path.write_bytes(odd_archive())
    report = await world.interchange.import_files(world.person, world.base.ws, folder_files(path))
    reasons = {each.file: each.reason for each in report.problems}
    assert {name for name, reason in reasons.items() if "link or a device" in reason} == {
        "link.md",
        "device.md",
        "pipe.md",
    }
    assert "damaged" in reasons["zz-broken.md"]
    assert "password" in reasons["zz-locked.md"]
    assert "plain ZIP" in reasons["packed.md"]
    assert report.created == {"memory": 4}
    page = await world.base.memory.list(world.person, world.base.ws, Filters(), limit=200)
    assert all(each.isprintable() for memory in page.items for each in (memory.source, memory.title))
    left = {each.name for each in tmp_path.iterdir() if "holdfast.db" not in each.name}
    # On SQLite the store has its lock there.
    assert left - {"writer.lock"} == {"odd.zip"}


def test_a_bomb_is_never_held_whole() -> None:
    sizes = [len(file.data) for file in archive_files(io.BytesIO(bomb()))]
    assert max(sizes) <= 8 * 1024 * 1024 + 1


def test_an_archive_with_too_long_a_list_of_files_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(Invalid, match="too many files"):
        next(archive_files(io.BytesIO(crowded())))


async def test_only_so_many_things_come_in_at_once(world: InterchangeWorld) -> None:
    lines = b"".join(line(memory=f"House {number} stands on the hill.") for number in range(30))
    files = [SourceFile("a.jsonl", lines)]
    report = await world.interchange.import_files(world.person, world.base.ws, files, most=20)
    assert report.created == {"memory": 20}
    assert "one import takes 20 things" in report.problems[0].reason


async def test_a_long_list_is_read_record_by_record(world: InterchangeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "MAX_WHOLE", 10)
    for start, end in ((b"[", b"]"), (b'{"results": [', b"]}"), (b' {\n"memories":[ ', b" ] }")):
        records = b" ,\n".join(line(memory=f"Boat {n} of {start.hex()} lies in the harbour.").strip() for n in range(3))
        report = await world.bring(world.base.ws, {"a.json": start + records + end})
        assert (report.created, report.problems) == ({"memory": 3}, [])
    report = await world.bring(world.base.ws, {"a.json": b'[{"memory": "The ferry is late."}, {"memory": oh no}]'})
    assert report.created == {"memory": 1} and "record 2" in report.problems[0].reason


async def test_another_workspaces_rows_are_neither_changed_nor_tied_to(world: InterchangeWorld) -> None:
    """Ids of another's rows, in every place of a file that takes one, come to mean rows of one's own."""
    mine, theirs = world.base.workspace_ids
    await world.base.memory.save(world.person, theirs, NewMemory("Their pump runs at noon"))
    victim = (await world.base.memory.list(world.person, theirs, Filters(), limit=5)).items[0]
    before = await world.export(theirs)
    moment = "2026-01-01T00:00:00.000Z"
    told = {
        "holdfast": "decision",
        "status": "accepted",
        "decided_at": moment,
        "created_at": moment,
        "updated_at": moment,
    }
    there: dict[str, object] = {"type": "memory", "id": victim.id}
    ties: list[dict[str, object]] = [
        {"id": f"rel_{number:032}", "from": start, "to": there, "relation": "relates_to", "created_at": moment}
        for number, start in enumerate((there, {"type": "document", "id": victim.id}))
    ]
    files = {
        "a.md": memory(id=victim.id, slug=victim.slug, title="Taken over", superseded_by=None),
        "b.md": memory("Another pump.", id="mem_" + "b" * 32, slug="b", status="superseded", superseded_by=victim.id),
        "c.md": own({**told, "id": "dec_" + "c" * 32, "title": "c", "supersedes": victim.id}, "c"),
        "d.md": own({**told, "id": victim.id, "title": "d", "superseded_by": victim.id}, "d"),
        "e.md": own({"holdfast": "relations", "relations": ties}, ""),
    }
    await world.bring(mine, files, principal=world.base.agent)
    assert await world.export(theirs) == before
    tables = ("memory", "decision", "milestone", "artifact", "relation")
    for table in tables:
        rows = await world.base.database.read(partial(_rows, f"SELECT * FROM {table}"))
        for row in (dict(row) for row in rows if row["workspace_id"] == mine):
            assert victim.id not in row.values(), table


@pytest.mark.parametrize("who", ["agent", "member"])
async def test_nobody_but_an_admin_imports_words_as_somebody_elses(world: InterchangeWorld, who: str) -> None:
    moment = "2026-01-01T00:00:00.000Z"
    forged: dict[str, object] = {
        "author": "usr_owner",
        "author_name": "The Owner",
        "created_at": moment,
        "updated_at": moment,
    }
    memory_id, decision_id = "mem_" + "a" * 32, "dec_" + "b" * 32
    revision = {"revision": 1, "title": "t", "content": "The pump ran by day.", "category": "fact"}
    history = [{**revision, "written_at": moment, "editor": "usr_owner"}]
    decision: dict[str, object] = {
        "holdfast": "decision",
        "id": decision_id,
        "title": "b",
        "status": "accepted",
        "decided_at": moment,
    }
    milestone: dict[str, object] = {"holdfast": "milestone", "id": "mil_" + "c" * 32, "title": "c", "type": "release"}
    artifact: dict[str, object] = {
        "holdfast": "artifact",
        "id": "art_" + "d" * 32,
        "identifier": "plan",
        "title": "Plan",
    }
    artifact |= {"type": "text/markdown", "version": 1, "versions": 1, "created_by": "system", "written_at": moment}
    ends = {"from": {"type": "memory", "id": memory_id}, "to": {"type": "decision", "id": decision_id}}
    tie = {"id": "rel_" + "e" * 32, "relation": "relates_to", "author": "system", "created_at": moment, **ends}
    files = {
        "a.md": memory(id=memory_id, revision=2, history=history, author="system", author_name="System"),
        "b.md": own({**decision, **forged}, "b"),
        "c.md": own({**milestone, "occurred_at": moment, **forged}, "c"),
        "d.md": own({**artifact, **forged}, "The plan."),
        "e.md": own({"holdfast": "relations", "relations": [tie]}, ""),
    }
    principal = world.base.agent if who == "agent" else replace(world.person, actor="usr_member", role="member")
    report = await world.bring(world.base.ws, files, principal=principal)
    assert sum(report.created.values()) == 5 and not report.problems

    def authors(sql: str) -> list[str]:
        return [str(value) for row in rows[sql] for value in dict(row).values()]

    asked = (
        "SELECT author FROM memory",
        "SELECT editor FROM memory_revision",
        "SELECT author FROM decision",
        "SELECT author FROM milestone",
        "SELECT created_by FROM artifact",
        "SELECT author FROM artifact_version",
        "SELECT author FROM relation",
    )
    rows = {sql: await world.base.database.read(partial(_rows, sql)) for sql in asked}
    assert {sql: set(authors(sql)) for sql in asked} == {sql: {principal.actor} for sql in asked}


async def test_an_admins_import_keeps_whose_words_they_are(world: InterchangeWorld) -> None:
    await world.bring(world.base.ws, {"a.md": memory()}, principal=replace(world.person, role="admin"))
    kept = await world.base.memory.get(world.person, world.base.ws, "the-pump")
    assert (kept.author, kept.author_name) == ("usr_somebody", "Somebody")


async def test_words_from_the_future_were_written_now(world: InterchangeWorld) -> None:
    future = "9999-01-01T00:00:00.000Z"
    await world.bring(world.base.ws, {"a.md": memory(learned_at=future, updated_at=future, occurred_at=future)})
    kept = await world.base.memory.get(world.person, world.base.ws, "the-pump")
    assert kept.learned_at == kept.updated_at == world.base.clock.now()
    assert kept.occurred_at is not None and kept.occurred_at > kept.learned_at


def test_an_export_writes_through_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.md").write_text("mine")
    (outside / "profile").write_text("mine")
    for name in ("memories", "artifacts"):
        root = tmp_path / f"export of {name}"
        root.mkdir()
        (root / name).symlink_to(outside)
        with pytest.raises(Invalid, match="is a link to a place outside"):
            folder_sink(root, replace=True)
    root = tmp_path / "another"
    (root / "memories").mkdir(parents=True)
    (root / "memories" / "a.txt").symlink_to(outside / "profile")
    write = folder_sink(root, replace=True)
    with pytest.raises(Invalid, match="is a link to a place outside"):
        write("memories/a.txt", b"overwritten")
    with pytest.raises(Invalid, match="is a link to a place outside"):
        write("../climbed.md", b"overwritten")
    assert (outside / "kept.md").read_text() == (outside / "profile").read_text() == "mine"


def test_a_file_whose_name_is_no_text_is_named_in_words(tmp_path: Path) -> None:
    (tmp_path / "bell\x07.md").write_text("Ring.")
    name = tmp_path / "x.md"
    Path(str(name).replace("x.md", "\udcff.md")).write_text("Undecodable.")
    assert all(file.path.isprintable() for file in folder_files(tmp_path))
