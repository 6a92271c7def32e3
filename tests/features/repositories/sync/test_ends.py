"""Owns the proof of how syncs end: cancelled, failed, given up, or with their repository removed meanwhile."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import GitFailed, SnapshotChange
from holdfast.engines.jobs import JobRun
from holdfast.engines.jobs import turns as job_turns
from holdfast.features.repositories import store
from holdfast.features.repositories.history.sync import CANCELLED, RepositorySync
from holdfast.features.repositories.model import SYNC_KIND, NewRepository, Repository, RepositoryNotFound
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

TABLES = (
    "repository",
    "repository_sync",
    "repository_commit",
    "repository_file",
    "repository_symbol",
    "repository_tag",
)


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data") as world:
        yield world


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "project")
    repo.commit("Begin", {"README.md": "# Lighthouse\n\nThe lamp turns at dusk.\n"})
    return repo


class Held:
    """Stops the reading of files, which comes after the commits, until it is let go."""

    def __init__(self, git: GitEngine, patch: pytest.MonkeyPatch) -> None:
        self._snapshot = git.snapshot
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        patch.setattr(git, "snapshot", self._held)

    async def _held(self, *arguments: Any) -> AsyncGenerator[SnapshotChange, None]:
        self.reached.set()
        await self.go_on.wait()
        async for change in self._snapshot(*arguments):
            yield change


async def left(here: RepositoryWorld) -> int:
    """How many rows there are of anything that belongs to repositories."""
    counts = [f"(SELECT COUNT(*) FROM {table})" for table in TABLES]
    counts.append("(SELECT COUNT(*) FROM search_entry WHERE collection <> '')")
    found = await here.services.database.read(lambda tx: tx.one(f"SELECT {' + '.join(counts)} AS n"))
    assert found is not None
    return int(found["n"])


async def begun(here: RepositoryWorld, project: GitRepo) -> Repository:
    new = NewRepository(str(project.path))
    return await here.services.repositories.add(here.principal, here.workspace_id, new)


async def test_a_cancelled_sync_keeps_what_it_read_and_the_next_goes_on(
    here: RepositoryWorld, project: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(here.services.git, monkeypatch)
    added = await begun(here, project)
    async with asyncio.timeout(30):
        await held.reached.wait()
    await here.services.repositories.cancel(here.principal, "project")

    assert (await here.job(str(added.job_id))).state == "cancelled"
    repository = await here.get("project")
    assert (repository.state, repository.reason, repository.ingested) == ("failed", CANCELLED, False)
    sync = await here.last_sync("project")
    assert (sync.status, sync.commits_added, sync.error) == ("CANCELLED", 1, None)
    assert sync.finished_at is not None

    held.go_on.set()
    repository = await here.sync("project")

    assert (repository.state, repository.reason, repository.commits, repository.files) == ("ready", None, 1, 1)
    assert (await here.last_sync("project")).commits_added == 0
    assert await here.services.search.check() == []


async def test_a_branch_that_came_back_is_right_after_a_sync_that_was_cut_short(
    here: RepositoryWorld, project: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = project.head
    await here.add(project)
    project.run("commit", "-q", "--amend", "-m", "Begin again", who=_WHO)
    assert project.head != first
    held = Held(here.services.git, monkeypatch)
    asked = await here.services.repositories.sync(here.principal, "project")
    async with asyncio.timeout(30):
        await held.reached.wait()
    await here.services.repositories.cancel(here.principal, "project")
    await here.job(str(asked.job_id))
    assert (await here.get("project")).state == "ready"
    project.run("reset", "-q", "--hard", first)

    held.go_on.set()
    await here.sync("project")

    rows = await here.services.database.read(lambda tx: tx.all("SELECT sha FROM repository_commit"))
    assert [row["sha"] for row in rows] == [first]


async def test_a_sync_that_is_cancelled_before_it_began_leaves_the_repository_as_it_was(
    database: Database, clock: MovableClock, tmp_path: Path, project: GitRepo
) -> None:
    async with repository_world(database, clock, tmp_path / "data", working=False) as here:
        await begun(here, project)
        repository = await here.services.repositories.cancel(here.principal, "project")
    assert (repository.state, repository.reason) == ("failed", CANCELLED)


async def test_a_repository_removed_during_its_sync_leaves_nothing_behind(
    here: RepositoryWorld, project: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(here.services.git, monkeypatch)
    added = await begun(here, project)
    async with asyncio.timeout(30):
        await held.reached.wait()
    removing = asyncio.create_task(here.services.repositories.remove(here.principal, "project"))
    held.go_on.set()
    await removing

    job = await here.job(str(added.job_id))

    # It may have come to its end just before, or found nothing, or been told to stop.
    assert job.state in ("cancelled", "succeeded")
    assert await left(here) == 0
    with pytest.raises(RepositoryNotFound):
        await here.get("project")


async def test_repositories_removed_at_any_moment_leave_nothing_behind(here: RepositoryWorld, project: GitRepo) -> None:
    project.grow(300)
    for moment in range(6):
        added = await begun(here, project)
        async with asyncio.timeout(30):
            while moment and (await here.services.jobs.get(str(added.job_id))).state == "queued":
                await asyncio.sleep(0.001)
        for _ in range(moment * 40):
            await asyncio.sleep(0)
        await here.services.repositories.remove(here.principal, added.slug)
        await here.job(str(added.job_id))
    assert await left(here) == 0
    assert await here.services.search.check() == []


async def test_a_failed_sync_says_why_and_keeps_what_was_known(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    shutil.move(project.path / ".git", project.path / "moved")

    repository = await here.sync("project")

    assert repository.state == "failed" and "git repository" in str(repository.reason)
    assert (repository.ingested, repository.commits) == (True, 1)
    sync = await here.last_sync("project")
    assert (sync.status, sync.error) == ("FAILED", repository.reason)
    assert (await here.hits("lamp dusk", "file"))[0].meta["path"] == "README.md"
    shutil.move(project.path / "moved", project.path / ".git")
    assert (await here.sync("project")).state == "ready"


async def test_a_path_that_went_and_a_branch_that_is_not_there_are_named(
    here: RepositoryWorld, project: GitRepo, tmp_path: Path
) -> None:
    project.run("branch", "somewhere")
    assert (await here.add(project, branch="somewhere")).state == "ready"
    project.run("branch", "-D", "somewhere")
    branch = await here.sync("project")
    assert branch.state == "failed" and "'somewhere'" in str(branch.reason) and "main" in str(branch.reason)
    project.path.rename(tmp_path / "elsewhere")

    gone = await here.sync("project")

    assert gone.state == "failed" and str(project.path) in str(gone.reason)
    job = await here.job(str(gone.job_id))
    assert (job.state, job.attempts) == ("failed", 1)


async def test_a_sync_whose_process_dies_each_time_is_given_up(
    database: Database, clock: MovableClock, tmp_path: Path, project: GitRepo
) -> None:
    async with repository_world(database, clock, tmp_path / "data", working=False) as here:
        added = await begun(here, project)
        for _ in range(5):
            await database.write(lambda tx: job_turns.claim(tx, SYNC_KIND, "run_dead", [], -1, 1))
        running = asyncio.create_task(here.services.jobs.run())
        await here.job(str(added.job_id))
        await here.services.jobs.stop()
        await running
        repository = await here.get("project")
    assert repository.state == "failed" and "5 times" in str(repository.reason)


async def test_a_host_that_fails_does_not_fail_the_history(here: RepositoryWorld, project: GitRepo) -> None:
    async def refusing(run: JobRun, repository: Repository) -> int:
        raise RateLimited("The limit of the API is used up until noon.")

    services = here.services
    repository = await here.add(project)
    await services.database.write(lambda tx: store.update(tx, repository.id, 0, {"host": "github"}))
    syncing = RepositorySync(
        services.database,
        services.repositories,
        services.search,
        services.jobs,
        services.git,
        services.live_files.access,
        here.clock,
        items=refusing,
    )
    services.jobs.handle("test.sync", syncing.run, ended=syncing.ended)
    project.commit("Go on", {"b.txt": "On.\n"})

    def enqueue(tx: Any) -> str:
        payload = {"repository_id": repository.id, "trigger": "poll"}
        job_id = services.jobs.enqueue(tx, "test.sync", payload, workspace_id=here.workspace_id)
        store.update(tx, repository.id, 0, {"job_id": job_id})
        return job_id

    job = await here.job(await services.database.write(enqueue))

    repository = await here.get("project")
    assert (job.state, repository.state, repository.commits) == ("succeeded", "ready", 2)
    assert "until noon" in str(repository.reason)
    sync = await here.last_sync("project")
    assert (sync.status, sync.error, sync.trigger) == ("COMPLETED", repository.reason, "poll")


async def test_a_sync_asked_for_during_a_sync_comes_after_it(
    here: RepositoryWorld, project: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(here.services.git, monkeypatch)
    first = await begun(here, project)
    async with asyncio.timeout(30):
        await held.reached.wait()
    second = await here.services.repositories.sync(here.principal, "project")
    assert second.job_id != first.job_id
    project.commit("Too late for the first", {"late.txt": "Late.\n"})
    held.go_on.set()

    await here.job(str(first.job_id))
    await here.job(str(second.job_id))

    repository = await here.get("project")
    assert (repository.state, repository.commits) == ("ready", 2)
    syncs = (await here.services.repositories.syncs(here.principal, "project")).items
    assert [sync.status for sync in syncs] == ["COMPLETED", "COMPLETED"]


async def test_what_git_says_is_the_reason(
    here: RepositoryWorld, project: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*arguments: Any, **named: Any) -> None:
        raise GitFailed("The server asks for a token; name a secret with --key-from.")

    await here.add(project)
    monkeypatch.setattr(here.services.git, "fetch", failing)
    repository = await here.sync("project")
    assert (repository.state, repository.reason) == (
        "failed",
        "The server asks for a token; name a secret with --key-from.",
    )


_WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
