"""Owns how documents, their reading and vector stores are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.documents.ingest import AT_ONCE, KIND, Ingestion
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores.batches import FileBatches
from holdfast.features.documents.vector_stores.service import VectorStoreService
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def documents(parts: Parts) -> DocumentService:
    return DocumentService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[JobEngine],
        parts[Clock],
        parts[Entities],
        max_bytes=parts[Settings].max_upload_bytes,
    )


@build
def ingestion(parts: Parts) -> Ingestion:
    extract = ExtractEngine(at_once=AT_ONCE)
    return Ingestion(parts[Database], parts[SearchEngine], parts[EventBus], extract, parts[Clock])


@build
def vector_stores(parts: Parts) -> VectorStoreService:
    return VectorStoreService(parts[Database], parts[Audit], parts[Workspaces], parts[DocumentService], parts[Clock])


@build
def file_batches(parts: Parts) -> FileBatches:
    return FileBatches(parts[Database], parts[VectorStoreService], parts[Clock])


def handle_jobs(parts: Parts) -> None:
    """Read documents that were taken in."""
    parts[JobEngine].handle(KIND, parts[Ingestion].run, concurrency=AT_ONCE, reserved=1)


def tools(parts: Parts) -> list[AnyTool]:
    """What models call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.documents.tools import tools as document_tools

    return document_tools(parts[DocumentService], parts[VectorStoreService])


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that chats know them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.documents.tools import aliases as named

    return named()
