"""Owns how collections are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def records(parts: Parts) -> GraphRecords:
    return GraphRecords(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[IntelligenceService].relations,
    )


@build
def vectors(parts: Parts) -> VectorCollections:
    return VectorCollections(parts[Database], parts[Audit], parts[Workspaces], parts[SearchEngine], parts[Clock])
