"""Owns the proof of looks at live files: at the synced head, for the right people, on a machine without the mirror."""

import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import NotFound
from holdfast.features.repositories.history.reading import NotReadYet
from holdfast.features.repositories.model import NewRepository, RepositoryNotFound
from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.git_server import GitServer, git_server, has_http_backend
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

LAMP = "".join(f"Line {number} of the lamp.\n" for number in range(1, 11))


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data") as world:
        yield world


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "project")
    repo.commit("Light the lamp", {"docs/lamp.md": LAMP, "README.md": "# Lighthouse\n"})
    repo.commit("Change line four", {"docs/lamp.md": LAMP.replace("Line 4", "The fourth line")}, author="Grace Hopper")
    return repo


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    if not has_http_backend():
        pytest.skip("this machine has no git http-backend")
    with git_server(tmp_path / "served") as running:
        yield running


async def test_files_are_read_as_they_were_at_the_last_sync(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    synced = project.head
    project.commit("Not synced", {"docs/lamp.md": "Dark.\n", "later.md": "Later.\n"})
    files, me = here.services.live_files, here.principal

    assert [entry.path for entry in await files.tree(me, "project")] == ["README.md", "docs"]
    assert [entry.path for entry in await files.tree(me, "project", "/docs/")] == ["docs/lamp.md"]
    excerpt = await files.read(me, "project", "docs/lamp.md", 3, 5)
    assert excerpt.text == "Line 3 of the lamp.\nThe fourth line of the lamp.\nLine 5 of the lamp."
    assert (excerpt.commit, excerpt.start_line, excerpt.end_line, excerpt.total_lines) == (synced, 3, 5, 10)
    assert [commit.subject for commit in await files.log(me, "project", "docs/lamp.md")] == [
        "Change line four",
        "Light the lamp",
    ]
    assert [commit.sha for commit in await files.log(me, "project", limit=1)] == [synced]
    blame = await files.blame(me, "project", "docs/lamp.md", 3, 5)
    assert [(line.author, line.start_line, line.end_line) for line in blame] == [
        ("Ada Lovelace", 3, 3),
        ("Grace Hopper", 4, 4),
        ("Ada Lovelace", 5, 5),
    ]
    shown = await files.show(me, "project", synced[:10])
    assert shown.commit.sha == synced and "+The fourth line" in shown.patch


async def test_what_is_not_there_is_not_found(here: RepositoryWorld, project: GitRepo) -> None:
    await here.add(project)
    project.checkout("aside", create=True)
    aside = project.commit("On another branch", {"aside.md": "Aside.\n"})
    project.checkout("main")
    files, me = here.services.live_files, here.principal
    for missing in ("nowhere.md", "../etc/passwd", "docs/lamp.md/x", "\0"):
        with pytest.raises(NotFound):
            await files.read(me, "project", missing)
    with pytest.raises(NotFound):
        await files.tree(me, "project", "nowhere")
    for sha in (aside, "ffffffff", "", "zzzz", "%"):
        with pytest.raises(NotFound):
            await files.show(me, "project", sha)
    stranger = replace(me, workspace_ids=frozenset({"ws_other"}))
    for look in (files.tree(stranger, "project"), files.read(stranger, "project", "README.md")):
        with pytest.raises(RepositoryNotFound):
            await look
    with pytest.raises(RepositoryNotFound):
        await files.show(stranger, "project", project.head)


async def test_an_empty_repository_has_no_files(here: RepositoryWorld, tmp_path: Path) -> None:
    await here.add(GitRepo(tmp_path / "empty"))
    assert await here.services.live_files.tree(here.principal, "empty") == []
    with pytest.raises(NotFound):
        await here.services.live_files.read(here.principal, "empty", "README.md")


async def test_before_the_first_sync_there_is_nothing_to_read(
    database: Database, clock: MovableClock, tmp_path: Path, project: GitRepo
) -> None:
    async with repository_world(database, clock, tmp_path / "data", working=False) as here:
        await here.services.repositories.add(here.principal, here.workspace_id, NewRepository(str(project.path)))
        with pytest.raises(NotReadYet):
            await here.services.live_files.tree(here.principal, "project")


@pytest.mark.slow
async def test_another_replica_fetches_what_it_lacks(
    open_database: OpenDatabase, clock: MovableClock, tmp_path: Path, project: GitRepo, server: GitServer
) -> None:
    served = GitRepo(tmp_path / "served" / "project.git", bare=True)
    project.force_push(served)
    first, second = open_database(), open_database()
    allowed: dict[str, Any] = {"fetch_allow": (server.place,)}
    async with repository_world(first, clock, tmp_path / "one", **allowed) as here:
        repository = await here.add(server.url("project.git"))
        assert repository.state == "ready", repository.reason
        async with repository_world(second, clock, tmp_path / "two", working=False, **allowed) as there:
            files, me = there.services.live_files, here.principal
            assert (await files.read(me, "project", "README.md")).text == "# Lighthouse"
            project.commit("Newer", {"README.md": "# Tower\n"})
            project.force_push(served)
            await here.sync("project")
            assert (await files.read(me, "project", "README.md")).text == "# Tower"
            shutil.rmtree(tmp_path / "two" / "repositories" / f"{repository.id}.git")
            assert (await files.show(me, "project", project.head)).commit.subject == "Newer"
    await first.close()
    await second.close()
