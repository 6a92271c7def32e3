"""Owns `holdfast milestones`: add, list, show, edit, delete; and `holdfast timeline`."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Command, Commands, InWorkspace, Moment, Option, Session
from holdfast.features.intelligence.model import MilestoneEdit, MilestoneFilter, NewMilestone
from holdfast.features.intelligence.operations.milestones import MilestoneAnswer
from holdfast.features.intelligence.service import IntelligenceService

milestones = Commands("milestones", help="What the project reached, and when.")

_COLUMNS = ["id", "occurred_at", "type", "title", "decisions"]
_At = Annotated[Moment, Field(description="When it was reached (default: now).")]
_Decisions = Annotated[
    list[str], Option(metavar="ID"), Field(description="A decision it carries out; may be repeated.")
]


class One(InWorkspace):
    """A milestone that is named."""

    milestone_id: Annotated[str, Argument("ID")]


class Add(InWorkspace):
    """What `add` is given."""

    title: Annotated[str, Argument()]
    type: str = Field("milestone", description="snake_case, such as release.")
    description: str = ""
    at: _At = None
    decision: _Decisions = []


@milestones.command("add", help="Track a milestone.", begins_store=True)
async def add(session: Session, service: IntelligenceService, given: Add) -> None:
    id = await session.workspace(given.workspace)
    new = NewMilestone(given.title, given.type, given.description, given.at, tuple(given.decision))
    kept = await service.milestones.track(session.principal, id, new)
    session.out.record(MilestoneAnswer.of(kept), [f"Tracked {kept.id}."])


@milestones.command("show", help="Show a milestone.")
async def show(session: Session, service: IntelligenceService, given: One) -> None:
    id = await session.workspace(given.workspace)
    session.out.record(MilestoneAnswer.of(await service.milestones.get(session.principal, id, given.milestone_id)))


class Edit(One):
    """What `edit` is given."""

    title: str | None = None
    type: str | None = None
    description: str | None = None
    at: _At = None
    decision: _Decisions = []


@milestones.command("edit", help="Change a milestone; what is not given stays.")
async def edit(session: Session, service: IntelligenceService, given: Edit) -> None:
    id = await session.workspace(given.workspace)
    change = MilestoneEdit(given.title, given.type, given.description, given.at, tuple(given.decision) or None)
    kept = await service.milestones.edit(session.principal, id, given.milestone_id, change)
    session.out.record(MilestoneAnswer.of(kept), [f"Changed {kept.id}."])


@milestones.command("delete", help="Delete a milestone and its relations.")
async def delete(session: Session, service: IntelligenceService, given: One) -> None:
    id = await session.workspace(given.workspace)
    await service.milestones.delete(session.principal, id, given.milestone_id)
    session.out.record({"milestone_id": given.milestone_id, "deleted": True}, [f"Deleted {given.milestone_id}."])


class Listing(InWorkspace):
    """What `list` and `timeline` are given."""

    type: Annotated[str | None, Option(metavar="TYPE")] = Field(None, description="Only those of this type.")
    since: Moment = Field(None, description="Reached then or later.")
    until: Moment = Field(None, description="Reached then or earlier.")
    decision: Annotated[str | None, Option(metavar="ID")] = Field(
        None, description="Only those related to this decision."
    )
    limit: int = Field(50, ge=1, le=200)


async def _timeline(session: Session, service: IntelligenceService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    wanted = MilestoneFilter(given.type, given.since, given.until, given.decision)
    page = await service.milestones.timeline(session.principal, id, wanted, limit=given.limit)
    session.out.table(map(MilestoneAnswer.of, page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


list_ = milestones.add(Command("list", "List milestones, newest first.", _timeline))
timeline = Command("timeline", "Show the project's milestones, newest first.", _timeline)
"""A command of its own, at the top level."""
