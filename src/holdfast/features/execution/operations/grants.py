"""Owns the REST operations of grants: only a signed-in person gives one."""

from typing import Annotated

from pydantic import Field

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.model import Deadline, Model, Text, WorkspaceId
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.execution.answers import GrantAnswer
from holdfast.features.execution.model import GrantScope, GrantType, NewGrant, SubjectType
from holdfast.features.execution.policies.grants import Grants

api = Operations("grants")

_BASE = "/api/workspaces/{workspace_id}/grants"
_GIVE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)
_TAKE = Access("workspace", "management", role="admin", tier="exec")


class SubjectBody(Model):
    type: SubjectType
    id: Text = Field(min_length=1, max_length=100)


class GrantDetailsBody(Model):
    scope: Text | None = Field(default=None, max_length=64, description="Of tools, such as linear.write")
    tool: Text | None = Field(default=None, max_length=300, description="One tool, `<server>.<tool>`")
    agent: Text | None = Field(default=None, max_length=100, description="That may be spawned")


class GrantBody(Model):
    workspace: Annotated[WorkspaceId, Field(max_length=100)]
    subject: SubjectBody
    grant_type: GrantType
    details: GrantDetailsBody = GrantDetailsBody()
    scope: GrantScope = "once"
    session_id: Text | None = Field(default=None, max_length=200)
    expires_at: Deadline = None


@api.post("/grants", _GIVE, "Give somebody a right", status=201)
async def give(grants: Grants, principal: Principal, body: GrantBody) -> GrantAnswer:
    new = NewGrant(
        subject_type=body.subject.type,
        subject_id=body.subject.id,
        grant_type=body.grant_type,
        details={name: value for name, value in body.details.model_dump().items() if value},
        scope=body.scope,
        session_id=body.session_id,
        expires_at=body.expires_at,
    )
    return GrantAnswer.shown(await grants.give(principal, body.workspace, new))


@api.get(_BASE, READ_EXEC, "Grants of a workspace that hold")
async def page(grants: Grants, principal: Principal, workspace_id: str) -> Page[GrantAnswer]:
    return Page([GrantAnswer.shown(each) for each in await grants.list(principal, workspace_id)])


@api.delete(_BASE + "/{grant_id}", _TAKE, "End a grant")
async def take(grants: Grants, principal: Principal, workspace_id: str, grant_id: str) -> None:
    await grants.take(principal, workspace_id, grant_id)
