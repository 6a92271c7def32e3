"""Owns a world with everything that can be exported, for tests of import and export."""

from dataclasses import dataclass

from holdfast.core.principal import Principal
from holdfast.engines.jobs import JobEngine
from holdfast.features.artifacts import entities as artifact_entities
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.documents import entities as document_entities
from holdfast.features.documents.model import Document
from holdfast.features.documents.service import DocumentService
from holdfast.features.intelligence import entities as intelligence_entities
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.model import Report, SourceFile
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.memory import entities as memory_entities
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.intelligence import nobody_writes
from tests.support.features.memories import MemoryWorld, memory_world
from tests.support.services import entities


@dataclass(frozen=True, slots=True)
class InterchangeWorld:
    """The memories' world with artifacts, intelligence and interchange on top."""

    base: MemoryWorld
    artifacts: ArtifactService
    intelligence: IntelligenceService
    documents: DocumentService
    interchange: InterchangeService
    contradictions: Contradictions

    @property
    def person(self) -> Principal:
        return self.base.person

    async def export(self, workspace_id: str, *, derived: bool = False) -> dict[str, bytes]:
        """Every file of the export by path."""
        files: dict[str, bytes] = {}
        await self.interchange.export(self.person, workspace_id, files.__setitem__, derived=derived)
        return files

    async def upload(self, workspace_id: str, filename: str, data: bytes) -> Document:
        """A document, not read yet."""
        taking = await self.documents.upload(self.person, workspace_id)
        await taking.write(data)
        return (await taking.finish(filename)).document

    async def bring(self, workspace_id: str, files: dict[str, bytes], principal: Principal | None = None) -> Report:
        """Import files, in the order of their paths as folders and archives give them."""
        sources = [SourceFile(path, data) for path, data in sorted(files.items())]
        return await self.interchange.import_files(principal or self.person, workspace_id, sources)


async def interchange_world(database: Database, clock: MovableClock, *, workspaces: int = 2) -> InterchangeWorld:
    """A fresh organization on the database."""
    base = await memory_world(database, clock, workspaces=workspaces)
    parts = (base.database, base.audit, base.workspaces, base.search, base.events, base.clock)
    types = entities(
        *memory_entities.ENTITIES,
        *artifact_entities.ENTITIES,
        *document_entities.ENTITIES,
        *intelligence_entities.ENTITIES,
    )
    intelligence = IntelligenceService(*parts, types, nobody_writes)
    jobs = JobEngine(base.database, base.events)
    documents = DocumentService(*parts[:5], jobs, base.clock, types)
    contradictions = Contradictions(*parts[:4], base.clock, base.memory)
    vectors = VectorCollections(*parts[:4], base.clock)
    interchange = InterchangeService(*parts, intelligence, documents, contradictions, vectors)
    return InterchangeWorld(base, ArtifactService(*parts, types), intelligence, documents, interchange, contradictions)
