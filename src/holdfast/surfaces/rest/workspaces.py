"""Owns `/api/workspaces`: workspaces themselves; what is in them has files of its own."""

from pydantic import Field

from holdfast.core.access import ADMINISTER, ANY, Access
from holdfast.core.clock import iso
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces

_CHANGE_ADMINS = Access("workspace", "management", role="admin", people_only=True)


class WorkspaceView(Model):
    id: str
    uuid: str
    project_id: str
    slug: str
    name: str
    created_at: str


class NewWorkspace(Model):
    project_id: str | None = Field(default=None, description="The credential's own project where absent")
    name: str = Field(min_length=1, max_length=120)


class Renamed(Model):
    name: str = Field(min_length=1, max_length=120)


class WorkspaceQuery(PageQuery):
    project_id: str | None = None


class AdminsView(Model):
    user_ids: list[str]


def operations(workspaces: Workspaces) -> list[Operation]:
    """Everything served here."""

    async def list_workspaces(call: Call) -> Page[WorkspaceView]:
        query: WorkspaceQuery = call.query
        found = await workspaces.list(
            call.principal, project_id=query.project_id, limit=query.limit, cursor=query.cursor
        )
        return found.map(_view)

    async def create(call: Call) -> WorkspaceView:
        project_id = call.body.project_id or call.principal.project_id or ""
        return _view(await workspaces.create(call.principal, project_id, call.body.name))

    async def get(call: Call) -> WorkspaceView:
        return _view(await workspaces.get(call.principal, call.path["workspace_id"]))

    async def rename(call: Call) -> WorkspaceView:
        return _view(await workspaces.rename(call.principal, call.path["workspace_id"], call.body.name))

    async def delete(call: Call) -> None:
        await workspaces.delete(call.principal, call.path["workspace_id"])

    async def admins(call: Call) -> AdminsView:
        found = await workspaces.admins(call.principal, call.path["workspace_id"])
        return AdminsView(user_ids=list(found))

    async def add_admin(call: Call) -> None:
        await workspaces.set_admin(call.principal, call.path["workspace_id"], call.path["user_id"], admin=True)

    async def remove_admin(call: Call) -> None:
        await workspaces.set_admin(call.principal, call.path["workspace_id"], call.path["user_id"], admin=False)

    every, one = "/api/workspaces", "/api/workspaces/{workspace_id}"
    admin = one + "/admins/{user_id}"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_workspaces,
            tag="workspaces",
            access=ANY,
            query=WorkspaceQuery,
            answer=WorkspaceView,
            paged=True,
            summary="Workspaces the credential sees",
        ),
        Operation(
            method="POST",
            path=every,
            handler=create,
            tag="workspaces",
            access=Access("project", "management", role="admin"),
            body=NewWorkspace,
            answer=WorkspaceView,
            status=201,
            summary="Make a workspace",
        ),
        Operation(
            method="GET",
            path=one,
            handler=get,
            tag="workspaces",
            access=ANY,
            answer=WorkspaceView,
            summary="One workspace, by ws_… or UUID",
        ),
        Operation(
            method="PATCH",
            path=one,
            handler=rename,
            tag="workspaces",
            access=ADMINISTER,
            body=Renamed,
            answer=WorkspaceView,
            summary="Rename a workspace",
        ),
        Operation(
            method="DELETE",
            path=one,
            handler=delete,
            tag="workspaces",
            access=ADMINISTER,
            status=204,
            summary="Delete a workspace with everything in it",
        ),
        Operation(
            method="GET",
            path=one + "/admins",
            handler=admins,
            tag="workspaces",
            access=Access("workspace", ("read", "management")),
            answer=AdminsView,
            summary="Who administers just this workspace",
        ),
        Operation(
            method="PUT",
            path=admin,
            handler=add_admin,
            tag="workspaces",
            access=_CHANGE_ADMINS,
            status=204,
            summary="Let a member administer this workspace",
        ),
        Operation(
            method="DELETE",
            path=admin,
            handler=remove_admin,
            tag="workspaces",
            access=_CHANGE_ADMINS,
            status=204,
            summary="Let a member no longer administer this workspace",
        ),
    ]


def _view(value: Workspace) -> WorkspaceView:
    return WorkspaceView(
        id=value.id,
        uuid=value.uuid,
        project_id=value.project_id,
        slug=value.slug,
        name=value.name,
        created_at=iso(value.created_at),
    )
