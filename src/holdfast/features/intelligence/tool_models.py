"""Owns the wire shapes of the intelligence tools; every description is read by each agent at each start, so few."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from holdfast.core.clock import iso
from holdfast.features.intelligence.briefing.budget import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET
from holdfast.features.intelligence.graph.drawing import MAX_DEPTH, MAX_NODES
from holdfast.features.intelligence.model import Decision, Milestone, Status

RELATED_TYPES = (
    "memory",
    "document",
    "artifact",
    "decision",
    "milestone",
    "repository",
    "case",
    "record",
    "commit",
    "chat",
)
"""What can be related, as agents are told; a test holds it to the types that there are."""

_Limit = Annotated[int, Field(ge=1, le=100, description="How many at most")]
_Budget = Annotated[int, Field(ge=MIN_BUDGET, le=MAX_BUDGET, description="How long at most")]
_Since = Annotated[str | None, Field(description="ISO 8601, or 7d for the last week")]
_Type = Annotated[str, WithJsonSchema({"type": "string", "enum": list(RELATED_TYPES)})]
_Query = Annotated[str, Field(max_length=2000)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BriefInput(_Input):
    focus: _Query = Field("", description="What you are about to do")
    budget_tokens: _Budget = DEFAULT_BUDGET


class TimelineInput(_Input):
    type: str | None = Field(None, description="Only this type, e.g. release")
    since: _Since = None
    until: str | None = Field(None, description="The same, for the end")
    decision_id: str | None = Field(None, description="Only those that carry out this decision")
    limit: _Limit = 20
    cursor: str | None = Field(None, description="next_cursor of the page before")


class DecisionsInput(_Input):
    query: _Query = Field("", description="What it is about")
    status: Status | None = Field(None, description="Only with this status")
    blocking: bool | None = Field(None, description="Only those that work waits for, or does not")
    since: _Since = None
    as_of: str | None = Field(None, description="As it stood then; ISO 8601 or 7d ago")
    limit: _Limit = 10


class AnalyzeInput(_Input):
    topic: _Query = Field("", description="What to sum up; everything recent when left out")
    budget_tokens: _Budget = DEFAULT_BUDGET


class GraphInput(_Input):
    centre: str | None = Field(None, description="Id or slug to start from")
    depth: int = Field(2, ge=1, le=MAX_DEPTH, description="How many relations away from centre")
    types: list[_Type] | None = Field(None, description="Only these")
    limit: int = Field(100, ge=1, le=MAX_NODES, description="How many nodes at most")
    mermaid: bool = Field(False, description="Also draw it as Mermaid")


class EntityInput(_Input):
    type: _Type = Field(description="What it is")
    id: str = Field(description="Id or slug")


class RelateInput(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    start: EntityInput = Field(alias="from", description="What the relation is said of")
    end: EntityInput = Field(alias="to", description="What it relates to")
    relation: str = Field(description="snake_case, e.g. depends_on, blocks, implements, caused_by")
    note: str = Field("", description="Why, or since when")


class TrackDecisionInput(_Input):
    title: str = Field(description="What was decided, in one line")
    rationale: str = Field("", description="Why")
    status: Status | None = Field(None, description="Default accepted; open if blocking")
    alternatives: list[str] = Field([], description="What else was considered")
    blocking: bool = Field(False, description="Work waits for it")
    supersedes: str | None = Field(None, description="Id of the decision that it replaces")
    decided_at: str | None = Field(None, description="ISO 8601; default now")


class TrackMilestoneInput(_Input):
    title: str = Field(description="What was reached, in one line")
    type: str = Field("milestone", description="snake_case, e.g. release, deployment, incident")
    occurred_at: str | None = Field(None, description="ISO 8601; default now")
    description: str = Field("", description="What it means")
    decisions: list[str] = Field([], description="Ids of decisions it carries out")


class ItemOut(BaseModel):
    id: str
    type: str
    title: str
    detail: str
    status: str
    at: str


class BriefOutput(BaseModel):
    workspace: str
    blockers: list[ItemOut]
    decisions: list[ItemOut]
    milestones: list[ItemOut]
    connections: list[ItemOut]
    memories: list[ItemOut]
    repositories: list[ItemOut]
    omitted: dict[str, int]


class MilestoneOut(BaseModel):
    milestone_id: str
    title: str
    type: str
    occurred_at: str
    description: str
    decisions: list[str]


class TimelineOutput(BaseModel):
    milestones: list[MilestoneOut]
    next_cursor: str | None


class TrackedDecision(BaseModel):
    decision_id: str
    title: str
    status: str
    blocking: bool
    supersedes: str | None


class DecisionOut(BaseModel):
    decision_id: str
    title: str
    rationale: str
    status: str
    alternatives: list[str]
    blocking: bool
    decided_at: str
    supersedes: str | None
    superseded_by: str | None
    author: str
    score: float | None = None


class DecisionsOutput(BaseModel):
    decisions: list[DecisionOut]


class SourceOut(BaseModel):
    n: int
    type: str
    id: str
    title: str


class AnalyzeOutput(BaseModel):
    markdown: str
    sources: list[SourceOut]
    mode: Literal["model", "extractive"]


class NodeOut(BaseModel):
    id: str
    type: str
    title: str
    status: str | None
    at: str | None
    distance: int | None


class EdgeOut(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    id: str
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    relation: str
    note: str


class GraphOutput(BaseModel):
    nodes: list[NodeOut]
    edges: list[EdgeOut]
    truncated: bool
    mermaid: str | None


class RelateOutput(BaseModel):
    relation_id: str
    status: Literal["created", "exists"]
    relation: str
    inverse: str


def decision_out(decision: Decision, score: float | None = None) -> DecisionOut:
    """A decision as agents see it."""
    return DecisionOut(
        decision_id=decision.id,
        title=decision.title,
        rationale=decision.rationale,
        status=decision.status,
        alternatives=list(decision.alternatives),
        blocking=decision.blocking,
        decided_at=iso(decision.decided_at),
        supersedes=decision.supersedes,
        superseded_by=decision.superseded_by,
        author=decision.author_name or decision.author,
        score=score,
    )


def milestone_out(milestone: Milestone) -> MilestoneOut:
    """A milestone as agents see it."""
    return MilestoneOut(
        milestone_id=milestone.id,
        title=milestone.title,
        type=milestone.type,
        occurred_at=iso(milestone.occurred_at),
        description=milestone.description,
        decisions=list(milestone.decisions),
    )
