"""Owns `/api/workspaces`: workspaces themselves; what is in them has files of its own."""

from pydantic import Field

from holdfast.core.access import ADMINISTER, ANY, Access
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.identity.service import Identity
from holdfast.features.workspaces.service import Workspaces

api = Operations("workspaces")

_BASE = "/api/workspaces"
_ONE = "/api/workspaces/{workspace_id}"
_ADMIN = _ONE + "/admins/{user_id}"
_CHANGE_ADMINS = Access("workspace", "management", role="admin", people_only=True)


class WorkspaceAnswer(Answer):
    id: str
    uuid: str
    project_id: str
    slug: str
    name: str
    created_at: Time


class WorkspaceBody(Model):
    project_id: str | None = Field(default=None, description="The credential's own project where absent")
    name: str = Field(min_length=1, max_length=120)


class WorkspaceChangeBody(Model):
    name: str = Field(min_length=1, max_length=120)


class WorkspaceQuery(PageQuery):
    project_id: str | None = None


class AdminsAnswer(Answer):
    user_ids: list[str]


@api.get(_BASE, ANY, "Workspaces the credential sees")
async def page(
    workspaces: Workspaces, identity: Identity, principal: Principal, query: WorkspaceQuery
) -> Page[WorkspaceAnswer]:
    project = query.project_id and await identity.project_id(principal, query.project_id)
    found = await workspaces.list(principal, project_id=project, limit=query.limit, cursor=query.cursor)
    return found.map(WorkspaceAnswer.of)


@api.post(_BASE, Access("project", "management", role="admin"), "Make a workspace", status=201)
async def create(
    workspaces: Workspaces, identity: Identity, principal: Principal, body: WorkspaceBody
) -> WorkspaceAnswer:
    project_id = await identity.project_id(principal, body.project_id or principal.project_id or "")
    return WorkspaceAnswer.of(await workspaces.create(principal, project_id, body.name))


@api.get(_ONE, ANY, "One workspace, by its id, UUID or slug")
async def get(workspaces: Workspaces, principal: Principal, workspace_id: str) -> WorkspaceAnswer:
    return WorkspaceAnswer.of(await workspaces.get(principal, workspace_id))


@api.patch(_ONE, ADMINISTER, "Rename a workspace")
async def rename(
    workspaces: Workspaces, principal: Principal, workspace_id: str, body: WorkspaceChangeBody
) -> WorkspaceAnswer:
    return WorkspaceAnswer.of(await workspaces.rename(principal, workspace_id, body.name))


@api.delete(_ONE, ADMINISTER, "Delete a workspace with everything in it")
async def delete(workspaces: Workspaces, principal: Principal, workspace_id: str) -> None:
    await workspaces.delete(principal, workspace_id)


@api.get(_ONE + "/admins", Access("workspace", ("read", "management")), "Who administers just this workspace")
async def admins(workspaces: Workspaces, principal: Principal, workspace_id: str) -> AdminsAnswer:
    return AdminsAnswer(user_ids=list(await workspaces.admins(principal, workspace_id)))


@api.put(_ADMIN, _CHANGE_ADMINS, "Let a member administer this workspace")
async def add_admin(workspaces: Workspaces, principal: Principal, workspace_id: str, user_id: str) -> None:
    await workspaces.set_admin(principal, workspace_id, user_id, admin=True)


@api.delete(_ADMIN, _CHANGE_ADMINS, "Let a member no longer administer this workspace")
async def remove_admin(workspaces: Workspaces, principal: Principal, workspace_id: str, user_id: str) -> None:
    await workspaces.set_admin(principal, workspace_id, user_id, admin=False)
