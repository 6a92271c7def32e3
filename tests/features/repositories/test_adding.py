"""Owns the proof that what is wrong with a place is said when it is added, and that one place is remembered once."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.repositories.model import AlreadyAdded, NewRepository, Repository
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data", working=False) as world:
        yield world


@pytest.fixture
async def on_sqlite(sqlite_database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data", working=False) as world:
        yield world


async def add(here: RepositoryWorld, location: object, *, slug: str | None = None, branch: str = "") -> Repository:
    new = NewRepository(str(location), slug=slug, branch=branch)
    return await here.services.repositories.add(here.principal, here.workspace_id, new)


async def test_a_place_is_remembered_once_unless_it_gets_a_slug_of_its_own(
    here: RepositoryWorld, tmp_path: Path
) -> None:
    project = GitRepo(tmp_path / "project")
    project.commit("Begin", {"a": "1"})
    project.run("branch", "next")
    await add(here, project.path)
    await add(here, "https://git.example.org/team/lamp.git")
    for again in (project.path, f"{project.path}/", project.path / ".git"):
        with pytest.raises(AlreadyAdded, match="'project'"):
            await add(here, again)
    for again in ("https://git.example.org/team/lamp", "https://GIT.example.org/team/lamp.git/"):
        with pytest.raises(AlreadyAdded, match="'lamp'"):
            await add(here, again)
    assert (await add(here, project.path, branch="next")).slug == "project-2"
    assert (await add(here, project.path, slug="twice")).slug == "twice"
    assert (await add(here, "https://git.example.org/team/lamps")).slug == "lamps"


async def test_another_workspace_may_remember_the_same_place(here: RepositoryWorld) -> None:
    await add(here, "https://git.example.org/lamp.git")
    workspaces = here.services.workspaces
    own = await workspaces.get(here.principal, here.workspace_id)
    other = await workspaces.create(here.principal, own.project_id, "Other")
    new = NewRepository("https://git.example.org/lamp.git")
    assert (await here.services.repositories.add(here.principal, other.id, new)).slug == "lamp-2"


async def test_a_directory_without_a_repository_and_a_missing_branch_are_refused_at_once(
    on_sqlite: RepositoryWorld, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    project = GitRepo(tmp_path / "project")
    project.commit("Begin", {"src/a": "1"})
    for place in (tmp_path / "plain", project.path / "src"):
        with pytest.raises(Invalid, match=r"holds \.git") as wrong:
            await add(on_sqlite, place)
        assert [each.field for each in wrong.value.fields] == ["location"]
    with pytest.raises(Invalid, match="no branch 'nowhere'; it has main") as missing:
        await add(on_sqlite, project.path, branch="nowhere")
    assert [each.field for each in missing.value.fields] == ["branch"]
    assert (await on_sqlite.services.repositories.list(on_sqlite.principal)).items == []


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("ssh://git@git.example.org/lamp.git", "https://git.example.org/lamp.git"),
        ("git@git.example.org:lamp.git", "https://git.example.org/lamp.git"),
        ("http://localhost/lamp.git", "HOLDFAST_FETCH_ALLOW"),
        ("https://10.1.2.3/lamp.git", "HOLDFAST_FETCH_ALLOW"),
        ("git://[::1]/lamp.git", "HOLDFAST_FETCH_ALLOW"),
        ("https://git.example.org:25/lamp.git", "Port 25"),
    ],
)
async def test_a_url_that_nobody_could_clone_is_refused_at_once(
    location: str, why: str, on_sqlite: RepositoryWorld
) -> None:
    with pytest.raises(Invalid) as problem:
        await add(on_sqlite, location)
    assert why in problem.value.message
    assert [each.field for each in problem.value.fields] == ["location"]


async def test_nobody_learns_over_the_network_which_directories_there_are(
    on_sqlite: RepositoryWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    network = replace(on_sqlite.principal, proof="key", actor="key_1")
    for location in ("etc/there", "etc/missing", "etc", "missing", "etc/../etc/there"):
        with pytest.raises(Forbidden):
            await on_sqlite.services.repositories.add(network, on_sqlite.workspace_id, NewRepository(location))
