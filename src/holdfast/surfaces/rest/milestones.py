"""Owns the REST operations of milestones and the timeline."""

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso, parse_time
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.features.intelligence.model import Milestone, MilestoneEdit, MilestoneFilter, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService

_BASE = "/api/workspaces/{workspace_id}/milestones"
_ONE = _BASE + "/{milestone_id}"
_TIMELINE = "/api/workspaces/{workspace_id}/timeline"
_TAG = "milestones"


class MilestoneBody(Model):
    title: str = Field(description="What was reached")
    type: str = Field(default="milestone", description="snake_case: release, deployment, incident …")
    description: str = ""
    occurred_at: str | None = Field(default=None, description="ISO 8601; now when left out")
    decisions: list[str] = Field(default=[], description="Ids of the decisions that it carries out")


class MilestoneChange(Model):
    title: str | None = None
    type: str | None = None
    description: str | None = None
    occurred_at: str | None = None
    decisions: list[str] | None = Field(default=None, description="All decisions that it relates to from now on")


class TimelineQuery(PageQuery):
    type: str | None = Field(default=None, max_length=100, description="Only milestones of this type")
    since: str | None = Field(default=None, description="Reached at or after this moment")
    until: str | None = Field(default=None, description="Reached at or before this moment")
    decision_id: str | None = Field(default=None, max_length=100, description="Only those related to this decision")


class MilestoneAnswer(Model):
    id: str
    workspace_id: str
    title: str
    type: str
    description: str
    occurred_at: str
    decisions: list[str]
    author: str
    author_name: str
    created_at: str
    updated_at: str


def milestone_answer(milestone: Milestone) -> MilestoneAnswer:
    """A milestone as REST shows it."""
    return MilestoneAnswer(
        id=milestone.id,
        workspace_id=milestone.workspace_id,
        title=milestone.title,
        type=milestone.type,
        description=milestone.description,
        occurred_at=iso(milestone.occurred_at),
        decisions=list(milestone.decisions),
        author=milestone.author,
        author_name=milestone.author_name,
        created_at=iso(milestone.created_at),
        updated_at=iso(milestone.updated_at),
    )


def operations(service: IntelligenceService) -> list[Operation]:
    """Every operation of milestones."""

    async def track(call: Call) -> MilestoneAnswer:
        given: MilestoneBody = call.body
        new = NewMilestone(
            title=given.title,
            type=given.type,
            description=given.description,
            occurred_at=_moment(given.occurred_at, "occurred_at"),
            decisions=tuple(given.decisions),
        )
        return milestone_answer(await service.milestones.track(call.principal, call.path["workspace_id"], new))

    async def timeline(call: Call) -> Page[MilestoneAnswer]:
        asked: TimelineQuery = call.query
        wanted = MilestoneFilter(
            asked.type, _moment(asked.since, "since"), _moment(asked.until, "until"), asked.decision_id
        )
        found = await service.milestones.timeline(
            call.principal, call.path["workspace_id"], wanted, limit=asked.limit, cursor=asked.cursor
        )
        return found.map(milestone_answer)

    async def read(call: Call) -> MilestoneAnswer:
        return milestone_answer(
            await service.milestones.get(call.principal, call.path["workspace_id"], call.path["milestone_id"])
        )

    async def edit(call: Call) -> MilestoneAnswer:
        given: MilestoneChange = call.body
        change = MilestoneEdit(
            title=given.title,
            type=given.type,
            description=given.description,
            occurred_at=_moment(given.occurred_at, "occurred_at"),
            decisions=None if given.decisions is None else tuple(given.decisions),
        )
        return milestone_answer(
            await service.milestones.edit(call.principal, call.path["workspace_id"], call.path["milestone_id"], change)
        )

    async def delete(call: Call) -> None:
        await service.milestones.delete(call.principal, call.path["workspace_id"], call.path["milestone_id"])

    lists = [
        Operation(
            method="GET",
            path=path,
            handler=timeline,
            summary=summary,
            tag=_TAG,
            access=READ_INTEL,
            query=TimelineQuery,
            answer=MilestoneAnswer,
            paged=True,
        )
        for path, summary in (
            (_BASE, "List milestones, newest first"),
            (_TIMELINE, "The timeline: milestones by type, dates or decision"),
        )
    ]
    return [
        *lists,
        Operation(
            method="POST",
            path=_BASE,
            handler=track,
            summary="Track a milestone",
            tag=_TAG,
            access=WRITE_INTEL,
            body=MilestoneBody,
            answer=MilestoneAnswer,
            status=201,
        ),
        Operation(
            method="GET",
            path=_ONE,
            handler=read,
            summary="Read a milestone",
            tag=_TAG,
            access=READ_INTEL,
            answer=MilestoneAnswer,
        ),
        Operation(
            method="PATCH",
            path=_ONE,
            handler=edit,
            summary="Edit a milestone; fields left out stay",
            tag=_TAG,
            access=WRITE_INTEL,
            body=MilestoneChange,
            answer=MilestoneAnswer,
        ),
        Operation(
            method="DELETE",
            path=_ONE,
            handler=delete,
            summary="Delete a milestone and its relations",
            tag=_TAG,
            access=WRITE_INTEL,
            status=204,
        ),
    ]


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else parse_time(text, field)
