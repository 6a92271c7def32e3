"""Owns how the sessions of MCP clients are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.features.clients.service import Clients
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def clients(parts: Parts) -> Clients:
    settings = parts[Settings]
    return Clients(
        parts[Database],
        parts[Clock],
        ttl_seconds=settings.mcp_session_ttl_seconds,
        max_sessions=settings.mcp_max_sessions,
        max_sessions_each=settings.mcp_max_sessions_each,
    )
