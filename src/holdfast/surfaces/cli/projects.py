"""Owns `holdfast projects` and `holdfast workspaces`."""

from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.core.errors import Invalid
from holdfast.features.identity.model import Project
from holdfast.features.workspaces.model import Workspace
from holdfast.surfaces.cli.frame import Session, command

projects = click.Group("projects", help="Projects: the boundary of API keys.")
workspaces = click.Group("workspaces", help="Workspaces: where knowledge lives.")

_name = click.option("--name", required=True)


@command(projects, "create", _name, help="Make a project.")
async def create_project(session: Session, name: str) -> None:
    session.out.record(_project(await session.services.identity.create_project(session.principal, name)))


@command(projects, "list", help="List projects.")
async def list_projects(session: Session) -> None:
    found = await session.services.identity.projects(session.principal, limit=200)
    session.out.table([_project(each) for each in found.items], ["project_id", "slug", "name", "created_at"])


@command(
    projects,
    "delete",
    click.argument("project_id"),
    click.option("--yes", is_flag=True, help="Really delete it with everything in it."),
    help="Delete a project with its keys, workspaces and everything in them.",
)
async def delete_project(session: Session, project_id: str, yes: bool) -> None:
    if not yes:
        raise Invalid("This deletes everything in the project for good; say --yes if you mean it.")
    await session.services.identity.delete_project(session.principal, project_id)
    session.out.record({"project_id": project_id, "deleted": True})


@command(
    workspaces,
    "create",
    click.option("--project", metavar="P", help="The project (the first one where absent)."),
    _name,
    help="Make a workspace.",
)
async def create_workspace(session: Session, project: str | None, name: str) -> None:
    if project is None:
        found = await session.services.identity.projects(session.principal, limit=1)
        project = found.items[0].id if found.items else ""
    session.out.record(_workspace(await session.services.workspaces.create(session.principal, project, name)))


@command(workspaces, "list", click.option("--project", metavar="P"), help="List workspaces.")
async def list_workspaces(session: Session, project: str | None) -> None:
    found = await session.services.workspaces.list(session.principal, project_id=project, limit=200)
    columns = ["workspace_id", "slug", "name", "project_id", "created_at"]
    session.out.table([_workspace(each) for each in found.items], columns)


@command(workspaces, "rename", click.argument("workspace"), _name, help="Rename a workspace.")
async def rename_workspace(session: Session, workspace: str, name: str) -> None:
    id = await session.workspace(workspace)
    session.out.record(_workspace(await session.services.workspaces.rename(session.principal, id, name)))


@command(
    workspaces,
    "delete",
    click.argument("workspace"),
    click.option("--yes", is_flag=True, help="Really delete it with everything in it."),
    help="Delete a workspace with everything in it.",
)
async def delete_workspace(session: Session, workspace: str, yes: bool) -> None:
    if not yes:
        raise Invalid("This deletes everything in the workspace for good; say --yes if you mean it.")
    id = await session.workspace(workspace)
    await session.services.workspaces.delete(session.principal, id)
    session.out.record({"workspace_id": id, "deleted": True})


def _project(value: Project) -> dict[str, Any]:
    return {"project_id": value.id, "slug": value.slug, "name": value.name, "created_at": iso(value.created_at)}


def _workspace(value: Workspace) -> dict[str, Any]:
    return {
        "workspace_id": value.id,
        "uuid": value.uuid,
        "project_id": value.project_id,
        "slug": value.slug,
        "name": value.name,
        "created_at": iso(value.created_at),
    }
