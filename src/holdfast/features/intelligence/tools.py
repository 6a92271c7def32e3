"""Owns the intelligence tools: `xerotier.intelligence.*`, as agents see project intelligence."""

from collections.abc import Mapping
from typing import Any, Literal

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso_or_none, parse_moment, parse_time
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.intelligence import tool_models as wire
from holdfast.features.intelligence.briefing.brief import item_json, render
from holdfast.features.intelligence.graph.drawing import mermaid
from holdfast.features.intelligence.graph.vocabulary import inverse
from holdfast.features.intelligence.model import (
    SECTIONS,
    DecisionFilter,
    DuplicateRelation,
    GraphQuery,
    Item,
    MilestoneFilter,
    NewDecision,
    NewMilestone,
    NewRelation,
    Ref,
)
from holdfast.features.intelligence.service import IntelligenceService

_READ = Annotations(read_only=True, idempotent=True)
_WRITE = Annotations(read_only=False)


def tools(service: IntelligenceService) -> list[AnyTool]:
    """The eight tools over one service."""
    handlers = _Handlers(service)
    return [*_reading(handlers), *_writing(handlers)]


class _Handlers:
    def __init__(self, service: IntelligenceService) -> None:
        self._service = service

    async def brief(self, call: ToolCall, given: wire.BriefInput) -> wire.BriefOutput:
        found = await self._service.brief(
            call.principal, call.workspace(), focus=given.focus, budget_tokens=given.budget_tokens
        )
        sections = {name: [item_json(item) for item in found.sections[name]] for name in SECTIONS}
        omitted = {name: count for name, count in found.omitted.items() if count}
        return wire.BriefOutput.model_validate({"workspace": found.workspace_name, **sections, "omitted": omitted})

    async def timeline(self, call: ToolCall, given: wire.TimelineInput) -> wire.TimelineOutput:
        wanted = MilestoneFilter(
            given.type, _moment(given.since, "since"), _moment(given.until, "until"), given.decision_id
        )
        page = await self._service.milestones.timeline(
            call.principal, call.workspace(), wanted, limit=given.limit, cursor=given.cursor
        )
        return wire.TimelineOutput(
            milestones=[wire.milestone_out(milestone) for milestone in page.items], next_cursor=page.next_cursor
        )

    async def decisions(self, call: ToolCall, given: wire.DecisionsInput) -> wire.DecisionsOutput:
        wanted = DecisionFilter(
            given.status, given.blocking, _moment(given.since, "since"), None, _moment(given.as_of, "as_of")
        )
        found = await self._service.decisions.search(
            call.principal, call.workspace(), given.query, wanted, limit=given.limit
        )
        return wire.DecisionsOutput(decisions=[wire.decision_out(it.decision, it.score) for it in found])

    async def analyze(self, call: ToolCall, given: wire.AnalyzeInput) -> wire.AnalyzeOutput:
        found = await self._service.analyze(
            call.principal, call.workspace(), topic=given.topic, budget_tokens=given.budget_tokens
        )
        sources = [
            wire.SourceOut(n=number, type=source.type, id=source.id, title=source.title)
            for number, source in enumerate(found.sources, 1)
        ]
        return wire.AnalyzeOutput(markdown=found.markdown, sources=sources, mode=found.mode)

    async def graph(self, call: ToolCall, given: wire.GraphInput) -> wire.GraphOutput:
        wanted = GraphQuery(
            given.centre, given.depth, None if given.types is None else frozenset(given.types), given.limit
        )
        found = await self._service.graph(call.principal, call.workspace(), wanted)
        return wire.GraphOutput(
            nodes=[
                wire.NodeOut(
                    id=node.id,
                    type=node.type,
                    title=node.title,
                    status=node.status,
                    at=iso_or_none(node.at),
                    distance=node.distance,
                )
                for node in found.nodes
            ],
            edges=[
                wire.EdgeOut.model_validate(
                    {"id": tie.id, "from": tie.start.id, "to": tie.end.id, "relation": tie.relation, "note": tie.note}
                )
                for tie in found.edges
            ],
            truncated=found.truncated,
            mermaid=mermaid(found) if given.mermaid else None,
        )

    async def relate(self, call: ToolCall, given: wire.RelateInput) -> wire.RelateOutput:
        new = NewRelation(
            Ref(given.start.type, given.start.id), Ref(given.end.type, given.end.id), given.relation, given.note
        )
        status: Literal["created", "exists"] = "created"
        try:
            kept = await self._service.relations.relate(call.principal, call.workspace(), new)
        except DuplicateRelation as known:
            # An agent that tells us again what we know has not done anything wrong.
            kept, status = known.relation, "exists"
        return wire.RelateOutput(
            relation_id=kept.id, status=status, relation=kept.relation, inverse=inverse(kept.relation)
        )

    async def track_decision(self, call: ToolCall, given: wire.TrackDecisionInput) -> wire.TrackedDecision:
        new = NewDecision(
            title=given.title,
            rationale=given.rationale,
            alternatives=tuple(given.alternatives),
            status=given.status,
            blocking=given.blocking,
            supersedes=given.supersedes,
            decided_at=_moment(given.decided_at, "decided_at"),
        )
        kept = await self._service.decisions.track(call.principal, call.workspace(), new)
        return wire.TrackedDecision(
            decision_id=kept.id,
            title=kept.title,
            status=kept.status,
            blocking=kept.blocking,
            supersedes=kept.supersedes,
        )

    async def track_milestone(self, call: ToolCall, given: wire.TrackMilestoneInput) -> wire.MilestoneOut:
        new = NewMilestone(
            title=given.title,
            type=given.type,
            description=given.description,
            occurred_at=_moment(given.occurred_at, "occurred_at"),
            decisions=tuple(given.decisions),
        )
        return wire.milestone_out(await self._service.milestones.track(call.principal, call.workspace(), new))


def _reading(handlers: _Handlers) -> list[AnyTool]:
    return [
        Tool(
            name="xerotier.intelligence.brief",
            title="Project brief",
            description="Where the project stands: blockers, decisions, milestones, connections and memories, the most "
            "useful first. Call it before starting work. Example: focus billing",
            input=wire.BriefInput,
            output=wire.BriefOutput,
            handler=handlers.brief,
            annotations=_READ,
            access=READ_INTEL,
            in_workspace=True,
            text=_brief_text,
        ),
        Tool(
            name="xerotier.intelligence.timeline",
            title="Timeline",
            description="Milestones, newest first, by type, dates or related decision. Example: since 2026-01-01",
            input=wire.TimelineInput,
            output=wire.TimelineOutput,
            handler=handlers.timeline,
            annotations=_READ,
            access=READ_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.intelligence.decisions",
            title="Find decisions",
            description="What was decided and why. Searches by meaning with a query; lists the newest without one. "
            "Example: query database",
            input=wire.DecisionsInput,
            output=wire.DecisionsOutput,
            handler=handlers.decisions,
            annotations=_READ,
            access=READ_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.intelligence.analyze",
            title="Analyze the workspace",
            description="A cited Markdown synthesis of what the workspace knows of a topic, or of everything recent. "
            "Example: topic releases",
            input=wire.AnalyzeInput,
            output=wire.AnalyzeOutput,
            handler=handlers.analyze,
            annotations=_READ,
            access=READ_INTEL,
            in_workspace=True,
            text=lambda found: found.markdown,
        ),
        Tool(
            name="xerotier.intelligence.graph",
            title="Knowledge graph",
            description="Decisions and milestones as nodes with what relates to them; relations as edges. "
            "Example: centre dec_…, depth 2",
            input=wire.GraphInput,
            output=wire.GraphOutput,
            handler=handlers.graph,
            annotations=_READ,
            access=READ_INTEL,
            in_workspace=True,
        ),
    ]


def _writing(handlers: _Handlers) -> list[AnyTool]:
    return [
        Tool(
            name="xerotier.intelligence.relate",
            title="Relate two entities",
            description="Connect two existing entities of the workspace by a named relation. Telling it twice, or from "
            "the other end, keeps one. Example: relation depends_on",
            input=wire.RelateInput,
            output=wire.RelateOutput,
            handler=handlers.relate,
            annotations=Annotations(read_only=False, idempotent=True),
            access=WRITE_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.intelligence.track_decision",
            title="Track a decision",
            description="Record a decision that later work rests on, with its reasons and alternatives. An undecided "
            "one that holds work up is blocking. Example: title Use SQLite, rationale No server to run",
            input=wire.TrackDecisionInput,
            output=wire.TrackedDecision,
            handler=handlers.track_decision,
            annotations=_WRITE,
            access=WRITE_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.intelligence.track_milestone",
            title="Track a milestone",
            description="Record something the project reached: a release, a migration, an incident resolved. "
            "Example: title 1.0 is out, type release",
            input=wire.TrackMilestoneInput,
            output=wire.MilestoneOut,
            handler=handlers.track_milestone,
            annotations=_WRITE,
            access=WRITE_INTEL,
            in_workspace=True,
        ),
    ]


def _brief_text(found: wire.BriefOutput) -> str:
    sections: Mapping[str, list[Any]] = {name: getattr(found, name) for name in SECTIONS}
    items = {
        name: [Item(it.id, it.type, it.title, it.detail, it.status, parse_time(it.at, "at")) for it in listed]
        for name, listed in sections.items()
    }
    return render(found.workspace, items, found.omitted)


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else parse_moment(text, field)
