"""Owns how gates are built, with the tools of `x1agent`."""

from collections.abc import Callable

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Catalog, Gateway
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.web import WebAccess
from holdfast.features.agents.gate.attached import AttachedParts
from holdfast.features.agents.gate.base import GatedSession, SessionActions
from holdfast.features.agents.gate.gates import Gates
from holdfast.features.agents.gate.records import CallRecords
from holdfast.features.agents.gate.toolset import Toolset
from holdfast.features.agents.x1.channels import Channels
from holdfast.features.agents.x1.delegating import delegating_tools
from holdfast.features.agents.x1.knowledge import knowledge_tools
from holdfast.features.agents.x1.making import making_tools
from holdfast.features.agents.x1.previews import Previews
from holdfast.features.agents.x1.talking import talking_tools
from holdfast.features.agents.x1.toolset import BuiltInServer
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.execution.policies.deciding import Deciding
from holdfast.features.execution.runs.live import LiveTools
from holdfast.features.secrets.masking import SecretMask
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database


def x1_tools(parts: Parts) -> list[AnyTool]:
    """The 25 tools of `x1agent`, as they are listed."""
    settings, guard = parts[Settings], parts[WebAccess].guard
    channels = Channels(parts[Database], parts[Secrets], guard)
    previews = Previews(
        guard,
        command=settings.preview_command,
        webhook=settings.preview_webhook,
        seconds=settings.preview_seconds,
    )
    return [
        *talking_tools(),
        *making_tools(parts[ArtifactService], channels, previews),
        *knowledge_tools(parts[GraphRecords], parts[VectorCollections]),
        *delegating_tools(),
    ]


def session_gates(parts: Parts, actions: Callable[[], SessionActions]) -> Gates:
    """What opens sessions' gates; `actions` are asked at a call: what has sessions also opens gates."""
    records = CallRecords(parts[Database], parts[Audit], actions)
    gateway = Gateway(lambda: Catalog(x1_tools(parts)))
    attached = AttachedParts(
        parts[Database],
        parts[ToolPins],
        parts[Deciding],
        parts[ServerConnections],
        parts[ArtifactService],
        records,
        LiveTools(),
        parts[Settings].exec_call_seconds,
    )

    def built_in(session: GatedSession, mask: SecretMask) -> Toolset:
        return BuiltInServer(gateway, session, actions, records, mask)

    return Gates(attached, parts[ServerStarts], built_in)
