"""Owns the proof of the rules of repositories: who adds, sees and removes one, and what it may be called."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.features.intelligence.model import NewDecision, NewRelation, Ref
from holdfast.features.repositories.model import NewRepository, RepositoryNotFound, SlugTaken
from holdfast.features.workspaces.model import WorkspaceNotFound
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data", working=False) as world:
        yield world


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "My Project")


def remote(principal: Principal) -> Principal:
    """The same person over the network."""
    return replace(principal, proof="key", actor="key_1")


async def add(here: RepositoryWorld, location: str, principal: Principal | None = None, **named: object) -> str:
    new = NewRepository(location, **named)  # type: ignore[arg-type]
    added = await here.services.repositories.add(principal or here.principal, here.workspace_id, new)
    return added.slug


async def test_a_repository_is_added_queued_and_audited(here: RepositoryWorld, project: GitRepo) -> None:
    repository = await here.services.repositories.add(
        here.principal, here.workspace_id, NewRepository(str(project.path))
    )
    assert (repository.slug, repository.name, repository.state) == ("my-project", "My Project", "queued")
    assert (repository.location, repository.is_local, repository.host) == (str(project.path), True, "")
    job = await here.services.jobs.get(str(repository.job_id))
    assert (job.kind, job.state, job.payload["trigger"]) == ("repository.sync", "queued", "add")
    found = await here.services.audit.list(here.principal, limit=1)
    assert found.items[0].action == "repository.add"


async def test_slugs_are_made_unique_or_refused(here: RepositoryWorld, project: GitRepo, tmp_path: Path) -> None:
    assert await add(here, str(project.path)) == "my-project"
    assert await add(here, str(GitRepo(tmp_path / "other" / "My Project").path)) == "my-project-2"
    assert await add(here, str(project.path), slug="mine", name="Mine") == "mine"
    with pytest.raises(SlugTaken):
        await add(here, str(project.path), slug="mine")
    for slug in ("Mine", "a b", "-a", "", "a" * 81):
        with pytest.raises(Invalid):
            await add(here, str(project.path), slug=slug)
    for name in (" ", "a\nb\x07", "n" * 121):
        with pytest.raises(Invalid):
            await add(here, str(project.path), name=name)


async def test_a_repository_is_called_by_its_slug_where_nobody_names_it(
    here: RepositoryWorld, project: GitRepo
) -> None:
    await add(here, str(project.path), slug="my-api")
    assert (await here.get("my-api")).name == "my-api"


async def test_urls_tell_the_host_and_never_keep_credentials(here: RepositoryWorld) -> None:
    slug = await add(here, "https://robot:s3cret@github.com/acme/rocket.git")
    repository = await here.get(slug)
    assert (repository.slug, repository.host, repository.full_name) == ("rocket", "github", "acme/rocket")
    assert "s3cret" not in repository.location
    assert (await here.get(await add(here, "https://gitlab.com/a/b/c"))).full_name == "a/b/c"
    assert (await here.get(await add(here, "https://git.example.org/x.git"))).host == ""
    for location in ("file:///etc", "ext::sh -c id", "-oProxyCommand=id", "https://github.com/only-owner"):
        with pytest.raises(Invalid):
            await add(here, location)


async def test_a_token_must_be_a_secret_of_the_workspace(here: RepositoryWorld) -> None:
    with pytest.raises(Invalid) as problem:
        await add(here, "https://git.example.org/x.git", key_from="TOKEN")
    assert problem.value.fields[0].field == "key_from"
    await here.services.secrets.set(here.principal, here.workspace_id, "TOKEN", "t0ken")
    assert await add(here, "https://git.example.org/x.git", key_from="TOKEN") == "x"


async def test_paths_are_added_over_the_network_only_where_the_operator_allows(
    database: Database, clock: MovableClock, tmp_path: Path, project: GitRepo
) -> None:
    allowed = GitRepo(tmp_path / "allowed" / "one")
    (tmp_path / "allowed" / "out").symlink_to(project.path)
    settings: dict[str, Any] = {"repository_paths": (str(tmp_path / "allowed"),)}
    async with repository_world(database, clock, tmp_path / "data", working=False, **settings) as here:
        network = remote(here.principal)
        assert await add(here, str(allowed.path), network) == "one"
        escapes = (project.path, tmp_path / "allowed" / "out", tmp_path / "allowed" / ".." / "My Project", "/nowhere")
        for path in escapes:
            with pytest.raises(Forbidden):
                await add(here, str(path), network)
        assert await add(here, str(project.path)) == "my-project"


async def test_only_who_sees_the_workspace_sees_the_repository(here: RepositoryWorld, project: GitRepo) -> None:
    slug = await add(here, str(project.path))
    elsewhere = replace(here.principal, workspace_ids=frozenset({"ws_other"}))
    other_project = replace(here.principal, project_id="proj_other")
    other_organization = replace(here.principal, organization_id="org_other")
    repositories = here.services.repositories
    for stranger in (elsewhere, other_project, other_organization):
        for call in (repositories.get, repositories.sync, repositories.remove, repositories.syncs, repositories.cancel):
            with pytest.raises(RepositoryNotFound):
                await call(stranger, slug)
        assert (await repositories.list(stranger)).items == []
        with pytest.raises(RepositoryNotFound):
            await repositories.named(stranger, [slug])
    with pytest.raises(WorkspaceNotFound):
        await repositories.add(elsewhere, here.workspace_id, NewRepository(str(project.path)))
    reader = replace(here.principal, scopes=frozenset({"read"}))
    assert (await repositories.get(reader, slug)).slug == slug
    for change in (repositories.sync, repositories.remove):
        with pytest.raises(Forbidden):
            await change(reader, slug)


async def test_repositories_are_listed_in_pages(here: RepositoryWorld, project: GitRepo) -> None:
    slugs = sorted([await add(here, str(project.path), slug=f"page-{number}") for number in range(5)])
    first = await here.services.repositories.list(here.principal, limit=3)
    second = await here.services.repositories.list(here.principal, limit=3, cursor=first.next_cursor)
    assert [row.slug for row in (*first.items, *second.items)] == slugs
    assert second.next_cursor is None
    with pytest.raises(Invalid):
        await here.services.repositories.named(here.principal, [])


async def test_removing_forgets_jobs_and_relations(here: RepositoryWorld, project: GitRepo) -> None:
    repository = await here.services.repositories.add(
        here.principal, here.workspace_id, NewRepository(str(project.path))
    )
    intelligence = here.services.intelligence
    decision = await intelligence.decisions.track(
        here.principal, here.workspace_id, NewDecision("Keep it in one place")
    )
    about = NewRelation(Ref("decision", decision.id), Ref("repository", repository.slug), "about")
    await intelligence.relations.relate(here.principal, here.workspace_id, about)
    await here.services.repositories.remove(here.principal, repository.slug)
    assert (await intelligence.relations.page(here.principal, here.workspace_id)).items == []
    assert (await here.services.jobs.get(str(repository.job_id))).state == "cancelled"
    with pytest.raises(RepositoryNotFound):
        await here.get(repository.slug)
    assert await add(here, str(project.path)) == repository.slug


async def test_a_sync_that_waits_is_not_queued_twice(here: RepositoryWorld, project: GitRepo) -> None:
    slug = await add(here, str(project.path))
    first = await here.services.repositories.sync(here.principal, slug)
    second = await here.services.repositories.sync(here.principal, slug)
    assert first.job_id == second.job_id == (await here.get(slug)).job_id
    assert [job.id for job in await here.services.repositories.work(here.principal, slug)] == [first.job_id]
