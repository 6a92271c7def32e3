"""Owns `holdfast usage`."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Given, Moment, Option, Session, command
from holdfast.features.usage.model import Grouping, UsageFilter, UsageKind
from holdfast.features.usage.operations import UsageRowAnswer
from holdfast.features.usage.service import DEFAULT_GROUPING, Usage

_COLUMN_OF = {"project": "project_id", "workspace": "workspace_id"}


class Wanted(Given):
    """What `usage` is given."""

    since: Moment = Field(None, description="From this day on, such as 2026-11-16.")
    until: Moment = Field(None, description="Before this moment.")
    actor: Annotated[str | None, Option(metavar="ID")] = Field(None, description="Of one key or person.")
    project: Annotated[str | None, Option(metavar="ID")] = Field(None, description="Of one project.")
    kind: UsageKind | None = None
    by: list[Grouping] = Field([], description=f"Sum by this (repeatable; {', '.join(DEFAULT_GROUPING)} where absent).")


@command("usage", help="Show what was used, by key, project, person and week (weeks begin on Monday, UTC).")
async def usage(session: Session, counted: Usage, given: Wanted) -> None:
    wanted = UsageFilter(
        since=given.since, until=given.until, actor=given.actor, project_id=given.project, kind=given.kind
    )
    by = tuple(given.by) or DEFAULT_GROUPING
    rows = await counted.report(session.principal, wanted, by)
    columns = [_COLUMN_OF.get(name, name) for name in by if name != "kind"]
    session.out.table(map(UsageRowAnswer.of, rows), [*columns, "kind", "amount"], empty="Nothing was used.")
