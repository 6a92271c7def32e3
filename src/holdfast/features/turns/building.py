"""Owns how turns are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.chat.turn.turns import ChatTurns
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.turns.resuming import KIND, ApprovedTurns
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def turns(parts: Parts) -> EndpointTurns:
    return EndpointTurns(
        parts[EndpointModels], parts[ChatTurns], parts[Workspaces], parts[SearchEngine], parts[Entities]
    )


@build
def approved(parts: Parts) -> ApprovedTurns:
    return ApprovedTurns(parts[Database], parts[EventBus], parts[JobEngine], parts[Clock], parts[EndpointTurns])


def handle_jobs(parts: Parts) -> None:
    """Go on with chats whose call was decided about."""
    parts[JobEngine].handle(KIND, parts[ApprovedTurns].resume, max_attempts=3)
