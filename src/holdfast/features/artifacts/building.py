"""Owns how artifacts are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building
from holdfast.registry.resources import ResourceTemplate
from holdfast.storage.database import Database

build = Building()


@build
def artifacts(parts: Parts) -> ArtifactService:
    return ArtifactService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[Entities],
    )


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.artifacts.tools import tools as artifact_tools

    return artifact_tools(parts[ArtifactService])


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that chats know them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.artifacts.aliases import aliases as named

    return named()


def resources(parts: Parts) -> list[ResourceTemplate]:
    """What agents read at an address."""
    from holdfast.features.artifacts.reading import resources as artifact_resources

    return artifact_resources(parts[ArtifactService])
