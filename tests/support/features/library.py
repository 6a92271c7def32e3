"""Owns a small world for tests of documents and artifacts: an organization, workspaces, and the services on a store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal, Scope
from holdfast.engines.events import EventBus
from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.extract.model import ExtractLimits
from holdfast.engines.jobs import JobEngine
from holdfast.engines.search import Hit, Query, SearchEngine
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.documents.ingest import KIND, Ingestion
from holdfast.features.documents.model import MAX_BYTES, Document, Uploaded
from holdfast.features.documents.service import DocumentService
from holdfast.features.workspaces import store as workspace_store
from holdfast.features.workspaces.model import Workspace
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import audit_trail
from tests.support.services import entities

ALL: frozenset[Scope] = frozenset({"inference", "read"})


@dataclass(slots=True)
class Library:
    """The services, who asks, and where."""

    database: Database
    audit: Audit
    workspaces: Workspaces
    search: SearchEngine
    events: EventBus
    jobs: JobEngine
    artifacts: ArtifactService
    documents: DocumentService
    principal: Principal
    workspace_id: str

    async def found(self, text: str, type: str) -> list[Hit]:
        """What search knows in the workspace."""
        return await self.search.search(Query(self.workspace_id, text, types=frozenset({type})))

    async def upload(self, filename: str, content: bytes, *, chat_id: str | None = None) -> Uploaded:
        """Upload a file as a client does."""
        taking = await self.documents.upload(self.principal, self.workspace_id)
        await taking.write(content)
        return await taking.finish(filename, "", chat_id)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run jobs meanwhile."""
        task = asyncio.create_task(self.jobs.run())
        try:
            yield
        finally:
            await self.jobs.stop()
            await task

    async def read(self, document: Document) -> Document:
        """The document once it has been read, which must be `working`."""
        await self.jobs.wait(document.job_id, timeout_seconds=120)
        return await self.documents.get(self.principal, self.workspace_id, document.id)

    async def add(self, filename: str, content: bytes) -> Document:
        """Upload a file and read it."""
        kept = await self.upload(filename, content)
        async with self.working():
            return await self.read(kept.document)

    async def audited(self) -> list[str]:
        """The actions in the audit trail, oldest first."""
        rows = await self.database.read(lambda tx: tx.all("SELECT action FROM audit_event ORDER BY number"))
        return [row["action"] for row in rows]

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        row = await self.database.read(lambda tx: tx.one(f"SELECT COUNT(*) AS n FROM {table}"))
        return int(row["n"]) if row else 0

    def with_scopes(self, *scopes: Scope) -> Principal:
        """The same caller with less allowed."""
        return replace(self.principal, scopes=frozenset(scopes))

    async def stranger(self) -> Principal:
        """Somebody of another organization."""
        other, _ = await self.database.write(lambda tx: settle(tx, "other"))
        return replace(self.principal, organization_id=other)


def settle(tx: Tx, name: str) -> tuple[str, str]:
    """A new organization with a project and a workspace; the ids of organization and workspace."""
    organization, project, workspace = new_id("org"), new_id("proj"), new_id("ws")
    tx.execute(
        "INSERT INTO organization (id, name, created_at) VALUES (:id, :name, 1)", {"id": organization, "name": name}
    )
    tx.execute(
        "INSERT INTO project (id, organization_id, slug, name, created_at) VALUES (:id, :organization, 'p', 'P', 1)",
        {"id": project, "organization": organization},
    )
    workspace_store.insert(tx, Workspace(workspace, project, organization, "w", "W", 1))
    return organization, workspace


def build(
    database: Database,
    clock: Clock,
    organization_id: str,
    workspace_id: str,
    *,
    limits: ExtractLimits | None = None,
    max_bytes: int = MAX_BYTES,
) -> Library:
    """The services for a workspace that exists."""
    audit = audit_trail(database, clock)
    workspaces = Workspaces(database, audit, clock, lambda *_: True, lambda *_: True, lambda *_: True)
    search = SearchEngine(database, WordEmbedder(), clock)
    events = EventBus(database, clock)
    jobs = JobEngine(database, events)
    jobs.handle(KIND, Ingestion(database, search, events, ExtractEngine(limits), clock).run, concurrency=2)
    return Library(
        database=database,
        audit=audit,
        workspaces=workspaces,
        search=search,
        events=events,
        jobs=jobs,
        artifacts=ArtifactService(database, audit, workspaces, search, events, clock, entities()),
        documents=DocumentService(
            database, audit, workspaces, search, events, jobs, clock, entities(), max_bytes=max_bytes
        ),
        principal=Principal(organization_id, "key_test", "key", False, ALL, name="Kim"),
        workspace_id=workspace_id,
    )


async def library(
    database: Database, clock: Clock, *, limits: ExtractLimits | None = None, max_bytes: int = MAX_BYTES
) -> Library:
    """A new workspace with its services."""
    organization_id, workspace_id = await database.write(lambda tx: settle(tx, "ours"))
    return build(database, clock, organization_id, workspace_id, limits=limits, max_bytes=max_bytes)
