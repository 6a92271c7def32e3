"""Owns `/api/usage`: sums by key, project, person and week, and the log of calls that used a model."""

from typing import Annotated

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso, iso_or_none, parse_time
from holdfast.core.ids import workspace_id_of
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES
from holdfast.features.usage.model import UsageEntry, UsageFilter, UsageKind, UsageRow
from holdfast.features.usage.service import DEFAULT_GROUPING, Usage

Text = Annotated[str, Field(max_length=400, pattern=r"^[^\x00]*$")]

# Everybody may ask; the service shows those who do not manage the organization or the project their own alone.
_OWN = Access("self", SCOPES)


class UsageRowView(Model):
    kind: UsageKind
    amount: float
    week: str | None = Field(description="The Monday 00:00 UTC that began the week")
    day: str | None
    actor: str | None
    project_id: str | None
    workspace_id: str | None
    source: str | None
    model: str | None


class UsageReportView(Model):
    items: list[UsageRowView]


class UsageEntryView(Model):
    id: str
    at: str
    actor: str
    project_id: str | None
    workspace_id: str | None
    source: str
    operation: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float


class UsageFilters(Model):
    since: Text | None = Field(default=None, description="ISO 8601; from this day on")
    until: Text | None = Field(default=None, description="ISO 8601; before this moment")
    actor: Text | None = None
    project_id: Text | None = None
    workspace_id: Text | None = None
    source: Text | None = None
    model: Text | None = None

    def filter(self, kind: UsageKind | None = None) -> UsageFilter:
        """What the service is asked for."""
        workspace = self.workspace_id
        return UsageFilter(
            since=None if self.since is None else parse_time(self.since, "since"),
            until=None if self.until is None else parse_time(self.until, "until"),
            actor=self.actor,
            project_id=self.project_id,
            workspace_id=None if workspace is None else workspace_id_of(workspace) or workspace,
            source=self.source,
            model=self.model,
            kind=kind,
        )


class UsageQuery(UsageFilters):
    kind: UsageKind | None = None
    group_by: Text = Field(
        default=",".join(DEFAULT_GROUPING),
        description="Comma-separated, from week, day, actor, project, workspace, source, model, kind",
    )


class UsageLogQuery(UsageFilters, PageQuery):
    """Filters and the place in the list."""


def operations(usage: Usage) -> list[Operation]:
    """Everything served here."""

    async def report(call: Call) -> UsageReportView:
        query: UsageQuery = call.query
        grouped = [name.strip() for name in query.group_by.split(",") if name.strip()]
        # The service names the ones it does not know.
        rows = await usage.report(call.principal, query.filter(query.kind), grouped)  # type: ignore[arg-type]
        return UsageReportView(items=[_row(row) for row in rows])

    async def log(call: Call) -> Page[UsageEntryView]:
        query: UsageLogQuery = call.query
        found = await usage.entries(call.principal, query.filter(), cursor=query.cursor, limit=query.limit)
        return found.map(_entry)

    return [
        Operation(
            method="GET",
            path="/api/usage",
            handler=report,
            tag="usage",
            access=_OWN,
            query=UsageQuery,
            answer=UsageReportView,
            summary="What was used, summed",
        ),
        Operation(
            method="GET",
            path="/api/usage/log",
            handler=log,
            tag="usage",
            access=_OWN,
            query=UsageLogQuery,
            answer=UsageEntryView,
            paged=True,
            summary="Calls that used a model, newest first",
        ),
    ]


def _row(row: UsageRow) -> UsageRowView:
    return UsageRowView(
        kind=row.kind,
        amount=row.amount,
        week=iso_or_none(row.week),
        day=iso_or_none(row.day),
        actor=row.actor,
        project_id=row.project_id or None,
        workspace_id=row.workspace_id or None,
        source=row.source,
        model=row.model,
    )


def _entry(entry: UsageEntry) -> UsageEntryView:
    return UsageEntryView(
        id=entry.id,
        at=iso(entry.at),
        actor=entry.actor,
        project_id=entry.project_id or None,
        workspace_id=entry.workspace_id or None,
        source=entry.source,
        operation=entry.operation,
        model=entry.model,
        tokens_in=entry.tokens_in,
        tokens_out=entry.tokens_out,
        cost=entry.cost,
    )
