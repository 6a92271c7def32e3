"""Owns project intelligence as a whole: decisions, milestones and relations, and the reads that draw on all of them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import RateLimited, Unavailable, UpstreamFailed
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.audit.service import Audit
from holdfast.features.intelligence import store
from holdfast.features.intelligence.base import IntelligenceBase
from holdfast.features.intelligence.briefing import analysis
from holdfast.features.intelligence.briefing.brief import Material, write_brief
from holdfast.features.intelligence.briefing.budget import DEFAULT_BUDGET, checked_budget
from holdfast.features.intelligence.decisions import Decisions
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.drawing import GraphReader
from holdfast.features.intelligence.graph.relations import Relations
from holdfast.features.intelligence.milestones import Milestones
from holdfast.features.intelligence.model import (
    UNDECIDED,
    Analysis,
    Brief,
    Decision,
    DecisionFilter,
    Graph,
    GraphQuery,
    Milestone,
    MilestoneFilter,
    Model,
)
from holdfast.features.memory.finding import best
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Blocker, Entities, Source
from holdfast.storage.database import Database, Tx

_CANDIDATES = 60
_SOURCES = 24
_TELLING = 0.25
"""A source that fits the topic less than this share of the best one only fills the page."""
_MOST_TIES = 1_000


class IntelligenceService:
    """What a team decided, reached and connected."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        entities: Entities,
        model: Model,
    ) -> None:
        """`entities` are how other features are seen from here; `model` writes analyses, or "" where none is there."""
        self._base = IntelligenceBase(database, audit, workspaces, search, events, clock)
        self._entities = entities
        self._model = model
        self.decisions = Decisions(self._base)
        self.milestones = Milestones(self._base)
        self.relations = Relations(self._base, self.decisions, entities)
        self._graph = GraphReader(self.relations, entities)

    def forget(self, tx: Tx, workspace_id: str, type: str, id: str) -> None:
        """For features whose entity is deleted in `tx`: its relations go with it."""
        self.relations.forget(tx, workspace_id, type, id)

    async def graph(
        self,
        principal: Principal,
        workspace_id: str,
        wanted: GraphQuery = GraphQuery(),  # noqa: B008 - frozen
    ) -> Graph:
        """Nodes and edges of the knowledge graph."""
        principal.require_any("read", "inference")
        return await self._base.database.read(
            lambda tx: self._graph.read(tx, self._base.enter(tx, principal, workspace_id), wanted)
        )

    async def brief(
        self, principal: Principal, workspace_id: str, *, focus: str = "", budget_tokens: int = DEFAULT_BUDGET
    ) -> Brief:
        """Where the project stands; with a focus, what matters for it comes first."""
        budget = checked_budget(budget_tokens)
        workspace = await self._base.reader(principal, workspace_id)
        # A focus chooses among what was written down; repositories are shown by how they stand.
        hits = await self._hits(workspace, focus, _CANDIDATES, frozenset(self._entities.written))
        now = self._base.clock.now()

        def work(tx: Tx) -> Brief:
            name = self._base.workspaces.check(tx, principal, workspace_id).name
            return write_brief(workspace, name, self._material(tx, workspace, hits), budget, now)

        return await self._base.database.read(work)

    async def analyze(
        self, principal: Principal, workspace_id: str, *, topic: str = "", budget_tokens: int = DEFAULT_BUDGET
    ) -> Analysis:
        """A Markdown synthesis with citations, by the model where one answers, by extraction otherwise."""
        budget = checked_budget(budget_tokens)
        about = " ".join(topic.split())
        workspace = await self._base.reader(principal, workspace_id)
        hits = _telling(await self._hits(workspace, about, _SOURCES))
        sources = await self._base.database.read(
            lambda tx: self._sources_of(tx, workspace, hits) if about else self._recent_sources(tx, workspace)
        )
        if sources:
            question = analysis.prompt(about, sources, budget)
            try:
                written = await self._model(principal, workspace, question, budget)
            except (UpstreamFailed, Unavailable, RateLimited):
                # Without the model the reader still gets every source, only less fluently.
                written = ""
            # Off the event loop: every sentence is held against every source that it cites.
            answer = await asyncio.to_thread(analysis.cited, written, about, sources, budget)
            if answer is not None:
                return answer
        return analysis.extract(about, sources, budget)

    async def _hits(self, workspace_id: str, text: str, limit: int, types: frozenset[str] | None = None) -> list[Hit]:
        if not text.strip():
            return []
        return await best(self._base.search, self._entities, Query(workspace_id, text, types, limit), limit)

    def _material(self, tx: Tx, workspace_id: str, hits: Sequence[Hit]) -> Material:
        decisions = self._decisions(tx, workspace_id, [hit.id for hit in hits if hit.type == "decision"])
        milestones = self._milestones(tx, workspace_id, [hit.id for hit in hits if hit.type == "milestone"])
        blockers = self._all_blockers(tx, workspace_id)
        ids = [*decisions, *milestones, *(hit.id for hit in hits)]
        ties = relation_store.of(tx, workspace_id, ids, _MOST_TIES)
        matter = {blocker.id for blocker in blockers} | {hit.id for hit in hits}
        telling = [tie for tie in reversed(ties) if tie.start.id in matter or tie.end.id in matter][:_CANDIDATES]
        shown = {tie.id: tie for tie in (*relation_store.newest(tx, workspace_id, _CANDIDATES), *telling)}
        ends = list(dict.fromkeys(ref for tie in shown.values() for ref in (tie.start, tie.end)))
        return Material(
            blockers=blockers,
            decisions=list(decisions.values()),
            milestones=list(milestones.values()),
            relations=list(shown.values()),
            titles=self.relations.titles(tx, workspace_id, ends),
            degrees=Counter(end for tie in ties for end in {tie.start.id, tie.end.id}),
            memories=self._memories(tx, workspace_id, hits),
            repositories=[
                self._how_far(tx, workspace_id, each) for each in self._newest(tx, workspace_id, "repository")
            ],
            relevance={hit.id: hit.score for hit in hits},
        )

    def _decisions(self, tx: Tx, workspace_id: str, ids: Sequence[str]) -> dict[str, Decision]:
        newest = store.list_decisions(tx, workspace_id, DecisionFilter(), _CANDIDATES)
        found = store.get_decisions(tx, workspace_id, ids) | {decision.id: decision for decision in newest}
        return {id: decision for id, decision in found.items() if decision.status != "superseded"}

    def _milestones(self, tx: Tx, workspace_id: str, ids: Sequence[str]) -> dict[str, Milestone]:
        newest = store.list_milestones(tx, workspace_id, MilestoneFilter(), _CANDIDATES)
        return store.get_milestones(tx, workspace_id, ids) | {milestone.id: milestone for milestone in newest}

    def _memories(self, tx: Tx, workspace_id: str, hits: Sequence[Hit]) -> list[Source]:
        found = {hit.id: _source(hit) for hit in hits if hit.type == "memory"}
        newest = self._newest(tx, workspace_id, "memory")
        return list(({source.id: source for source in newest} | found).values())

    def _how_far(self, tx: Tx, workspace_id: str, source: Source) -> Source:
        """A repository with a word about what of it is not found by meaning yet."""
        waiting = self._base.search.vectors(tx, workspace_id, source.collection).said if source.collection else ""
        if not waiting:
            return source
        # What went wrong comes before what takes time.
        told = (source.text, waiting) if source.status == "failed" else (waiting, source.text)
        return replace(source, text=" ".join(told))

    def _newest(self, tx: Tx, workspace_id: str, type: str) -> Sequence[Source]:
        recent_of = self._entities.recent.get(type)
        return recent_of(tx, workspace_id, _CANDIDATES) if recent_of is not None else ()

    def _all_blockers(self, tx: Tx, workspace_id: str) -> list[Blocker]:
        found = []
        for status in sorted(UNDECIDED):
            wanted = DecisionFilter(status=status, blocking=True)
            for decision in store.list_decisions(tx, workspace_id, wanted, _CANDIDATES):
                reason = decision.rationale or "A blocking decision that nobody has made yet."
                found.append(Blocker("decision", decision.id, decision.title, reason, decision.decided_at))
        for blockers_of in self._entities.blockers:
            found += blockers_of(tx, workspace_id)
        return found

    def _sources_of(self, tx: Tx, workspace_id: str, hits: Sequence[Hit]) -> list[Source]:
        decisions = store.get_decisions(tx, workspace_id, [hit.id for hit in hits if hit.type == "decision"])
        return [decision_source(decisions[hit.id]) if hit.id in decisions else _source(hit) for hit in hits]

    def _recent_sources(self, tx: Tx, workspace_id: str) -> list[Source]:
        """The newest of each kind in turn, so that many documents do not crowd out few decisions."""
        kinds: list[Sequence[Source]] = [
            [decision_source(it) for it in self._decisions(tx, workspace_id, ()).values()][:_SOURCES],
            [_milestone_source(it) for it in self._milestones(tx, workspace_id, ()).values()][:_SOURCES],
            *(recent_of(tx, workspace_id, _SOURCES) for recent_of in self._entities.recent.values()),
        ]
        undecided = [source for source in kinds[0] if source.status in UNDECIDED]
        kinds = [undecided, [source for source in kinds[0] if source.status not in UNDECIDED], *kinds[1:]]
        turns = [kind[turn] for turn in range(_SOURCES) for kind in kinds if turn < len(kind)]
        return turns[: 2 * _SOURCES]


def decision_source(decision: Decision) -> Source:
    """A decision as a source of an analysis."""
    text = decision.rationale
    if decision.alternatives:
        text += f"\nConsidered instead: {'; '.join(decision.alternatives)}."
    return Source("decision", decision.id, decision.title, text.strip(), decision.decided_at, decision.status)


def _milestone_source(milestone: Milestone) -> Source:
    return Source("milestone", milestone.id, milestone.title, milestone.description, milestone.occurred_at)


def _source(hit: Hit) -> Source:
    at = hit.learned_at if hit.occurred_at is None else hit.occurred_at
    return Source(hit.type, hit.id, hit.title, hit.text or hit.snippet.replace("**", ""), at)


def _telling(hits: Sequence[Hit]) -> list[Hit]:
    best = max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.score >= _TELLING * best]
