"""Owns `/api/audit`: what happened, as pages, as JSON lines, and the proof that nobody changed it."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.clock import iso, parse_time
from holdfast.core.ids import workspace_id_of
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.paging import Page
from holdfast.features.audit.model import AuditEvent, AuditFilter, Outcome, Problem, ProblemKind
from holdfast.features.audit.service import Audit

Text = Annotated[str, Field(max_length=400, pattern=r"^[^\x00]*$")]

# The list holds only what the credential sees: a workspace's admins and the keys confined to it see its events.
_AUDIT = ADMINISTER
_VERIFY = Access("organization", "management", role="admin")


class AuditEventView(Model):
    id: str
    at: str
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


class AuditFilters(Model):
    actor: Text | None = None
    action: Text | None = Field(default=None, description="This action and everything below it: `workspace.secret`")
    resource: Text | None = None
    resource_id: Text | None = None
    workspace_id: Text | None = None
    outcome: Outcome | None = None
    since: Text | None = Field(default=None, description="ISO 8601; from this moment on")
    until: Text | None = Field(default=None, description="ISO 8601; before this moment")

    def filter(self) -> AuditFilter:
        """What the service is asked for."""
        workspace = self.workspace_id
        return AuditFilter(
            actor=self.actor,
            action=self.action,
            resource=self.resource,
            resource_id=self.resource_id,
            workspace_id=None if workspace is None else workspace_id_of(workspace) or workspace,
            outcome=self.outcome,
            since=None if self.since is None else parse_time(self.since, "since"),
            until=None if self.until is None else parse_time(self.until, "until"),
        )


class AuditQuery(AuditFilters, PageQuery):
    """Filters and the place in the list."""


class ProblemView(Model):
    kind: ProblemKind
    sequence: int
    event_id: str | None
    message: str


class VerificationView(Model):
    intact: bool
    events: int
    unsealed: int
    head_hash: str | None = Field(description="Worth keeping elsewhere: it fixes everything before it")
    problems: list[ProblemView]
    notes: list[str] = Field(description="What could not be compared, and what is known to have happened")


def operations(audit: Audit) -> list[Operation]:
    """Everything served here."""

    async def list_events(call: Call) -> Page[AuditEventView]:
        query: AuditQuery = call.query
        found = await audit.list(call.principal, query.filter(), cursor=query.cursor, limit=query.limit)
        return found.map(view)

    async def export(call: Call) -> Download:
        query: AuditFilters = call.query
        await audit.check(call.principal)
        return Download(audit.export(call.principal, query.filter()), "application/x-ndjson")

    async def verify(call: Call) -> VerificationView:
        found = await audit.verify(call.principal.organization_id)
        return VerificationView(
            intact=found.intact,
            events=found.events,
            unsealed=found.unsealed,
            head_hash=found.head_hash,
            problems=[_problem(problem) for problem in found.problems],
            notes=list(found.notes),
        )

    return [
        Operation(
            method="GET",
            path="/api/audit",
            handler=list_events,
            tag="audit",
            access=_AUDIT,
            query=AuditQuery,
            answer=AuditEventView,
            paged=True,
            summary="What happened, newest first",
        ),
        Operation(
            method="GET",
            path="/api/audit/export",
            handler=export,
            tag="audit",
            access=_AUDIT,
            query=AuditFilters,
            produces="application/x-ndjson",
            summary="What happened as JSON lines, newest first",
        ),
        Operation(
            method="GET",
            path="/api/audit/verify",
            handler=verify,
            tag="audit",
            access=_VERIFY,
            answer=VerificationView,
            summary="Check the chain of the organization's events",
        ),
    ]


def view(event: AuditEvent) -> AuditEventView:
    """An event as the API shows it."""
    return AuditEventView(
        id=event.id,
        at=iso(event.at),
        actor=event.actor,
        actor_name=event.actor_name,
        proof=event.proof,
        action=event.action,
        resource=event.resource,
        resource_id=event.resource_id,
        project_id=event.project_id,
        workspace_id=event.workspace_id,
        outcome=event.outcome,
        times=event.times,
        detail=dict(event.detail),
        sequence=event.sequence,
        hash=event.hash,
    )


def _problem(problem: Problem) -> ProblemView:
    return ProblemView(kind=problem.kind, sequence=problem.sequence, event_id=problem.event_id, message=problem.message)
