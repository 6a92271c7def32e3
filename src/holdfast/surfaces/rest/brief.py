"""Owns the REST operations of the brief and the analysis."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_INTEL
from holdfast.core.clock import iso
from holdfast.core.model import Model, NoQuery
from holdfast.core.operations import Call, Operation
from holdfast.features.intelligence.briefing.brief import item_json
from holdfast.features.intelligence.briefing.budget import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET
from holdfast.features.intelligence.model import SECTIONS, Analysis, Brief
from holdfast.features.intelligence.service import IntelligenceService

_BRIEF = "/api/workspaces/{workspace_id}/brief"
_ANALYZE = "/api/workspaces/{workspace_id}/analyze"
_TAG = "brief"


class BriefQuery(NoQuery):
    focus: str = Field(default="", max_length=2000, description="What the reader is about to do")
    budget_tokens: int = Field(default=DEFAULT_BUDGET, ge=MIN_BUDGET, le=MAX_BUDGET)


class AnalyzeBody(Model):
    topic: str = Field(default="", max_length=2000, description="Everything recent when left out")
    budget_tokens: int = Field(default=DEFAULT_BUDGET, ge=MIN_BUDGET, le=MAX_BUDGET)


class BriefItem(Model):
    id: str
    type: str
    title: str
    detail: str
    status: str
    at: str


class BriefAnswer(Model):
    workspace_id: str
    workspace: str
    blockers: list[BriefItem]
    decisions: list[BriefItem]
    milestones: list[BriefItem]
    connections: list[BriefItem]
    memories: list[BriefItem]
    repositories: list[BriefItem]
    omitted: dict[str, int] = Field(description="How many of each section the budget left out")
    markdown: str
    tokens: int
    budget_tokens: int


class AnalysisSource(Model):
    n: int
    type: str
    id: str
    title: str
    at: str


class AnalysisAnswer(Model):
    markdown: str
    sources: list[AnalysisSource]
    mode: Literal["model", "extractive"]
    tokens: int
    budget_tokens: int


def brief_answer(brief: Brief) -> BriefAnswer:
    """A brief as REST and the CLI show it."""
    sections = {name: [item_json(item) for item in brief.sections[name]] for name in SECTIONS}
    return BriefAnswer.model_validate(
        {
            "workspace_id": brief.workspace_id,
            "workspace": brief.workspace_name,
            **sections,
            "omitted": dict(brief.omitted),
            "markdown": brief.markdown,
            "tokens": brief.tokens,
            "budget_tokens": brief.budget_tokens,
        }
    )


def analysis_answer(analysis: Analysis) -> AnalysisAnswer:
    """An analysis as REST shows it."""
    sources = [
        AnalysisSource(n=number, type=source.type, id=source.id, title=source.title, at=iso(source.at))
        for number, source in enumerate(analysis.sources, 1)
    ]
    return AnalysisAnswer(
        markdown=analysis.markdown,
        sources=sources,
        mode=analysis.mode,
        tokens=analysis.tokens,
        budget_tokens=analysis.budget_tokens,
    )


def operations(service: IntelligenceService) -> list[Operation]:
    """Every operation of the brief and the analysis."""

    async def brief(call: Call) -> BriefAnswer:
        asked: BriefQuery = call.query
        return brief_answer(
            await service.brief(
                call.principal, call.path["workspace_id"], focus=asked.focus, budget_tokens=asked.budget_tokens
            )
        )

    async def analyze(call: Call) -> AnalysisAnswer:
        given: AnalyzeBody = call.body
        return analysis_answer(
            await service.analyze(
                call.principal, call.path["workspace_id"], topic=given.topic, budget_tokens=given.budget_tokens
            )
        )

    return [
        Operation(
            method="GET",
            path=_BRIEF,
            handler=brief,
            summary="Where the project stands, within a token budget",
            tag=_TAG,
            access=READ_INTEL,
            query=BriefQuery,
            answer=BriefAnswer,
        ),
        Operation(
            method="POST",
            path=_ANALYZE,
            handler=analyze,
            summary="A cited synthesis of what the workspace knows",
            tag=_TAG,
            access=READ_INTEL,
            body=AnalyzeBody,
            answer=AnalysisAnswer,
        ),
    ]
