"""Owns `holdfast projects`."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, Named, Session
from holdfast.core.errors import Invalid
from holdfast.features.identity.model import Project
from holdfast.features.identity.operations.organizations import ProjectAnswer
from holdfast.features.identity.service import Identity

projects = Commands("projects", help="Projects: the boundary of API keys.")


class New(Named):
    """What `create` is given."""


@projects.command("create", help="Make a project.", begins_store=True)
async def create(session: Session, identity: Identity, given: New) -> None:
    session.out.record(_row(await identity.create_project(session.principal, given.its_name)))


@projects.command("list", help="List projects.")
async def list_(session: Session, identity: Identity) -> None:
    found = await identity.projects(session.principal, limit=200)
    session.out.table(map(_row, found.items), ["project_id", "slug", "name", "created_at"])


class Delete(Given):
    """What `delete` is given."""

    project_id: Annotated[str, Argument()]
    yes: bool = Field(False, description="Really delete it with everything in it.")


@projects.command("delete", help="Delete a project with its keys, workspaces and everything in them.")
async def delete(session: Session, identity: Identity, given: Delete) -> None:
    if not given.yes:
        raise Invalid("This deletes everything in the project for good; say --yes if you mean it.")
    project_id = await identity.project_id(session.principal, given.project_id)
    await identity.delete_project(session.principal, project_id)
    session.out.record({"project_id": project_id, "deleted": True})


def _row(project: Project) -> dict[str, Any]:
    # CONTRACT.md pins the name of the id here.
    return {"project_id": project.id, **ProjectAnswer.of(project).model_dump()}
