"""Owns how synthesis is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import SYNTHESIS_KIND
from holdfast.features.repositories.service import Repositories
from holdfast.features.synthesis.service import CONCURRENCY, Synthesis
from holdfast.features.usage.service import Usage
from holdfast.registry.entities import Forgotten
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def synthesis(parts: Parts) -> Synthesis:
    return Synthesis(
        parts[Database],
        parts[Audit],
        parts[Repositories],
        parts[LiveFiles],
        parts[ArtifactService],
        parts[IntelligenceService],
        parts[EndpointModels],
        parts[Usage],
        parts[JobEngine],
        parts[Clock],
    )


def handle_jobs(parts: Parts) -> None:
    """Derive again what a sync has made old."""
    deriving = parts[Synthesis]
    parts[JobEngine].handle(SYNTHESIS_KIND, deriving.run, concurrency=CONCURRENCY, ended=deriving.ended)


def forgotten(parts: Parts) -> Forgotten:
    """What was derived from a repository goes with it."""
    return parts[Synthesis].forgotten
