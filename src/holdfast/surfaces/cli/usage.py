"""Owns `holdfast usage`."""

from typing import Any

import click

from holdfast.core.clock import iso_or_none, parse_time
from holdfast.features.usage.model import GROUPINGS, KINDS, Grouping, UsageFilter, UsageKind, UsageRow
from holdfast.features.usage.service import DEFAULT_GROUPING
from holdfast.surfaces.cli.frame import Session, command

_parent = click.Group("holdfast")
_COLUMN_OF = {"project": "project_id", "workspace": "workspace_id"}


@command(
    _parent,
    "usage",
    click.option("--since", metavar="TIME", help="From this day on, such as 2026-11-16."),
    click.option("--until", metavar="TIME", help="Before this moment."),
    click.option("--actor", metavar="ID", help="Of one key or person."),
    click.option("--project", metavar="ID", help="Of one project."),
    click.option("--kind", type=click.Choice(KINDS)),
    click.option(
        "--by",
        "grouped",
        type=click.Choice(GROUPINGS),
        multiple=True,
        help=f"Sum by this (repeatable; {', '.join(DEFAULT_GROUPING)} where absent).",
    ),
    help="Show what was used, by key, project, person and week (weeks begin on Monday, UTC).",
)
async def usage(
    session: Session,
    since: str | None,
    until: str | None,
    actor: str | None,
    project: str | None,
    kind: UsageKind | None,
    grouped: tuple[Grouping, ...],
) -> None:
    wanted = UsageFilter(
        since=None if since is None else parse_time(since, "--since"),
        until=None if until is None else parse_time(until, "--until"),
        actor=actor,
        project_id=project,
        kind=kind,
    )
    by = grouped or DEFAULT_GROUPING
    rows = await session.services.usage.report(session.principal, wanted, by)
    columns = [_COLUMN_OF.get(name, name) for name in by if name != "kind"]
    session.out.table([_row(row) for row in rows], [*columns, "kind", "amount"], empty="Nothing was used.")


def _row(row: UsageRow) -> dict[str, Any]:
    return {
        "week": iso_or_none(row.week),
        "day": iso_or_none(row.day),
        "actor": row.actor,
        "project_id": row.project_id or None,
        "workspace_id": row.workspace_id or None,
        "source": row.source,
        "model": row.model,
        "kind": row.kind,
        "amount": int(row.amount) if row.amount == int(row.amount) else row.amount,
    }
