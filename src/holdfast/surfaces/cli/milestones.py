"""Owns `holdfast milestones`: add, list, show, edit, delete; and `holdfast timeline`."""

from typing import Any

import click

from holdfast.core.clock import iso, parse_time
from holdfast.features.intelligence.model import Milestone, MilestoneEdit, MilestoneFilter, NewMilestone
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("milestones", help="What the project reached, and when.")

_COLUMNS = ["id", "occurred_at", "type", "title", "decisions"]
_id = click.argument("milestone_id", metavar="ID")
_decisions = click.option("--decision", multiple=True, metavar="ID", help="A decision it carries out; may be repeated.")
_at = click.option("--at", metavar="TIME", help="When it was reached (default: now).")
_filters = (
    workspace_option,
    click.option("--type", "type_", metavar="TYPE", help="Only those of this type."),
    click.option("--since", metavar="TIME", help="Reached then or later."),
    click.option("--until", metavar="TIME", help="Reached then or earlier."),
    click.option("--decision", metavar="ID", help="Only those related to this decision."),
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
)


@command(
    group,
    "add",
    click.argument("title"),
    workspace_option,
    click.option("--type", "type_", default="milestone", show_default=True, help="snake_case, such as release."),
    click.option("--description", default=""),
    _at,
    _decisions,
    help="Track a milestone.",
)
async def add(
    session: Session,
    title: str,
    workspace: str | None,
    type_: str,
    description: str,
    at: str | None,
    decision: tuple[str, ...],
) -> None:
    id = await session.workspace(workspace)
    new = NewMilestone(title, type_, description, _moment(at, "at"), decision)
    kept = await session.services.intelligence.milestones.track(session.principal, id, new)
    session.out.record(_record(kept), [f"Tracked {kept.id}."])


@command(group, "show", _id, workspace_option, help="Show a milestone.")
async def show(session: Session, milestone_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    session.out.record(_record(await session.services.intelligence.milestones.get(session.principal, id, milestone_id)))


@command(
    group,
    "edit",
    _id,
    workspace_option,
    click.option("--title"),
    click.option("--type", "type_"),
    click.option("--description"),
    _at,
    _decisions,
    help="Change a milestone; what is not given stays.",
)
async def edit(
    session: Session,
    milestone_id: str,
    workspace: str | None,
    title: str | None,
    type_: str | None,
    description: str | None,
    at: str | None,
    decision: tuple[str, ...],
) -> None:
    id = await session.workspace(workspace)
    change = MilestoneEdit(title, type_, description, _moment(at, "at"), decision or None)
    kept = await session.services.intelligence.milestones.edit(session.principal, id, milestone_id, change)
    session.out.record(_record(kept), [f"Changed {kept.id}."])


@command(group, "delete", _id, workspace_option, help="Delete a milestone and its relations.")
async def delete(session: Session, milestone_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    await session.services.intelligence.milestones.delete(session.principal, id, milestone_id)
    session.out.record({"milestone_id": milestone_id, "deleted": True}, [f"Deleted {milestone_id}."])


async def _timeline(
    session: Session,
    workspace: str | None,
    type_: str | None,
    since: str | None,
    until: str | None,
    decision: str | None,
    limit: int,
) -> None:
    id = await session.workspace(workspace)
    wanted = MilestoneFilter(type_, _moment(since, "since"), _moment(until, "until"), decision)
    page = await session.services.intelligence.milestones.timeline(session.principal, id, wanted, limit=limit)
    session.out.table((_record(each) for each in page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


list_ = command(group, "list", *_filters, help="List milestones, newest first.")(_timeline)
timeline = command(click.Group(), "timeline", *_filters, help="Show the project's milestones, newest first.")(_timeline)
"""A command of its own, at the top level."""


def _record(milestone: Milestone) -> dict[str, Any]:
    return {
        "id": milestone.id,
        "title": milestone.title,
        "type": milestone.type,
        "description": milestone.description,
        "occurred_at": iso(milestone.occurred_at),
        "decisions": list(milestone.decisions),
        "author": milestone.author_name or milestone.author,
        "created_at": iso(milestone.created_at),
        "updated_at": iso(milestone.updated_at),
    }


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else parse_time(text, field)
