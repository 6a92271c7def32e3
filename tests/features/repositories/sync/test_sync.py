"""Owns the proof of syncing: what is kept and found after each kind of change, on both stores, of real git."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from holdfast.engines.jobs import Job
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.sync import SHALLOW
from holdfast.features.repositories.model import SYNTHESIS_KIND
from holdfast.storage.database import Database, Tx
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

PARSER = """\
class InvoiceParser:
    \"\"\"Reads invoices.\"\"\"

    def parse_total(self, text: str) -> int:
        return int(text.removeprefix("EUR "))
"""


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data") as world:
        yield world


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "project")
    repo.commit("Describe the project", {"README.md": "# Invoices\n\nReads invoices of suppliers.\n"})
    repo.commit(
        "Parse totals as cents\n\nBecause floats lose pennies in the ledger.",
        {"src/parser.py": PARSER, ".keystone/context.md": "Money is counted in cents.\n"},
    )
    repo.tag("v1.0", "First release, for the pilot customers")
    return repo


async def rows(here: RepositoryWorld, sql: str) -> list[dict[str, object]]:
    return [dict(row) for row in await here.services.database.read(lambda tx: tx.all(sql))]


async def entries(here: RepositoryWorld) -> set[tuple[str, str, int]]:
    """Every search entry of repositories: type, id without the repository's, change."""
    found = await rows(here, "SELECT type, id, change FROM search_entry WHERE collection <> ''")
    return {(str(row["type"]), str(row["id"]).partition("/")[2], int(str(row["change"]))) for row in found}


async def waiting(here: RepositoryWorld) -> set[tuple[str, str]]:
    """What of repositories waits for a vector."""
    found = await rows(here, "SELECT type, id FROM search_entry WHERE embedder = 0 AND collection <> ''")
    return {(str(row["type"]), str(row["id"]).partition("/")[2]) for row in found}


async def names(here: RepositoryWorld, type: str) -> set[str]:
    return {name for kind, name, _ in await entries(here) if kind == type}


async def synthesis_jobs(here: RepositoryWorld) -> Sequence[Job]:
    return (await here.services.jobs.list(here.workspace_id, kind=SYNTHESIS_KIND)).items


async def agrees(here: RepositoryWorld, repo: GitRepo, slug: str) -> None:
    """What is kept is what git has, and index and rows agree."""
    repository = await here.get(slug)

    def kept(tx: Tx) -> tuple[set[str], set[str]]:
        return set(history_store.shas(tx, repository.id)), set(history_store.blobs(tx, repository.id))

    shas, paths = await here.services.database.read(kept)
    assert shas == set(repo.run("rev-list", "HEAD").split())
    assert shas == await names(here, "commit")
    assert paths == {path for path in repo.run("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0") if path}
    assert repository.head == repo.head and repository.state == "ready"
    assert (repository.commits, repository.files) == (len(shas), len(paths))
    assert repository.entries == len(await rows(here, "SELECT number FROM search_entry WHERE collection <> ''"))
    assert await here.services.search.check() == []


@pytest.mark.contract("KS-2")
async def test_a_path_is_read_whole_and_found(here: RepositoryWorld, project: GitRepo) -> None:
    repository = await here.add(project)

    assert (repository.state, repository.ingested, repository.reason) == ("ready", True, None)
    assert (repository.commits, repository.files, repository.keystone_files) == (2, 3, 1)
    assert repository.last_synced_at == here.clock.now()
    await agrees(here, project, repository.slug)
    assert await names(here, "tag") == {"v1.0"}
    commit = (await here.hits("why are totals cents, floats pennies?", "commit"))[0]
    assert commit.title == "Parse totals as cents" and commit.author == "Ada Lovelace"
    assert commit.meta["files"] == [".keystone/context.md", "src/parser.py"]
    assert (commit.meta["sha"], commit.meta["repository"]) == (project.head, "project")
    code = (await here.hits("parse_total", "file"))[0]
    assert (code.meta["path"], code.meta["language"]) == ("src/parser.py", "python")
    assert code.meta["start_line"] <= 4 <= code.meta["end_line"]
    assert (await here.hits("pilot customers", "tag"))[0].meta["tag"] == "v1.0"
    sync = await here.last_sync("project")
    assert (sync.status, sync.trigger, sync.commits_added, sync.files_changed) == ("COMPLETED", "add", 2, 3)
    assert len(await synthesis_jobs(here)) == 1


async def test_an_unchanged_repository_is_not_written_or_embedded_again(
    here: RepositoryWorld, project: GitRepo
) -> None:
    await here.add(project)
    await here.services.search.tend()
    before = await entries(here)
    here.clock.advance(days=1)

    repository = await here.sync("project")

    assert await waiting(here) == set() and await entries(here) == before
    assert repository.last_synced_at == here.clock.now()
    sync = await here.last_sync("project")
    assert (sync.status, sync.trigger) == ("COMPLETED", "manual")
    assert (sync.commits_added, sync.files_changed) == (0, 0)
    assert len(await synthesis_jobs(here)) == 1


async def test_only_what_changed_is_embedded(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    await here.services.search.tend()
    project.commit("Say who pays", {"README.md": "# Invoices\n\nSuppliers are paid weekly.\n"})

    await here.sync("project")

    assert await waiting(here) == {("commit", project.head), ("file", "README.md")}
    await agrees(here, project, "project")
    assert not [
        hit for hit in await here.hits("reads invoices of suppliers", "file") if "Reads invoices of" in hit.text
    ]
    sync = await here.last_sync("project")
    assert (sync.commits_added, sync.files_changed, sync.files_removed) == (1, 1, 0)


async def test_renamed_and_deleted_files_leave_their_old_names(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    project.rename("src/parser.py", "src/reader.py")
    project.remove("README.md")
    project.commit("Call the parser a reader")

    await here.sync("project")

    assert await names(here, "file") == {"src/reader.py", ".keystone/context.md"}
    await agrees(here, project, "project")
    renamed = (await here.hits("call the parser a reader", "commit"))[0]
    assert {"src/reader.py", "src/parser.py"} <= set(renamed.meta["files"])


async def test_a_force_push_takes_back_what_it_replaced(here: RepositoryWorld, project: GitRepo) -> None:
    kept = project.head
    gone = project.commit("Try a secret plan", {"plan.md": "The plan is secret.\n"})
    await here.add(project)
    assert gone in await names(here, "commit")
    project.run("reset", "-q", "--hard", kept)
    project.commit("Publish the plan", {"plan.md": "The plan is public.\n"})

    await here.sync("project")

    await agrees(here, project, "project")
    assert gone not in await names(here, "commit")
    sync = await here.last_sync("project")
    assert (sync.commits_added, sync.commits_removed, sync.files_changed) == (1, 1, 1)
    project.run("reset", "-q", "--hard", kept)
    await here.sync("project")
    await agrees(here, project, "project")


async def test_merges_and_other_branches(here: RepositoryWorld, project: GitRepo) -> None:
    project.checkout("feature", create=True)
    project.commit("Add a feature", {"feature.txt": "Feature.\n"})
    project.checkout("main")
    project.commit("Go on", {"main.txt": "Main.\n"})
    await here.add(project, slug="only-feature", branch="feature")
    assert "main.txt" not in await names(here, "file")
    await here.services.repositories.remove(here.principal, "only-feature")
    assert await entries(here) == set()
    project.merge("feature")

    await here.add(project)

    await agrees(here, project, "project")


async def test_tags_come_move_and_go_without_a_commit(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    project.tag("v1.1", "Second release")
    project.run("tag", "-d", "v1.0")

    await here.sync("project")

    assert await names(here, "tag") == {"v1.1"}


async def test_an_empty_repository_is_ready_and_grows(here: RepositoryWorld, tmp_path: Path) -> None:
    empty = GitRepo(tmp_path / "empty")
    repository = await here.add(empty)
    assert (repository.state, repository.ingested, repository.head, repository.entries) == ("ready", True, "", 0)

    empty.commit("Begin", {"a.txt": "Hello.\n"})
    await here.sync("empty")

    await agrees(here, empty, "empty")


async def test_a_branch_that_became_empty_keeps_nothing(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    project.run("update-ref", "-d", "refs/heads/main")

    repository = await here.sync("project")

    assert (repository.state, repository.head, repository.commits, repository.files) == ("ready", "", 0, 0)
    assert not await names(here, "commit") and not await names(here, "file")


async def test_what_git_allows_is_read_or_known_by_name(
    here: RepositoryWorld, project: GitRepo, tmp_path: Path
) -> None:
    other = GitRepo(tmp_path / "other")
    other.commit("Other", {"lib.py": "x = 1\n"})
    project.submodule("vendor/lib", other)
    project.write(b"caf\xe9.txt", "Espresso for the auditors.\n")
    project.link("link.md", "README.md")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 104857600\n"
    project.commit(
        "Caf\xe9 opened".encode("latin-1"),
        {"model.bin": pointer, "logo.png": b"\x89PNG\r\n\x1a\n\0\0", "big.txt": "word " * 500_000},
    )

    await here.add(project)

    found = await rows(here, "SELECT path, kind FROM repository_file")
    kinds = {str(row["path"]): row["kind"] for row in found}
    assert kinds["vendor/lib"] == "submodule" and kinds["model.bin"] == "lfs" and kinds["logo.png"] == "binary"
    assert kinds["big.txt"] == "large" and kinds["link.md"] == "symlink" and kinds["caf\\xe9.txt"] == "text"
    assert (await here.hits("espresso auditors", "file"))[0].meta["path"] == "caf\\xe9.txt"
    assert (await here.hits("opened", "commit"))[0].title == "Café opened"
    assert not {"vendor/lib", "model.bin", "logo.png", "big.txt"} & await names(here, "file")
    assert await here.services.search.check() == []


async def test_a_shallow_clone_is_read_as_far_as_it_goes(
    here: RepositoryWorld, project: GitRepo, tmp_path: Path
) -> None:
    shallow = GitRepo.clone(f"file://{project.path}", tmp_path / "shallow", "--depth", "1")
    repository = await here.add(shallow)
    assert (repository.state, repository.commits, repository.reason) == ("ready", 1, SHALLOW)
    before = await entries(here)
    await here.sync("shallow")
    assert await entries(here) == before and len(await synthesis_jobs(here)) == 1

    shallow.run("fetch", "-q", "--unshallow")
    repository = await here.sync("shallow")

    assert (repository.head, repository.reason) == (project.head, None)
    await agrees(here, project, "shallow")


async def test_the_origin_of_a_clone_names_it(here: RepositoryWorld, project: GitRepo) -> None:
    project.run("remote", "add", "origin", "https://user:pass@github.com/acme/invoices.git")

    repository = await here.add(project)

    assert (repository.full_name, repository.host) == ("acme/invoices", "")


async def test_progress_is_told_as_events_and_by_the_job(here: RepositoryWorld, project: GitRepo) -> None:
    async with here.services.events.subscribe(["repository.*"]) as events:
        repository = await here.add(project)
        topics = []
        async with asyncio.timeout(30):
            while "repository.synced" not in topics:
                event = await events.get()
                assert event.payload["slug"] == "project"
                topics.append(event.topic)
                if event.topic == "repository.progress":
                    assert event.payload["message"] in ("Reading commits", "Reading files")
    assert topics[:3] == ["repository.add", "repository.queued", "repository.syncing"]
    assert "repository.progress" in topics
    job = await here.job(str(repository.job_id))
    assert (job.message, job.done, job.total) == ("Reading files", 3, 3)
    assert job.result == {"head": project.head, "changed": True, "reason": None}
