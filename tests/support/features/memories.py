"""Owns a small world for tests of knowledge: an organization, some workspaces, a person, an agent, the memories."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.ids import new_id
from holdfast.core.principal import SCOPES, Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store as identity
from holdfast.features.identity.model import Organization, Project
from holdfast.features.memory.service import MemoryService
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.features.audit import audit_trail
from tests.support.services import entities


@dataclass(frozen=True, slots=True)
class MemoryWorld:
    """Services on one database, and who asks them."""

    database: Database
    clock: MovableClock
    search: SearchEngine
    audit: Audit
    events: EventBus
    workspaces: Workspaces
    memory: MemoryService
    person: Principal
    agent: Principal
    workspace_ids: Sequence[str]

    @property
    def ws(self) -> str:
        """The first workspace."""
        return self.workspace_ids[0]


async def memory_world(
    database: Database, clock: MovableClock, *, workspaces: int = 2, embedder: Embedder | None = None
) -> MemoryWorld:
    """A fresh organization with workspaces on the database."""
    audit = audit_trail(database, clock)
    events = EventBus(database, clock)
    search = SearchEngine(database, embedder or WordEmbedder(), clock)
    gate = Workspaces(database, audit, clock, lambda *_: True, lambda *_: True, lambda *_: True)
    organization, project = new_id("org"), new_id("proj")

    def work(tx: Tx) -> list[str]:
        identity.insert_organization(tx, Organization(organization, "Team", clock.now()))
        identity.insert_project(tx, Project(project, organization, "default", "Default", clock.now()))
        return [gate.add(tx, organization, project, f"Space {number}").id for number in range(workspaces)]

    ids = await database.write(work)
    person = Principal(organization, "usr_ada", "session", True, frozenset(SCOPES), "owner", name="Ada")
    agent = Principal(
        organization, "key_bot", "key", False, frozenset({"inference", "read"}), project_id=project, name="Claude Code"
    )
    memory = MemoryService(database, audit, gate, search, events, clock, entities())
    return MemoryWorld(database, clock, search, audit, events, gate, memory, person, agent, ids)
