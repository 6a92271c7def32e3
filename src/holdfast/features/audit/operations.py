"""Owns `/api/audit`: what happened, as pages, as JSON lines, and the proof that nobody changed it."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.model import Answer, Model, Moment, PageQuery, Text, Time, WorkspaceId
from holdfast.core.operations import Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.audit.model import AuditFilter, Outcome, ProblemKind
from holdfast.features.audit.service import Audit

api = Operations("audit")
_Text = Annotated[Text, Field(max_length=400)]

# The list holds only what the credential sees: a workspace's admins and the keys confined to it see its events.
_AUDIT = ADMINISTER
_VERIFY = Access("organization", "management", role="admin")


class AuditEventAnswer(Answer):
    id: str
    at: Time
    actor: str
    actor_name: str
    proof: str
    action: str
    resource: str
    resource_id: str
    project_id: str | None
    workspace_id: str | None
    outcome: Outcome
    times: int = Field(description="How many repeats of the same refusal within a minute this event stands for")
    detail: dict[str, Any]
    sequence: int | None = Field(description="Its place in the chain; null until it is sealed, within a second")
    hash: str | None


class AuditExportQuery(Model):
    actor: _Text | None = None
    action: _Text | None = Field(default=None, description="This action and everything below it: `workspace.secret`")
    resource: _Text | None = None
    resource_id: _Text | None = None
    workspace_id: Annotated[WorkspaceId, Field(max_length=400)] | None = None
    outcome: Outcome | None = None
    since: Moment = Field(default=None, description="ISO 8601, or 7d for so long ago; from this moment on")
    until: Moment = Field(default=None, description="ISO 8601, or 7d for so long ago; before this moment")


class AuditQuery(AuditExportQuery, PageQuery):
    """Filters and the place in the list."""


class ProblemAnswer(Answer):
    kind: ProblemKind
    sequence: int
    event_id: str | None
    message: str


class VerificationAnswer(Answer):
    intact: bool
    events: int
    unsealed: int
    head_hash: str | None = Field(description="Worth keeping elsewhere: it fixes everything before it")
    problems: list[ProblemAnswer]
    notes: list[str] = Field(description="What could not be compared, and what is known to have happened")


@api.get("/api/audit", _AUDIT, "What happened, newest first")
async def page(audit: Audit, principal: Principal, query: AuditQuery) -> Page[AuditEventAnswer]:
    found = await audit.list(principal, query.into(AuditFilter), cursor=query.cursor, limit=query.limit)
    return found.map(AuditEventAnswer.of)


@api.get("/api/audit/export", _AUDIT, "What happened as JSON lines, newest first", produces="application/x-ndjson")
async def export(audit: Audit, principal: Principal, query: AuditExportQuery) -> Download:
    await audit.check(principal)
    return Download(audit.export(principal, query.into(AuditFilter)), "application/x-ndjson")


@api.get("/api/audit/verify", _VERIFY, "Check the chain of the organization's events")
async def verify(audit: Audit, principal: Principal) -> VerificationAnswer:
    return VerificationAnswer.of(await audit.verify(principal.organization_id))
