"""Owns `holdfast workspaces`."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, Named, Option, Session
from holdfast.core.errors import Invalid
from holdfast.features.identity.service import Identity
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.operations import WorkspaceAnswer
from holdfast.features.workspaces.service import Workspaces

workspaces = Commands("workspaces", help="Workspaces: where knowledge lives.")

_Project = Annotated[str | None, Option(metavar="P")]


class New(Named):
    """What `create` is given."""

    project: _Project = Field(None, description="The project (the first one where absent).")


@workspaces.command("create", help="Make a workspace.", begins_store=True)
async def create(session: Session, identity: Identity, service: Workspaces, given: New) -> None:
    project = given.project and await identity.project_id(session.principal, given.project)
    if project is None:
        found = await identity.projects(session.principal, limit=1)
        project = found.items[0].id if found.items else ""
    session.out.record(_row(await service.create(session.principal, project, given.its_name)))


class Listing(Given):
    """What `list` is given."""

    project: _Project = None


@workspaces.command("list", help="List workspaces.")
async def list_(session: Session, identity: Identity, service: Workspaces, given: Listing) -> None:
    project = given.project and await identity.project_id(session.principal, given.project)
    found = await service.list(session.principal, project_id=project, limit=200)
    session.out.table(map(_row, found.items), ["workspace_id", "slug", "name", "project_id", "created_at"])


class Rename(Given):
    """What `rename` is given."""

    workspace: Annotated[str, Argument()]
    name: str


@workspaces.command("rename", help="Rename a workspace.")
async def rename(session: Session, service: Workspaces, given: Rename) -> None:
    id = await session.workspace(given.workspace)
    session.out.record(_row(await service.rename(session.principal, id, given.name)))


class Delete(Given):
    """What `delete` is given."""

    workspace: Annotated[str, Argument()]
    yes: bool = Field(False, description="Really delete it with everything in it.")


@workspaces.command("delete", help="Delete a workspace with everything in it.")
async def delete(session: Session, service: Workspaces, given: Delete) -> None:
    if not given.yes:
        raise Invalid("This deletes everything in the workspace for good; say --yes if you mean it.")
    id = await session.workspace(given.workspace)
    await service.delete(session.principal, id)
    session.out.record({"workspace_id": id, "deleted": True})


def _row(workspace: Workspace) -> dict[str, Any]:
    # CONTRACT.md pins the name of the id here.
    return {"workspace_id": workspace.id, **WorkspaceAnswer.of(workspace).model_dump()}
