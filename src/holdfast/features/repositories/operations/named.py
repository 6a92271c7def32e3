"""Owns which repositories an operation is about: those that its path or query names, in the workspace of its path."""

from collections.abc import Sequence

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.core.text.slugs import is_slug
from holdfast.features.repositories.model import RepositoryNotFound
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories
from holdfast.features.workspaces.service import Workspaces

BASE = "/api/workspaces/{workspace_id}/repositories"
ONE = BASE + "/{slug}"
TAG = "repositories"


async def check_within(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slugs: Sequence[str]
) -> None:
    """NotFound for a repository of another workspace, like for one that is not there."""
    workspace = await workspaces.get(principal, workspace_id)
    for slug in slugs:
        if not is_slug(slug):
            raise RepositoryNotFound(slug[:200])
        if (await repositories.get(principal, slug)).workspace_id != workspace.id:
            raise RepositoryNotFound(slug)


async def chosen(
    repositories: Repositories, workspaces: Workspaces, principal: Principal, workspace_id: str, slugs: Sequence[str]
) -> Sequence[str]:
    """The repositories that were named, or all of the workspace's."""
    if slugs:
        await check_within(repositories, workspaces, principal, workspace_id, slugs)
        return slugs
    page = await repositories.list(principal, workspace_id=workspace_id, limit=MAX_REPOSITORIES_ASKED)
    if page.next_cursor is not None:
        problem = f"this workspace has more than {MAX_REPOSITORIES_ASKED} repositories; name some of them"
        raise Invalid("Which repositories?", fields=[FieldError("slugs", problem)])
    return [each.slug for each in page.items]
