"""Owns `holdfast decisions`: add, list, show, edit, search."""

from typing import Any

import click

from holdfast.core.clock import iso, iso_or_none, parse_time
from holdfast.features.intelligence.model import (
    STATUSES,
    Decision,
    DecisionEdit,
    DecisionFilter,
    NewDecision,
    Status,
)
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("decisions", help="What the team decided, why, and what it has yet to decide.")

_COLUMNS = ["id", "decided_at", "status", "blocking", "title"]
_id = click.argument("decision_id", metavar="ID")
_status = click.option("--status", type=click.Choice(STATUSES))
_rationale = click.option("--rationale", help="Why.")
_alternatives = click.option("--alternative", multiple=True, help="What else was considered; may be repeated.")
_decided_at = click.option("--decided-at", metavar="TIME", help="When it was decided (default: now).")
_since = click.option("--since", metavar="TIME", help="Decided then or later.")
_as_of = click.option("--as-of", metavar="TIME", help="As it stood then.")
_limit = click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)


@command(
    group,
    "add",
    click.argument("title"),
    workspace_option,
    _rationale,
    _alternatives,
    _status,
    click.option("--blocking", is_flag=True, help="Work waits for it."),
    click.option("--supersedes", metavar="ID", help="The decision that this one replaces."),
    _decided_at,
    help="Track a decision.",
)
async def add(
    session: Session,
    title: str,
    workspace: str | None,
    rationale: str | None,
    alternative: tuple[str, ...],
    status: Status | None,
    blocking: bool,
    supersedes: str | None,
    decided_at: str | None,
) -> None:
    new = NewDecision(
        title=title,
        rationale=rationale or "",
        alternatives=alternative,
        status=status,
        blocking=blocking,
        supersedes=supersedes,
        decided_at=_moment(decided_at, "decided_at"),
    )
    id = await session.workspace(workspace)
    kept = await session.services.intelligence.decisions.track(session.principal, id, new)
    session.out.record(_record(kept), [f"Tracked {kept.id} ({kept.status})."])


@command(
    group,
    "list",
    workspace_option,
    _status,
    click.option("--blocking", is_flag=True, help="Only those that work waits for."),
    _since,
    _as_of,
    _limit,
    help="List decisions, newest first.",
)
async def list_(
    session: Session,
    workspace: str | None,
    status: Status | None,
    blocking: bool,
    since: str | None,
    as_of: str | None,
    limit: int,
) -> None:
    id = await session.workspace(workspace)
    wanted = DecisionFilter(status, blocking or None, _moment(since, "since"), None, _moment(as_of, "as_of"))
    page = await session.services.intelligence.decisions.page(session.principal, id, wanted, limit=limit)
    session.out.table((_record(each) for each in page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


@command(group, "show", _id, workspace_option, help="Show a decision.")
async def show(session: Session, decision_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    found = await session.services.intelligence.decisions.get(session.principal, id, decision_id)
    session.out.record(_record(found))


@command(
    group,
    "edit",
    _id,
    workspace_option,
    click.option("--title"),
    _rationale,
    _alternatives,
    _status,
    click.option("--blocking/--not-blocking", default=None, help="Whether work waits for it."),
    _decided_at,
    help="Change a decision; what is not given stays.",
)
async def edit(
    session: Session,
    decision_id: str,
    workspace: str | None,
    title: str | None,
    rationale: str | None,
    alternative: tuple[str, ...],
    status: Status | None,
    blocking: bool | None,
    decided_at: str | None,
) -> None:
    change = DecisionEdit(
        title=title,
        rationale=rationale,
        alternatives=alternative or None,
        status=status,
        blocking=blocking,
        decided_at=_moment(decided_at, "decided_at"),
    )
    id = await session.workspace(workspace)
    kept = await session.services.intelligence.decisions.edit(session.principal, id, decision_id, change)
    session.out.record(_record(kept), [f"Changed {kept.id} ({kept.status})."])


@command(
    group,
    "search",
    click.argument("query"),
    workspace_option,
    _status,
    _since,
    _as_of,
    click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True),
    help="Find decisions by meaning and words, best first.",
)
async def search(
    session: Session,
    query: str,
    workspace: str | None,
    status: Status | None,
    since: str | None,
    as_of: str | None,
    limit: int,
) -> None:
    id = await session.workspace(workspace)
    wanted = DecisionFilter(status, None, _moment(since, "since"), None, _moment(as_of, "as_of"))
    found = await session.services.intelligence.decisions.search(session.principal, id, query, wanted, limit=limit)
    rows = ({**_record(each.decision), "score": round(each.score or 0.0, 3)} for each in found)
    session.out.table(rows, ["score", *_COLUMNS], empty="No decision speaks about that.")


def _record(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.id,
        "title": decision.title,
        "rationale": decision.rationale,
        "alternatives": list(decision.alternatives),
        "status": decision.status,
        "blocking": decision.blocking,
        "decided_at": iso(decision.decided_at),
        "supersedes": decision.supersedes,
        "superseded_by": decision.superseded_by,
        "superseded_at": iso_or_none(decision.superseded_at),
        "author": decision.author_name or decision.author,
        "created_at": iso(decision.created_at),
        "updated_at": iso(decision.updated_at),
    }


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else parse_time(text, field)
