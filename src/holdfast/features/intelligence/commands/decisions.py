"""Owns `holdfast decisions`: add, list, show, edit, search."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Moment, Option, Session
from holdfast.features.intelligence.model import DecisionEdit, DecisionFilter, NewDecision, Status
from holdfast.features.intelligence.operations.decisions import DecisionAnswer
from holdfast.features.intelligence.service import IntelligenceService

decisions = Commands("decisions", help="What the team decided, why, and what it has yet to decide.")

_COLUMNS = ["id", "decided_at", "status", "blocking", "title"]


class One(InWorkspace):
    """A decision that is named."""

    decision_id: Annotated[str, Argument("ID")]


class _Described(InWorkspace):
    rationale: str | None = Field(None, description="Why.")
    alternative: list[str] = Field([], description="What else was considered; may be repeated.")
    status: Status | None = None
    decided_at: Moment = Field(None, description="When it was decided (default: now).")


class Add(_Described):
    """What `add` is given."""

    title: Annotated[str, Argument()]
    blocking: bool = Field(False, description="Work waits for it.")
    supersedes: Annotated[str | None, Option(metavar="ID")] = Field(
        None, description="The decision that this one replaces."
    )


@decisions.command("add", help="Track a decision.", begins_store=True)
async def add(session: Session, service: IntelligenceService, given: Add) -> None:
    new = NewDecision(
        title=given.title,
        rationale=given.rationale or "",
        alternatives=tuple(given.alternative),
        status=given.status,
        blocking=given.blocking,
        supersedes=given.supersedes,
        decided_at=given.decided_at,
    )
    id = await session.workspace(given.workspace)
    kept = await service.decisions.track(session.principal, id, new)
    session.out.record(DecisionAnswer.of(kept), [f"Tracked {kept.id} ({kept.status})."])


class _Wanted(InWorkspace):
    status: Status | None = None
    since: Moment = Field(None, description="Decided then or later.")
    as_of: Moment = Field(None, description="As it stood then.")


class Listing(_Wanted):
    """What `list` is given."""

    blocking: bool = Field(False, description="Only those that work waits for.")
    limit: int = Field(50, ge=1, le=200)


@decisions.command("list", help="List decisions, newest first.")
async def list_(session: Session, service: IntelligenceService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    wanted = DecisionFilter(given.status, given.blocking or None, given.since, None, given.as_of)
    page = await service.decisions.page(session.principal, id, wanted, limit=given.limit)
    session.out.table(map(DecisionAnswer.of, page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


@decisions.command("show", help="Show a decision.")
async def show(session: Session, service: IntelligenceService, given: One) -> None:
    id = await session.workspace(given.workspace)
    session.out.record(DecisionAnswer.of(await service.decisions.get(session.principal, id, given.decision_id)))


class Edit(_Described):
    """What `edit` is given."""

    decision_id: Annotated[str, Argument("ID")]
    title: str | None = None
    blocking: Annotated[bool | None, Option("--blocking/--not-blocking")] = Field(
        None, description="Whether work waits for it."
    )


@decisions.command("edit", help="Change a decision; what is not given stays.")
async def edit(session: Session, service: IntelligenceService, given: Edit) -> None:
    change = DecisionEdit(
        title=given.title,
        rationale=given.rationale,
        alternatives=tuple(given.alternative) or None,
        status=given.status,
        blocking=given.blocking,
        decided_at=given.decided_at,
    )
    id = await session.workspace(given.workspace)
    kept = await service.decisions.edit(session.principal, id, given.decision_id, change)
    session.out.record(DecisionAnswer.of(kept), [f"Changed {kept.id} ({kept.status})."])


class Search(_Wanted):
    """What `search` is given."""

    query: Annotated[str, Argument()]
    limit: int = Field(10, ge=1, le=100)


@decisions.command("search", help="Find decisions by meaning and words, best first.")
async def search(session: Session, service: IntelligenceService, given: Search) -> None:
    id = await session.workspace(given.workspace)
    wanted = DecisionFilter(given.status, None, given.since, None, given.as_of)
    found = await service.decisions.search(session.principal, id, given.query, wanted, limit=given.limit)
    rows = (DecisionAnswer.of(each.decision, score=round(each.score or 0.0, 3)) for each in found)
    session.out.table(rows, ["score", *_COLUMNS], empty="No decision speaks about that.")
