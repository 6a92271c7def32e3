"""Owns how the Keystone mount is put together: its tools, its limit and its settings."""

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.features.clients.service import Clients
from holdfast.features.usage.window import Windows
from holdfast.storage.database import Database
from holdfast.surfaces.http.admission import LimitedCallers
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.mcp.keystone import KeystoneSettings, KeystoneSurface


def build_keystone(
    settings: Settings, parts: Parts, authenticator: Authenticator, *, clock: Clock | None = None
) -> KeystoneSurface:
    """The endpoint for agents that ask about repositories."""
    windows = Windows(parts[Database], clock or SystemClock())
    return KeystoneSurface(
        gate=LimitedCallers(authenticator, windows, settings.mcp_rate_limit_per_minute, "mcp", bucket="keystone"),
        gateway=parts[Gateway],
        clients=parts[Clients],
        settings=KeystoneSettings(
            enabled=settings.mcp_enabled,
            allowed_origins=(*settings.allowed_origins, *([settings.public_url] if settings.public_url else [])),
            with_tracing=settings.otlp_endpoint is not None,
        ),
    )
