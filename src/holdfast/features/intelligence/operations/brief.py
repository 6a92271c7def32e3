"""Owns the REST operations of the brief and the analysis."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_INTEL
from holdfast.core.model import Answer, Model, Time
from holdfast.core.operations import Operations
from holdfast.core.principal import Principal
from holdfast.features.intelligence.briefing.budget import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET
from holdfast.features.intelligence.service import IntelligenceService

api = Operations("brief")


class BriefQuery(Model):
    focus: str = Field(default="", max_length=2000, description="What the reader is about to do")
    budget_tokens: int = Field(default=DEFAULT_BUDGET, ge=MIN_BUDGET, le=MAX_BUDGET)


class AnalyzeBody(Model):
    topic: str = Field(default="", max_length=2000, description="Everything recent when left out")
    budget_tokens: int = Field(default=DEFAULT_BUDGET, ge=MIN_BUDGET, le=MAX_BUDGET)


class BriefItemAnswer(Answer):
    id: str
    type: str
    title: str
    detail: str
    status: str
    at: Time


class BriefAnswer(Answer):
    workspace_id: str
    workspace: str = Field(validation_alias="workspace_name")
    blockers: list[BriefItemAnswer]
    decisions: list[BriefItemAnswer]
    milestones: list[BriefItemAnswer]
    connections: list[BriefItemAnswer]
    memories: list[BriefItemAnswer]
    repositories: list[BriefItemAnswer]
    omitted: dict[str, int] = Field(description="How many of each section the budget left out")
    markdown: str
    tokens: int
    budget_tokens: int


class AnalysisSourceAnswer(Answer):
    n: int
    type: str
    id: str
    title: str
    at: Time


class AnalysisAnswer(Answer):
    markdown: str
    sources: list[AnalysisSourceAnswer]
    mode: Literal["model", "extractive"]
    tokens: int
    budget_tokens: int


@api.get("/api/workspaces/{workspace_id}/brief", READ_INTEL, "Where the project stands, within a token budget")
async def brief(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: BriefQuery
) -> BriefAnswer:
    found = await intelligence.brief(principal, workspace_id, focus=query.focus, budget_tokens=query.budget_tokens)
    return BriefAnswer.of(found, **found.sections)


@api.post("/api/workspaces/{workspace_id}/analyze", READ_INTEL, "A cited synthesis of what the workspace knows")
async def analyze(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, body: AnalyzeBody
) -> AnalysisAnswer:
    found = await intelligence.analyze(principal, workspace_id, topic=body.topic, budget_tokens=body.budget_tokens)
    sources = [AnalysisSourceAnswer.of(source, n=number) for number, source in enumerate(found.sources, 1)]
    return AnalysisAnswer.of(found, sources=sources)
