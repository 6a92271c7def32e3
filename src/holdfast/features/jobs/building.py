"""Owns how the service for background jobs is built."""

from holdfast.core.parts import Parts
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.audit.service import Audit
from holdfast.features.jobs.service import JobService
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def jobs(parts: Parts) -> JobService:
    return JobService(parts[Database], parts[Audit], parts[Workspaces], parts[JobEngine])
