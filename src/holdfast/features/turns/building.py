"""Owns how turns are built."""

from holdfast.core.parts import Parts
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.chat.turn.turns import ChatTurns
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.turns.service import EndpointTurns
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building

build = Building()


@build
def turns(parts: Parts) -> EndpointTurns:
    return EndpointTurns(
        parts[EndpointModels], parts[ChatTurns], parts[Workspaces], parts[SearchEngine], parts[Entities]
    )
