"""Owns the proof that repositories with a URL are cloned, followed and forgotten, with the token they need."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Invalid
from holdfast.features.repositories.model import NewRepository
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.git_server import GitServer, git_server, has_http_backend
from tests.support.code.repositories import RepositoryWorld, repository_world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_http_backend(), reason="this machine has no git http-backend"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served") as running:
        yield running


@pytest.fixture
async def here(
    database: Database, clock: MovableClock, tmp_path: Path, server: GitServer
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data", fetch_allow=(server.place,)) as world:
        yield world


@pytest.fixture
def work(tmp_path: Path) -> GitRepo:
    """Where somebody works on what is served."""
    GitRepo(tmp_path / "served" / "project.git", bare=True)
    repo = GitRepo(tmp_path / "work")
    repo.commit("Begin", {"README.md": "# Lighthouse\n"})
    return repo


def push(tmp_path: Path, work: GitRepo) -> None:
    served = GitRepo.__new__(GitRepo)
    served.path = tmp_path / "served" / "project.git"
    work.force_push(served)


def mirrors(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data" / "repositories").glob("*.git"))


async def test_a_url_is_cloned_followed_and_forgotten(
    here: RepositoryWorld, server: GitServer, work: GitRepo, tmp_path: Path
) -> None:
    push(tmp_path, work)
    repository = await here.add(server.url("project.git"))
    assert (repository.slug, repository.state, repository.reason) == ("project", "ready", None)
    assert mirrors(tmp_path) == [f"{repository.id}.git"]

    gone = work.commit("Take a wrong turn", {"wrong.md": "Wrong.\n"})
    push(tmp_path, work)
    await here.sync("project")
    work.run("reset", "-q", "--hard", "HEAD~1")
    work.commit("Go on", {"right.md": "Right.\n"})
    push(tmp_path, work)
    repository = await here.sync("project")

    assert (repository.head, repository.commits, repository.files) == (work.head, 2, 2)
    rows = await here.services.database.read(lambda tx: tx.all("SELECT sha FROM repository_commit"))
    assert gone not in {row["sha"] for row in rows}
    await here.services.repositories.remove(here.principal, "project")
    assert mirrors(tmp_path) == []


async def test_a_private_repository_is_read_with_the_workspaces_secret(
    here: RepositoryWorld, server: GitServer, work: GitRepo, tmp_path: Path
) -> None:
    push(tmp_path, work)
    server.login = ("git", "s3cret-token")
    refused = await here.add(server.url("project.git"))
    assert refused.state == "failed" and "--key-from" in str(refused.reason)
    await here.services.secrets.set(here.principal, here.workspace_id, "FORGE", "s3cret-token")
    new = NewRepository(server.url("project.git"), slug="private", key_from="FORGE")
    added = await here.services.repositories.add(here.principal, here.workspace_id, new)
    await here.job(str(added.job_id))

    repository = await here.get("private")

    assert (repository.state, repository.commits) == ("ready", 1)
    server.login = ("robot", "s3cret:token")
    assert "user:token" in str((await here.sync("private")).reason)
    await here.services.secrets.set(here.principal, here.workspace_id, "FORGE", "robot:s3cret:token")
    assert (await here.sync("private")).state == "ready"
    await here.services.secrets.clear(here.principal, here.workspace_id, "FORGE")
    without = await here.sync("private")
    assert without.state == "failed" and "FORGE" in str(without.reason)


async def test_a_mirror_goes_with_its_workspace_at_the_next_clone(
    here: RepositoryWorld, server: GitServer, work: GitRepo, tmp_path: Path
) -> None:
    push(tmp_path, work)
    workspaces = here.services.workspaces
    own = await workspaces.get(here.principal, here.workspace_id)
    other = await workspaces.create(here.principal, own.project_id, "Other")
    new = NewRepository(server.url("project.git"), slug="other")
    added = await here.services.repositories.add(here.principal, other.id, new)
    await here.job(str(added.job_id))
    assert mirrors(tmp_path) == [f"{added.id}.git"]
    await workspaces.delete(here.principal, other.id)

    repository = await here.add(server.url("project.git"))

    assert mirrors(tmp_path) == [f"{repository.id}.git"]


async def test_a_place_that_is_not_allowed_is_not_reached(
    database: Database, clock: MovableClock, tmp_path: Path, server: GitServer, work: GitRepo
) -> None:
    push(tmp_path, work)
    async with repository_world(database, clock, tmp_path / "data") as here:
        with pytest.raises(Invalid, match="HOLDFAST_FETCH_ALLOW") as problem:
            await here.add(server.url("project.git"))
    assert [each.field for each in problem.value.fields] == ["location"]
    assert server.requests == []


async def test_a_clone_that_is_removed_midway_leaves_no_mirror(
    here: RepositoryWorld, server: GitServer, work: GitRepo, tmp_path: Path
) -> None:
    push(tmp_path, work)
    asked, answer = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(handler: Any) -> bool:
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(answer.wait(), loop).result(60)
        return False

    server.answer_with = hold
    new = NewRepository(server.url("project.git"))
    added = await here.services.repositories.add(here.principal, here.workspace_id, new)
    async with asyncio.timeout(60):
        await asked.wait()
    removing = asyncio.create_task(here.services.repositories.remove(here.principal, "project"))
    # The sync learns that it is not wanted any more at its next heartbeat; the server answers only after that.
    job = await here.job(str(added.job_id))
    answer.set()
    await removing
    assert job.state == "cancelled"
    assert mirrors(tmp_path) == []
    assert list((tmp_path / "data" / "repositories").glob("*cloning*")) == []
