"""Owns what REST and the command line show of invocations, approvals and grants."""

from typing import Any

from pydantic import Field

from holdfast.core.model import Answer, Time
from holdfast.features.execution.approvals.service import PendingCall
from holdfast.features.execution.model import (
    Approval,
    ApprovalState,
    GrantScope,
    GrantType,
    Invocation,
    PermissionGrant,
    Status,
    SubjectType,
    Via,
)


class CallProgressAnswer(Answer):
    done: float
    total: float | None
    message: str


class ApprovalStateAnswer(Answer):
    id: str
    state: ApprovalState
    expires_at: Time
    decided_at: Time | None
    decided_by: str | None
    via: Via | None
    note: str | None


class InvocationAnswer(Answer):
    invocation_id: str = Field(validation_alias="id")
    tool_name: str
    status: Status
    requested_by: str
    requested_name: str
    source: str = Field(description="The way it came: mcp, chat, rest or cli")
    arguments: dict[str, Any]
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    progress: CallProgressAnswer | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    granted_via: str | None = Field(description="The grant or approval that let it run")
    approval: ApprovalStateAnswer | None
    approval_url: str | None = Field(default=None, description="Where a person decides, while it waits for one")

    @classmethod
    def shown(cls, invocation: Invocation, approval_url: str | None = None) -> "InvocationAnswer":
        """An invocation, with the link for a person where it waits for one."""
        return cls.of(invocation, approval_url=approval_url)


class DifferenceAnswer(Answer):
    name: str
    before: Any
    after: Any


class ApprovalAnswer(Answer):
    id: str
    invocation_id: str
    workspace_id: str
    state: ApprovalState
    tool_name: str
    arguments: dict[str, Any]
    requested_by: str
    requested_name: str
    approval_url: str
    created_at: Time
    expires_at: Time
    decided_at: Time | None
    decided_by: str | None
    via: Via | None
    note: str | None
    difference: list[DifferenceAnswer] | None = Field(
        description="By argument, from the last call of this tool that a person approved for this asker; null if none"
    )
    may_allow_session: bool = Field(description="Whether `session` can be decided: not for destructive tools")

    @classmethod
    def shown(cls, pending: PendingCall, approval_url: str) -> "ApprovalAnswer":
        """A question with the call that it is about."""
        invocation = pending.invocation
        return cls.of(
            pending.approval,
            tool_name=invocation.tool_name,
            arguments=dict(invocation.arguments),
            requested_by=invocation.requested_by,
            requested_name=invocation.requested_name,
            approval_url=approval_url,
            difference=None
            if pending.last_approved is None
            else [DifferenceAnswer.of(each) for each in pending.changes],
            may_allow_session=pending.may_allow_session,
        )


class DecidedAnswer(Answer):
    id: str
    invocation_id: str
    state: ApprovalState
    decided_at: Time | None
    decided_by: str | None
    via: Via | None
    note: str | None

    @classmethod
    def shown(cls, approval: Approval) -> "DecidedAnswer":
        """A question as it was decided."""
        return cls.of(approval)


class ExecutionSettingAnswer(Answer):
    log_arguments: bool
    sampling_approvals: bool
    webhook_url: str | None
    webhook_secret: str | None


class SubjectAnswer(Answer):
    type: SubjectType
    id: str


class GrantAnswer(Answer):
    grant_id: str
    workspace_id: str
    subject: SubjectAnswer
    grant_type: GrantType
    details: dict[str, str]
    scope: GrantScope
    session_id: str | None
    created_at: Time
    created_by: str
    expires_at: Time | None

    @classmethod
    def shown(cls, grant: PermissionGrant) -> "GrantAnswer":
        """A grant."""
        subject = SubjectAnswer(type=grant.subject_type, id=grant.subject_id)
        return cls.of(grant, grant_id=grant.id, subject=subject)
