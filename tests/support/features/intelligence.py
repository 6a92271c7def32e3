"""Owns what the intelligence tests stand on: two workspaces of one tenant, one of another, the service over them."""

from dataclasses import dataclass, field

from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.intelligence.entities import ENTITIES
from holdfast.features.intelligence.model import (
    Decision,
    Milestone,
    Model,
    NewDecision,
    NewMilestone,
    NewRelation,
    Ref,
    Relation,
)
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Blocker, BlockersOf, EntityType, Source
from holdfast.storage.database import Database, Tx
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.features.audit import audit_trail
from tests.support.services import entities


@dataclass
class Shelf:
    """Entities of another feature, as intelligence sees them: by title, and the newest first."""

    type: str
    sources: dict[tuple[str, str], Source] = field(default_factory=dict)

    def add(self, workspace_id: str, id: str, text: str, at: int = 0) -> Ref:
        self.sources[workspace_id, id] = Source(self.type, id, text.split(".")[0], text, at)
        return Ref(self.type, id)

    def title(self, tx: Tx, workspace_id: str, id: str) -> str | None:
        found = self.sources.get((workspace_id, id))
        return found.title if found else None

    def recent(self, tx: Tx, workspace_id: str, limit: int) -> list[Source]:
        here = [source for (workspace, _), source in self.sources.items() if workspace == workspace_id]
        return sorted(here, key=lambda source: -source.at)[:limit]


@dataclass
class Stage:
    """Everything a test needs, with short ways to say common things."""

    database: Database
    clock: MovableClock
    audit: Audit
    events: EventBus
    search: SearchEngine
    service: IntelligenceService
    principal: Principal
    stranger: Principal
    workspace: str
    other_workspace: str
    foreign_workspace: str
    memories: Shelf
    documents: Shelf

    async def decide(self, title: str, rationale: str = "", workspace: str | None = None, **more: object) -> Decision:
        new = NewDecision(title, rationale, **more)  # type: ignore[arg-type]
        return await self.service.decisions.track(self.principal, workspace or self.workspace, new)

    async def reach(self, title: str, description: str = "", workspace: str | None = None, **more: object) -> Milestone:
        new = NewMilestone(title, description=description, **more)  # type: ignore[arg-type]
        return await self.service.milestones.track(self.principal, workspace or self.workspace, new)

    async def relate(self, start: Ref, relation: str, end: Ref, note: str = "") -> Relation:
        return await self.service.relations.relate(
            self.principal, self.workspace, NewRelation(start, end, relation, note)
        )

    async def actions(self) -> list[str]:
        """What the audit says happened in the workspace."""
        return await self.database.read(
            lambda tx: [
                row["action"]
                for row in tx.all("SELECT action FROM audit_event WHERE workspace_id = :id", {"id": self.workspace})
            ]
        )


def decision_ref(decision: Decision) -> Ref:
    return Ref("decision", decision.id)


def milestone_ref(milestone: Milestone) -> Ref:
    return Ref("milestone", milestone.id)


def person(organization_id: str, **more: object) -> Principal:
    """A person who may do everything in an organization."""
    fields: dict[str, object] = {
        "organization_id": organization_id,
        "actor": "usr_1",
        "proof": "session",
        "is_person": True,
        "scopes": frozenset({"inference", "read", "management"}),
        "role": "owner",
        "name": "Ada",
    }
    return Principal(**(fields | more))  # type: ignore[arg-type]


async def nobody_writes(principal: Principal, workspace_id: str, prompt: str, most_tokens: int) -> str:
    """There is no model."""
    return ""


async def stage(
    database: Database, clock: MovableClock, *, model: Model | None = None, blockers: list[Blocker] | None = None
) -> Stage:
    """Build it over a migrated database."""
    audit = audit_trail(database, clock)
    events = EventBus(database, clock)
    search = SearchEngine(database, WordEmbedder(64), clock)
    workspaces = Workspaces(database, audit, clock, lambda *_: True, lambda *_: True, lambda *_: True)
    memories, documents = Shelf("memory"), Shelf("document")
    seen: BlockersOf = lambda tx, workspace_id: blockers or []  # noqa: E731
    types = entities(
        EntityType(name="memory", title=memories.title, recent=memories.recent, blockers=seen),
        EntityType(name="document", title=documents.title, recent=documents.recent),
        *ENTITIES,
    )
    service = IntelligenceService(
        database,
        audit,
        workspaces,
        search,
        events,
        clock,
        types,
        model or nobody_writes,
    )

    def tenant(tx: Tx, name: str, count: int) -> tuple[str, list[str]]:
        org, project = new_id("org"), new_id("proj")
        row = {"org": org, "project": project, "name": name, "now": clock.now()}
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES (:org, :name, :now)", row)
        tx.execute(
            "INSERT INTO project (id, organization_id, slug, name, created_at) "
            "VALUES (:project, :org, :name, :name, :now)",
            row,
        )
        return org, [workspaces.add(tx, org, project, f"{name} {number}").id for number in range(count)]

    ours, (first, second) = await database.write(lambda tx: tenant(tx, "Lighthouse", 2))
    theirs, (foreign,) = await database.write(lambda tx: tenant(tx, "Rival", 1))
    return Stage(
        database,
        clock,
        audit,
        events,
        search,
        service,
        person(ours),
        person(theirs),
        first,
        second,
        foreign,
        memories,
        documents,
    )
