"""Proves imports of other tools' files, that one bad file stops nothing, and that a second run adds nothing."""

import dataclasses
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import Forbidden, Invalid, NotFound
from holdfast.features.intelligence.model import NewDecision
from holdfast.features.interchange.formats.places import archive_files, archive_sink, folder_files, folder_sink
from holdfast.features.interchange.model import MAX_FILE_BYTES, SourceFile
from holdfast.features.memory.model import Filters, Memory, NewMemory
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.interchange import InterchangeWorld, interchange_world


@pytest.fixture
async def world(sqlite_database: SqliteDatabase, clock: MovableClock) -> InterchangeWorld:
    return await interchange_world(sqlite_database, clock, workspaces=2)


async def _memories(world: InterchangeWorld, **filters: object) -> dict[str, Memory]:
    wanted = Filters(status=None, **filters)  # type: ignore[arg-type]
    page = await world.base.memory.list(world.person, world.base.ws, wanted, limit=200)
    return {each.title: each for each in page.items}


async def _ties(world: InterchangeWorld) -> list[tuple[str, str, str]]:
    page = await world.intelligence.relations.page(world.person, world.base.ws, limit=200)
    titles = {each.id: title for title, each in (await _memories(world)).items()}
    return sorted((titles[each.start.id], each.relation, titles[each.end.id]) for each in page.items)


async def test_what_imported_memories_contradict_waits_for_somebody(world: InterchangeWorld) -> None:
    """Each other, and what was known: an old fact that comes in late is the older of the two."""
    known = await world.base.memory.save(world.person, world.base.ws, NewMemory("The rate limit is 45 calls a minute"))
    assert known.memory is not None
    files = {
        "limit.txt": b"The rate limit is 60 calls a minute",
        "short.txt": b"The retention of build logs is 14 days",
        "long.txt": b"The retention of build logs is 30 days",
        "tea.txt": b"Tea is served at four",
    }
    await world.bring(world.base.ws, files)
    found = (await world.contradictions.list(world.person, world.base.ws)).items
    assert {frozenset((each.memory.title, each.other.title)) for each in found} == {
        frozenset(("long", "short")),
        frozenset(("limit", known.memory.title)),
    }
    await world.bring(world.base.ws, files)
    assert len((await world.contradictions.list(world.person, world.base.ws)).items) == 2


async def test_a_folder_of_notes_becomes_memories_with_titles_tags_and_dates(world: InterchangeWorld) -> None:
    front = b"---\ntitle: Deploying\ntags: [ops, release]\ndate: 2025-03-01\n---\n"
    files = {
        "guide/deploy.md": front + b"Deploy with Helm on Mondays.\n",
        "plain.md": b"# Naming\n\nBranches are named after their issue.\n",
        "notes.txt": b"The staging cluster lives in Frankfurt.",
        "photo.png": b"\x89PNG",
    }
    report = await world.bring(world.base.ws, files)
    assert (report.created, report.ignored, report.problems) == ({"memory": 3}, 1, [])
    found = await _memories(world)
    assert set(found) == {"Deploying", "Naming", "notes"}
    deploying = found["Deploying"]
    assert (deploying.content, deploying.tags, deploying.source) == (
        "Deploy with Helm on Mondays.",
        ("ops", "release"),
        "guide/deploy.md",
    )
    assert deploying.occurred_at == 1_740_787_200_000
    recalled = await world.base.memory.recall(world.person, world.base.ws, "where is the staging cluster")
    assert recalled[0].memory.title == "notes"


async def test_agent_instruction_files_become_one_memory_for_each_section(world: InterchangeWorld) -> None:
    text = (
        "Read this first, agent.\n# Build\nRun make.\n"
        "## Tests\n```sh\n# not a heading\npytest -q\n```\nAll must pass.\n"
        "# Style\n- tabs\n- no globals\n"
    )
    report = await world.bring(world.base.ws, {"CLAUDE.md": text.encode()})
    assert report.created == {"memory": 4}
    found = await _memories(world)
    assert set(found) == {"CLAUDE.md", "Build", "Build – Tests", "Style"}
    assert "# not a heading" in found["Build – Tests"].content
    assert {each.category for each in found.values()} == {"instruction"}


async def test_a_long_note_is_cut_at_its_sections_and_paragraphs(world: InterchangeWorld) -> None:
    text = "# Handbook\n\nIntro words.\n\n## Long\n\n" + "\n\n".join(f"Rule {n} is here. " * 100 for n in range(12))
    report = await world.bring(world.base.ws, {"handbook.md": text.encode()})
    assert not report.problems
    found = await _memories(world)
    assert "Handbook – Long (1)" in found
    assert sum(each.content.count(" is here.") for each in found.values()) == 1200


async def test_mem0_exports_keep_their_dates_categories_and_owners(world: InterchangeWorld) -> None:
    records = [
        {
            "id": "5a3f",
            "memory": "Dev works at TechCorp as a senior engineer",
            "user_id": "dev",
            "categories": ["work"],
            "metadata": {"type": "professional"},
            "created_at": "2024-06-01T10:00:00-07:00",
        },
        {"id": "5a40", "memory": "Arjun prefers morning meetings", "user_id": "arjun", "created_at": None},
        {"id": "5a41", "metadata": {}},
        {
            "id": "5a42",
            "memory": "The build is green again",
            "user_id": "dev",
            "agent_id": "buildbot",
            "role": "assistant",
        },
        {"id": "5a43", "memory": "Lunch is at noon", "user_id": "dev", "actor_id": "maya", "role": "user"},
    ]
    report = await world.bring(world.base.ws, {"mem0.json": json.dumps({"results": records}).encode()})
    assert report.created == {"memory": 4}
    assert [problem.reason for problem in report.problems] == ["record 3 has no text in memory, content or text"]
    found = {each.content: each for each in (await _memories(world)).values()}
    dev = found["Dev works at TechCorp as a senior engineer"]
    assert (dev.category, dev.tags, dev.source, dev.learned_at) == (
        "professional",
        ("work",),
        "user_id:dev",
        1_717_261_200_000,
    )
    assert found["Arjun prefers morning meetings"].category == "preference"
    said = {each.content: (each.author_name, each.trust) for each in found.values()}
    assert said == {
        "Dev works at TechCorp as a senior engineer": ("dev", "person"),
        "Arjun prefers morning meetings": ("arjun", "person"),
        "The build is green again": ("buildbot", "agent"),
        "Lunch is at noon": ("maya", "person"),
    }


async def test_who_said_it_elsewhere_stays_in_the_source_where_a_member_imports(world: InterchangeWorld) -> None:
    member = dataclasses.replace(world.person, role="member", name="Bob")
    record = {"memory": "Dev works at TechCorp", "user_id": "dev"}
    await world.bring(world.base.ws, {"mem0.json": json.dumps([record]).encode()}, member)
    (found,) = (await _memories(world)).values()
    assert (found.author_name, found.source) == ("Bob", "user_id:dev")


async def test_server_memory_lines_become_memories_and_relations(world: InterchangeWorld) -> None:
    lines = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Leads billing", "Speaks French"]},
        {"type": "entity", "name": "Billing", "entityType": "service", "observations": ["Runs on Go"]},
        {"type": "relation", "from": "Ada", "to": "Billing", "relationType": "leads the work on"},
        {"type": "relation", "from": "Ada", "to": "Nobody", "relationType": "knows"},
    ]
    data = "\n".join([*map(json.dumps, lines), "{broken"]).encode()
    report = await world.bring(world.base.ws, {"memory.jsonl": data})
    assert report.created == {"memory": 2, "relation": 1}
    reasons = sorted(problem.reason for problem in report.problems)
    assert reasons == [
        "it relates to 'Nobody', which is not among what was imported",
        "line 5 is not JSON",
    ]
    assert (await _memories(world))["Ada"].content == "Ada (person):\n- Leads billing\n- Speaks French"
    assert await _ties(world) == [("Ada", "leads_the_work_on", "Billing")]


async def test_basic_memory_notes_keep_their_observations_and_relations(world: InterchangeWorld) -> None:
    design = (
        "---\ntitle: Auth Design\ntype: note\ntags: [auth]\npermalink: auth-design\n---\n# Auth Design\n\n"
        "## Observations\n- [decision] Use signed tokens #security\n\n"
        "## Relations\n- implements [[API Requirements]]\n- relates_to [[sessions]]\n"
    )
    files = {
        "specs/Auth Design.md": design.encode(),
        "specs/API Requirements.md": b"---\ntitle: API Requirements\ntype: spec\n---\nEvery call is signed.\n",
        "Sessions.md": b"Sessions last ten minutes.\n",
    }
    report = await world.bring(world.base.ws, files)
    assert (report.created, report.problems) == ({"memory": 3, "relation": 2}, [])
    found = await _memories(world)
    assert "- [decision] Use signed tokens #security" in found["Auth Design"].content
    assert found["API Requirements"].category == "spec"
    assert await _ties(world) == [
        ("Auth Design", "implements", "API Requirements"),
        ("Auth Design", "relates_to", "Sessions"),
    ]


async def test_one_bad_file_is_reported_and_the_rest_comes_in(world: InterchangeWorld) -> None:
    secret = "ghp_" + "a1B2" * 9
    files = {
        "a-latin.md": "Grüße".encode("latin-1"),
        "b-yaml.md": b"---\ntitle: [unclosed\n---\nText of a note.\n",
        "c-bomb.md": b"---\na: &a [x]\nb: [*a, *a]\n---\nText of a note.\n",
        "d-secret.md": f"Deploy with {secret} every time.".encode(),
        "e-big.md": b"x" * (MAX_FILE_BYTES + 1),
        "f-junk.md": b"ok thanks",
        "g-nul.md": b"zero\x00zero",
        "h-broken.md": b'---\nholdfast: "memory"\nid: "mem_1"\n---\n\nHalf an export.\n',
        "i-strange.md": b"---\nholdfast: poem\n---\n\nHalf an export.\n",
        "j.json": b"42",
        "z-good.md": b"The good file comes in.",
    }
    report = await world.bring(world.base.ws, files)
    assert report.created == {"memory": 1}
    assert sorted(problem.file for problem in report.problems) == sorted(set(files) - {"z-good.md"})
    reasons = {problem.file: problem.reason for problem in report.problems}
    assert "GitHub token" in reasons["d-secret.md"]
    assert secret not in repr(report)
    assert "slug" in reasons["h-broken.md"]


async def test_a_second_run_adds_nothing_and_brings_back_what_was_forgotten(world: InterchangeWorld) -> None:
    files = {f"note-{number}.md": f"Server {number} runs Debian.".encode() for number in range(250)}
    first = await world.bring(world.base.ws, dict(list(files.items())[:130]))
    assert first.created == {"memory": 130}
    second = await world.bring(world.base.ws, files)
    assert (second.created, second.unchanged) == ({"memory": 120}, 130)
    await world.base.memory.forget(world.person, world.base.ws, "note-7")
    await world.base.memory.retract(world.person, world.base.ws, "note-8")
    third = await world.bring(world.base.ws, files)
    assert (third.created, third.unchanged) == ({"memory": 1}, 249)


async def test_an_export_edited_by_hand_edits_the_memory(world: InterchangeWorld) -> None:
    await world.base.memory.save(world.person, world.base.ws, NewMemory("The limit is 45 calls", tags=("limits",)))
    files = await world.export(world.base.ws)
    (path,) = files
    edited = files[path].replace(b"45 calls", b"60 calls").replace(b'tags: ["limits"]', b"tags: [limits, api]")
    report = await world.bring(world.base.ws, {path: edited})
    assert (report.updated, report.problems) == (1, [])
    memory = await world.base.memory.get(world.person, world.base.ws, "the-limit-is-45-calls")
    assert (memory.content, memory.tags, memory.revision) == ("The limit is 60 calls", ("limits", "api"), 2)
    stale = await world.bring(world.base.ws, {path: files[path].replace(b"45 calls", b"99 calls")})
    assert "changed since" in stale.problems[0].reason


async def test_what_differs_here_is_left_as_it_is(world: InterchangeWorld) -> None:
    await world.intelligence.decisions.track(world.person, world.base.ws, NewDecision("Use Kafka", "It scales"))
    files = await world.export(world.base.ws)
    changed = {path: data.replace(b"It scales", b"It is fun") for path, data in files.items()}
    report = await world.bring(world.base.ws, changed)
    assert (report.created, len(report.problems)) == ({}, 1)
    assert await world.export(world.base.ws) == files


async def test_an_agent_cannot_import_words_as_a_persons(world: InterchangeWorld) -> None:
    await world.base.memory.save(world.person, world.base.ws, NewMemory("Ada decides about money"))
    files = await world.export(world.base.ws)
    other = world.base.workspace_ids[1]
    await world.bring(other, files, principal=world.base.agent)
    memory = await world.base.memory.get(world.person, other, "ada-decides-about-money")
    assert (memory.trust, memory.author) == ("agent", world.base.agent.actor)


async def test_strangers_neither_import_nor_export(world: InterchangeWorld) -> None:
    stranger = replace(world.person, organization_id="org_" + "0" * 32)
    with pytest.raises(NotFound):
        await world.interchange.export(stranger, world.base.ws, lambda path, data: None)
    with pytest.raises(NotFound):
        await world.bring(world.base.ws, {"a.md": b"Words of a stranger."}, principal=stranger)
    reader = replace(world.base.agent, scopes=frozenset({"read"}))
    with pytest.raises(Forbidden):
        await world.bring(world.base.ws, {"a.md": b"Words of a reader."}, principal=reader)


async def test_folders_and_archives_carry_an_export(world: InterchangeWorld, tmp_path: Path) -> None:
    for number in range(3):
        await world.base.memory.save(world.person, world.base.ws, NewMemory(f"Rule {number} of the house"))
    files = await world.export(world.base.ws)
    sink = folder_sink(tmp_path / "out", replace=False)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        pack = archive_sink(opened)
        for path, data in files.items():
            sink(path, data)
            pack(path, data)
    assert {each.path: each.data for each in folder_files(tmp_path / "out")} == files
    assert {each.path: each.data for each in archive_files(archive)} == files
    with pytest.raises(Invalid, match="--replace"):
        folder_sink(tmp_path / "out", replace=False)
    (tmp_path / "out" / "memories" / "old.md").write_bytes(b"left over")
    again = folder_sink(tmp_path / "out", replace=True)
    for path, data in files.items():
        again(path, data)
    assert {each.path: each.data for each in folder_files(tmp_path / "out")} == files


def test_links_hidden_files_and_missing_paths_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("outside")
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config.md").write_text("inside git")
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "note.md").write_text("a note")
    assert [each.path for each in folder_files(root)] == ["note.md"]
    assert list(folder_files(root / "note.md")) == [SourceFile("note.md", b"a note")]
    with pytest.raises(Invalid, match="does not exist"):
        list(folder_files(tmp_path / "missing"))


def test_an_archive_that_unpacks_too_large_or_is_broken_is_refused() -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bomb.md", b"0" * (MAX_FILE_BYTES * 4))
    (read,) = archive_files(bomb)
    assert len(read.data) == MAX_FILE_BYTES + 1
    with pytest.raises(Invalid):
        list(archive_files(io.BytesIO(b"PK\x03\x04 not really")))


async def test_an_import_is_one_batch_in_the_audit_trail(database: Database, clock: MovableClock) -> None:
    world = await interchange_world(database, clock)
    await world.bring(world.base.ws, {"a.md": b"The first thing to know.", "b.md": b"The second thing to know."})
    rows = await database.read(lambda tx: tx.all("SELECT action, detail FROM audit_event WHERE action LIKE '%import'"))
    assert [(row["action"], json.loads(row["detail"])) for row in rows] == [("workspace.import", {"memory": 2})]
