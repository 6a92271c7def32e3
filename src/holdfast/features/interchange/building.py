"""Owns how import and export are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.documents.service import DocumentService
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def interchange(parts: Parts) -> InterchangeService:
    return InterchangeService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[IntelligenceService],
        parts[DocumentService],
        parts[Contradictions],
        parts[VectorCollections],
    )
