"""Owns the REST operations of approvals: who may look, and the one that decides, which takes a signed-in person."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.model import Model, PageQuery, Text
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.execution.answers import ApprovalAnswer, DecidedAnswer
from holdfast.features.execution.approvals.service import MAX_NOTE, ApprovalDecision, Approvals
from holdfast.features.execution.model import ApprovalState

api = Operations("approvals")

# Which person may decide, the workspace says; keys never.
_DECIDE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)


class ApprovalQuery(PageQuery):
    state: ApprovalState | None = Field(default=None, description="Only those in this state")


class ApprovalBody(Model):
    decision: Literal["approve", "deny"]
    note: Text = Field(default="", max_length=MAX_NOTE, description="Why; the asker reads it")
    session: bool = Field(
        default=False, description="Let them for the rest of the session or chat; never for a destructive tool"
    )
    always: bool = Field(default=False, description="Let the same asker call the same tool without asking from now on")


@api.get("/api/workspaces/{workspace_id}/approvals", READ_EXEC, "Calls that wait or waited for a person")
async def page(
    approvals: Approvals, principal: Principal, workspace_id: str, query: ApprovalQuery
) -> Page[ApprovalAnswer]:
    found = await approvals.list(principal, workspace_id, state=query.state, cursor=query.cursor, limit=query.limit)
    return found.map(lambda each: ApprovalAnswer.shown(each, approvals.url_of(each.approval)))


@api.post("/api/approvals/{approval_id}", _DECIDE, "Approve or deny a call")
async def decide(approvals: Approvals, principal: Principal, approval_id: str, body: ApprovalBody) -> DecidedAnswer:
    decision = ApprovalDecision(body.decision == "approve", body.note, body.always, body.session)
    return DecidedAnswer.shown(await approvals.decide(principal, approval_id, decision, "api"))
