"""Owns what an invocation is, the states that it goes through, and what decides about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.core.errors import Conflict, Forbidden, NotFound
from holdfast.core.principal import Principal

Status = Literal["queued", "awaiting_approval", "running", "succeeded", "failed", "cancelled", "denied", "expired"]
ApprovalState = Literal["pending", "approved", "denied", "expired", "cancelled"]
APPROVAL_STATES: tuple[ApprovalState, ...] = ("pending", "approved", "denied", "expired", "cancelled")
Via = Literal["page", "api", "cli", "sampling"]
SubjectType = Literal["agent", "user", "key"]
GrantType = Literal["tool_scope", "spawn"]
GrantScope = Literal["once", "session", "persistent"]

FINAL: frozenset[Status] = frozenset({"succeeded", "failed", "cancelled", "denied", "expired"})
UNKNOWN_OUTCOME = "outcome_unknown"


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far the server says it is."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One question to a person, about one call with exactly these arguments of exactly this tool."""

    id: str
    invocation_id: str
    workspace_id: str
    token: str
    digest: str
    state: ApprovalState
    created_at: int
    expires_at: int
    decided_at: int | None = None
    decided_by: str | None = None
    via: Via | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of an enrolled tool, from being asked for to its end."""

    id: str
    workspace_id: str
    server_id: str
    tool_name: str
    tool_digest: str
    arguments: Mapping[str, Any]
    arguments_digest: str
    status: Status
    requested_by: str
    requested_name: str
    principal: Principal
    source: str
    session_id: str | None
    chat_id: str | None
    once_key: str
    job_id: str | None = None
    granted_via: str | None = None
    sent_at: int | None = None
    """When bytes may first have gone to the tool; from then on it is not run again by itself."""
    progress: CallProgress | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    approval: Approval | None = None

    @property
    def finished(self) -> bool:
        return self.status in FINAL

    @property
    def place(self) -> str | None:
        """The session or chat that it comes from: what a grant for a session is for."""
        return self.session_id or self.chat_id


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationRequest:
    """Somebody wants a tool run."""

    principal: Principal
    workspace_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    source: str
    """The way it came: mcp, chat, rest, cli."""
    session_id: str | None = None
    chat_id: str | None = None
    fresh: bool = False
    """Whether a tool that changes nothing is run anew although an equal call ended a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionGrant:
    """A right that a person gave to an agent, a person or a key."""

    id: str
    workspace_id: str
    subject_type: SubjectType
    subject_id: str
    grant_type: GrantType
    details: Mapping[str, str]
    """`scope` of tools, or one `tool` as `<server>.<tool>`; `agent` that may be spawned."""
    scope: GrantScope
    session_id: str | None
    created_at: int
    created_by: str
    expires_at: int | None
    used_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant:
    """What a person wants to give."""

    subject_type: SubjectType
    subject_id: str
    grant_type: GrantType
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    scope: GrantScope = "once"
    session_id: str | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class ExecutionSetting:
    """What a workspace's admins switched on."""

    log_arguments: bool = False
    """Whether arguments and results of calls are put into the audit log."""
    sampling_approvals: bool = False
    """Whether a client's own model may approve calls that destroy nothing."""
    webhook_url: str | None = None
    """Where pending approvals are announced."""
    webhook_secret: str | None = None
    """The name of the secret that announcements are signed with."""


class InvocationNotFound(NotFound):
    """No such invocation for this caller."""

    def __init__(self, id: str) -> None:
        super().__init__("invocation", id[:80])


class ApprovalNotFound(NotFound):
    """No such approval for this person."""

    def __init__(self, id: str) -> None:
        super().__init__("approval", id[:80])


class GrantNotFound(NotFound):
    """No such grant in the workspace."""

    def __init__(self, id: str) -> None:
        super().__init__("grant", id[:80])


class AlreadyDecided(Conflict):
    """The question was answered, withdrawn or too old; nothing changed."""

    code = "already_decided"


class ToolHeldBack(Forbidden):
    """The tool exists but is not called now: switched off, in quarantine, gone, or denied by its policy."""

    code = "tool_held_back"
