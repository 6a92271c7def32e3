"""Owns how a workspace's knowledge is built."""

from holdfast.core.parts import Parts
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.knowledge.service import WorkspaceKnowledge
from holdfast.features.memory.service import MemoryService
from holdfast.registry.feature import Building

build = Building()


@build
def knowledge(parts: Parts) -> WorkspaceKnowledge:
    return WorkspaceKnowledge(parts[MemoryService], parts[ArtifactService], parts[IntelligenceService])
