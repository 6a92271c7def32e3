"""Owns how Deep Think is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.research.deep_think import DeepThink
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.chat.turn.turns import DeepThinking
from holdfast.features.deep_think.service import DeepThinkService
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def deep_think(parts: Parts) -> DeepThinking:
    return DeepThinkService(
        parts[Database], parts[Workspaces], parts[ArtifactService], DeepThink(parts[Loop]), parts[Clock]
    )
