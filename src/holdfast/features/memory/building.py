"""Owns how memory is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.memory.writing.overview import MemoryOverview
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building
from holdfast.registry.prompts import Prompt
from holdfast.registry.resources import ResourceTemplate
from holdfast.storage.database import Database

build = Building()


@build
def memory(parts: Parts) -> MemoryService:
    return MemoryService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[Entities],
    )


@build
def contradictions(parts: Parts) -> Contradictions:
    return Contradictions(parts[Database], parts[Audit], parts[Workspaces], parts[Clock], parts[MemoryService])


@build
def overview(parts: Parts) -> MemoryOverview:
    return MemoryOverview(parts[Database], parts[Workspaces])


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.memory.tools import tools as memory_tools

    return memory_tools(parts[MemoryService])


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that chats know them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.memory.aliases import aliases as named

    return named()


def prompts(parts: Parts) -> list[Prompt]:
    """What people put into a conversation."""
    from holdfast.features.memory.reading import prompts as memory_prompts

    return memory_prompts(parts[MemoryService])


def resources(parts: Parts) -> list[ResourceTemplate]:
    """What agents read at an address."""
    from holdfast.features.memory.reading import resources as memory_resources

    return memory_resources(parts[MemoryService])
