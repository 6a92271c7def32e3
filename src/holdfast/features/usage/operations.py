"""Owns `/api/usage`: sums by key, project, person and week, and the log of calls that used a model."""

from typing import Annotated

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Model, Moment, OrNull, PageQuery, Text, Time, WorkspaceId
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.usage.model import UsageFilter, UsageKind
from holdfast.features.usage.service import DEFAULT_GROUPING, Usage

api = Operations("usage")
_Text = Annotated[Text, Field(max_length=400)]

# Everybody may ask; the service shows those who do not manage the organization or the project their own alone.
_OWN = Access("self", SCOPES)


class UsageRowAnswer(Answer):
    kind: UsageKind
    amount: float
    week: Time | None = Field(description="The Monday 00:00 UTC that began the week")
    day: Time | None
    actor: str | None
    project_id: OrNull
    workspace_id: OrNull
    source: str | None
    model: str | None


class UsageEntryAnswer(Answer):
    id: str
    at: Time
    actor: str
    project_id: OrNull
    workspace_id: OrNull
    source: str
    operation: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float


class UsageFilters(Model):
    since: Moment = Field(default=None, description="ISO 8601, or 7d for so long ago; from this day on")
    until: Moment = Field(default=None, description="ISO 8601, or 7d for so long ago; before this moment")
    actor: _Text | None = None
    project_id: _Text | None = None
    workspace_id: Annotated[WorkspaceId, Field(max_length=400)] | None = None
    source: _Text | None = None
    model: _Text | None = None


class UsageQuery(UsageFilters):
    kind: UsageKind | None = None
    group_by: _Text = Field(
        default=",".join(DEFAULT_GROUPING),
        description="Comma-separated, from week, day, actor, project, workspace, source, model, kind",
    )


class UsageLogQuery(UsageFilters, PageQuery):
    """Filters and the place in the list."""


@api.get("/api/usage", _OWN, "What was used, summed")
async def report(usage: Usage, principal: Principal, query: UsageQuery) -> Page[UsageRowAnswer]:
    grouped = [name.strip() for name in query.group_by.split(",") if name.strip()]
    # The service names the ones it does not know.
    rows = await usage.report(principal, query.into(UsageFilter), grouped)  # type: ignore[arg-type]
    return Page([UsageRowAnswer.of(row) for row in rows])


@api.get("/api/usage/log", _OWN, "Calls that used a model, newest first")
async def log(usage: Usage, principal: Principal, query: UsageLogQuery) -> Page[UsageEntryAnswer]:
    found = await usage.entries(principal, query.into(UsageFilter), cursor=query.cursor, limit=query.limit)
    return found.map(UsageEntryAnswer.of)
