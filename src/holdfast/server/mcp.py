"""Owns how the MCP endpoint is put together, and what it is told of."""

from collections.abc import AsyncIterator

from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.bus import EventBus
from holdfast.features.clients.service import Clients
from holdfast.features.identity.service import Identity
from holdfast.features.usage.limiter import Limiter
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.methods import Methods
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resources
from holdfast.registry.topics import Topics
from holdfast.surfaces.http.admission import LimitedCallers
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.mcp.surface import McpSettings, McpSurface
from holdfast.surfaces.mcp.transport.live import LIST_CHANGES, WorkspaceChange


def build_mcp(
    settings: Settings,
    parts: Parts,
    authenticator: Authenticator,
    gateway: Gateway,
    *,
    recheck_seconds: float = 5.0,
) -> McpSurface:
    """The endpoint for agents."""

    return McpSurface(
        gate=LimitedCallers(authenticator, parts[Limiter], settings.mcp_calls_per_minute, "mcp"),
        workspaces=parts[Workspaces],
        project_exists=parts[Identity].project_exists,
        gateway=gateway,
        prompts=parts[Prompts],
        resources=parts[Resources],
        methods=parts[Methods],
        clients=parts[Clients],
        changes=lambda: changes(parts),
        settings=McpSettings(
            enabled=settings.mcp_enabled,
            transport="legacy" if settings.mcp_transport == "legacy" else "streamable",
            allowed_origins=(*settings.allowed_origins, *([settings.public_url] if settings.public_url else [])),
            recheck_seconds=recheck_seconds,
            with_tracing=settings.otlp_endpoint is not None,
        ),
    )


async def changes(parts: Parts) -> AsyncIterator[WorkspaceChange]:
    """What the event bus tells, as the resources that it concerns."""
    topics = parts[Topics]
    async with parts[EventBus].subscribe(topics.shown, capacity=4096) as events:
        async for event in events:
            changed = topics.changed(event)
            if changed is not None and event.workspace_id is not None:
                lists = tuple(LIST_CHANGES[name] for name in changed.lists)
                yield WorkspaceChange(event.workspace_id, changed.uris, lists)
