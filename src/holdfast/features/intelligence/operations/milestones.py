"""Owns the REST operations of milestones and the timeline."""

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.model import Answer, Model, Moment, PageQuery, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.intelligence.model import MilestoneEdit, MilestoneFilter, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService

_BASE = "/api/workspaces/{workspace_id}/milestones"
_ONE = _BASE + "/{milestone_id}"
_TIMELINE = "/api/workspaces/{workspace_id}/timeline"

api = Operations("milestones")


class MilestoneBody(Model):
    title: str = Field(description="What was reached")
    type: str = Field(default="milestone", description="snake_case: release, deployment, incident …")
    description: str = ""
    occurred_at: Moment = Field(default=None, description="ISO 8601; now when left out")
    decisions: tuple[str, ...] = Field(default=(), description="Ids of the decisions that it carries out")


class MilestoneChangeBody(Model):
    title: str | None = None
    type: str | None = None
    description: str | None = None
    occurred_at: Moment = None
    decisions: tuple[str, ...] | None = Field(default=None, description="All decisions that it relates to from now on")


class TimelineQuery(PageQuery):
    type: str | None = Field(default=None, max_length=100, description="Only milestones of this type")
    since: Moment = Field(default=None, description="Reached at or after this moment")
    until: Moment = Field(default=None, description="Reached at or before this moment")
    decision_id: str | None = Field(default=None, max_length=100, description="Only those related to this decision")


class MilestoneAnswer(Answer):
    id: str
    workspace_id: str
    title: str
    type: str
    description: str
    occurred_at: Time
    decisions: list[str]
    author: str
    author_name: str
    created_at: Time
    updated_at: Time


@api.get(_TIMELINE, READ_INTEL, "The timeline: milestones by type, dates or decision")
@api.get(_BASE, READ_INTEL, "List milestones, newest first")
async def timeline(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: TimelineQuery
) -> Page[MilestoneAnswer]:
    wanted = query.into(MilestoneFilter, decision=query.decision_id)
    found = await intelligence.milestones.timeline(
        principal, workspace_id, wanted, limit=query.limit, cursor=query.cursor
    )
    return found.map(MilestoneAnswer.of)


@api.post(_BASE, WRITE_INTEL, "Track a milestone", status=201)
async def track(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, body: MilestoneBody
) -> MilestoneAnswer:
    return MilestoneAnswer.of(await intelligence.milestones.track(principal, workspace_id, body.into(NewMilestone)))


@api.get(_ONE, READ_INTEL, "Read a milestone")
async def read(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, milestone_id: str
) -> MilestoneAnswer:
    return MilestoneAnswer.of(await intelligence.milestones.get(principal, workspace_id, milestone_id))


@api.patch(_ONE, WRITE_INTEL, "Edit a milestone; fields left out stay")
async def edit(
    intelligence: IntelligenceService,
    principal: Principal,
    workspace_id: str,
    milestone_id: str,
    body: MilestoneChangeBody,
) -> MilestoneAnswer:
    change = body.into(MilestoneEdit)
    return MilestoneAnswer.of(await intelligence.milestones.edit(principal, workspace_id, milestone_id, change))


@api.delete(_ONE, WRITE_INTEL, "Delete a milestone and its relations")
async def delete(intelligence: IntelligenceService, principal: Principal, workspace_id: str, milestone_id: str) -> None:
    await intelligence.milestones.delete(principal, workspace_id, milestone_id)
