"""Owns a small real repository for the Keystone tests, and bringing one into a server."""

from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.features.repositories.model import NewRepository, Repository
from tests.support.code.git import GitRepo
from tests.support.services import Services
from tests.surfaces.mcp.harness import until

WHY = "Why are sessions kept in the database?"


def small_repository(path: Path) -> GitRepo:
    """Three commits with a reason in one of them."""
    repo = GitRepo(path)
    repo.write("README.md", "# My API\n\nServes orders over HTTP.\n")
    repo.commit("Begin")
    repo.write("src/sessions.py", "def issue_session(user: str) -> str:\n    return store(user)\n")
    repo.commit("Keep sessions in the database\n\nSigned cookies could not be revoked; rows in the database can.")
    repo.write("src/uploads.py", "ATTEMPTS = 3\n")
    repo.commit("Retry uploads three times\n\nThe storage drops connections under load.")
    return repo


async def ingest(services: Services, principal: Principal, workspace_id: str, repo: GitRepo, slug: str) -> Repository:
    """Add a repository and wait until it is read."""
    new = NewRepository(location=str(repo.path), slug=slug, name="My API")
    await services.repositories.add(principal, workspace_id, new)

    async def is_read() -> bool:
        found = await services.repositories.get(principal, slug)
        assert found.state != "failed", found.reason
        return found.state == "ready"

    await until(is_read, 60)
    return await services.repositories.get(principal, slug)
