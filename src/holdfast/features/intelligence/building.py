"""Owns how project intelligence is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.intelligence.writing import Writer
from holdfast.features.memory.service import MemoryService
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities, Forgotten
from holdfast.registry.feature import Building
from holdfast.registry.prompts import Prompt
from holdfast.registry.resources import Resource, ResourceTemplate
from holdfast.storage.database import Database

build = Building()


@build
def intelligence(parts: Parts) -> IntelligenceService:
    writer = Writer(
        parts[Workspaces], parts[EndpointModels], parts[Usage], weekly_tokens=parts[Settings].weekly_token_limit
    )
    return IntelligenceService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[Entities],
        writer.write,
    )


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.intelligence.tools import tools as intelligence_tools

    return intelligence_tools(parts[IntelligenceService])


def prompts(parts: Parts) -> list[Prompt]:
    """What people put into a conversation."""
    # Only where agents read: commands that ask about decisions need not load what runs tools.
    from holdfast.core.tools.gateway import Gateway
    from holdfast.features.intelligence.reading import prompts as intelligence_prompts

    return intelligence_prompts(parts[IntelligenceService], parts[MemoryService], parts[Gateway])


def resources(parts: Parts) -> list[Resource | ResourceTemplate]:
    """What agents read at an address."""
    from holdfast.features.intelligence.reading import resources as intelligence_resources

    return intelligence_resources(parts[IntelligenceService], parts[Clock])


def forgotten(parts: Parts) -> Forgotten:
    """Relations go with what they tie."""
    return parts[IntelligenceService].forget
