"""Owns what is served where: the surfaces on their paths, behind one gate."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.clock import Clock
from holdfast.core.operations import Operation
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Gateway
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.agents.sessions.telling import SessionTelling
from holdfast.features.audit.service import Audit
from holdfast.features.catalog.servers.address import PublicAddress
from holdfast.features.client_bundles.service import ClientBundles
from holdfast.features.identity.idempotency import IdempotentRequests
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.repositories.hosts.webhooks import PATH as WEBHOOKS
from holdfast.features.repositories.hosts.webhooks import Webhooks
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.topics import Topics
from holdfast.server.features import Features
from holdfast.storage.database import Database, StartFailed, Tx
from holdfast.surfaces.dashboard.signing.bundles import PATH as BUNDLE_FORM
from holdfast.surfaces.dashboard.signing.bundles import BundleForm
from holdfast.surfaces.dashboard.signing.join import JoinPages
from holdfast.surfaces.dashboard.signing.pages import ICON
from holdfast.surfaces.dashboard.signing.sign_in import SignInPages
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.http.deferred import Deferred
from holdfast.surfaces.http.endpoint.wires import EndpointWires
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.operation import Readiness, health
from holdfast.surfaces.http.protocol.connections import OpenElsewhere
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.site import Site
from holdfast.surfaces.http.telemetry.metrics import Metrics
from holdfast.surfaces.rest import events
from holdfast.surfaces.rest.api import Api
from holdfast.surfaces.rest.docs_page import docs_asset, docs_page
from holdfast.surfaces.rest.openapi import document
from holdfast.surfaces.rest.webhooks import WebhookEndpoint

if TYPE_CHECKING:
    from holdfast.engines.oidc import OidcClient
    from holdfast.surfaces.anthropic.surface import AnthropicSurface
    from holdfast.surfaces.dashboard.shell.app import Dashboard
    from holdfast.surfaces.http.telemetry.tracing import Traced
    from holdfast.surfaces.mcp.keystone import KeystoneSurface
    from holdfast.surfaces.mcp.surface import McpSurface
    from holdfast.surfaces.mcp.zero import ZeroSurface
    from holdfast.surfaces.openai.surface import OpenAiSurface


def rest_operations(parts: Parts, streams: events.EventStreams | None = None) -> Sequence[Operation]:
    """The whole management API."""
    return [*events.operations(streams or event_streams(parts)), *declared_operations(parts)]


def event_streams(parts: Parts, elsewhere: OpenElsewhere | None = None) -> events.EventStreams:
    """The streams of what happens in workspaces; `elsewhere` counts those of all workers."""
    return events.EventStreams(parts[EventBus], parts[Workspaces], parts[Topics], parts[Clock], elsewhere)


def declared_operations(parts: Parts) -> Iterator[Operation]:
    """What the features declare, bound to their services."""
    for feature in parts[Features]:
        for name in feature.operations:
            yield from feature.module(name).api.bind(parts)


def build_gate(settings: Settings, parts: Parts, public_url: str, open_streams: OpenElsewhere | None = None) -> Gate:
    """The ASGI application that uvicorn serves."""
    metrics = Metrics()
    parts[PublicAddress].url = public_url.rstrip("/")
    authenticator = Authenticator(
        parts[Keys],
        parts[SignIn],
        parts[Tokens],
        parts[Limiter],
        parts[Audit],
        settings.requests_per_minute,
        usage=parts[Usage],
    )
    streams = event_streams(parts, open_streams)
    operations = rest_operations(parts, streams)
    api = Api(
        operations,
        authenticator,
        parts[IdempotentRequests],
        public_url=public_url,
        max_body_bytes=settings.max_body_bytes,
    )
    secure = settings.secure_cookies if settings.secure_cookies is not None else public_url.startswith("https://")
    sign_in = SignInPages(
        parts[SignIn],
        parts[Limiter],
        public_url=public_url,
        secure_cookies=secure,
        attempts_per_minute=settings.sign_ins_per_minute,
        oidc=_oidc(settings),
    )
    join = JoinPages(
        parts[Invitations],
        parts[SignIn],
        parts[Limiter],
        secure_cookies=secure,
        attempts_per_minute=settings.sign_ins_per_minute,
    )
    # The MCP SDK takes a second to import: the server says that it is ready before.
    mcp = Deferred("holdfast.server.mcp", lambda: _mcp(settings, parts, authenticator))
    keystone = Deferred("holdfast.server.keystone", lambda: _keystone(settings, parts, authenticator))
    zero = Deferred("holdfast.server.zero", lambda: _zero(settings, parts, authenticator))
    openai = Deferred("holdfast.server.endpoints.openai", lambda: _openai(settings, parts, authenticator))
    pages = Deferred("holdfast.server.dashboard", lambda: _dashboard(parts, authenticator, public_url))
    anthropic = Deferred("holdfast.server.endpoints.anthropic", lambda: _anthropic(settings, parts, authenticator))
    site = Site(
        exact={
            "/healthz": health,
            "/readyz": Readiness({"storage": lambda: parts[Database].read(_answers)}),
            "/metrics": metrics,
            **dict.fromkeys(("/", "/chat", "/find", "/keys", "/approvals", "/settings"), pages),
            "/grants": api,
            "/join": join,
            BUNDLE_FORM: BundleForm(parts[SignIn], parts[ClientBundles], public_url=public_url),
            **dict.fromkeys(("/sign-in", "/sign-out", "/sign-in/oidc", "/sign-in/oidc/callback"), sign_in),
            "/api/openapi.json": _fixed(lambda: orjson.dumps(document(operations)), b"application/json"),
            "/favicon.ico": _fixed(lambda: ICON, b"image/svg+xml"),
            "/api/mcp": keystone,
            "/mcp": zero,
            "/api/docs": docs_page,
            **dict.fromkeys(("/api/docs.js", "/api/docs.css"), docs_asset),
        },
        prefixes=[
            (WEBHOOKS, WebhookEndpoint(parts[Webhooks])),
            ("/api/", api),
            ("/agents/", api),
            ("/approve/", pages),
            ("/mcp/", zero),
            ("/connect/", pages),
            *((prefix, pages) for prefix in ("/static/", "/w/", "/chat/", "/settings/", "/sessions/")),
        ],
        projects=[("/v1/mcp", mcp)],
        endpoints=EndpointWires(openai, anthropic),
        pages=pages,
    )
    traced = _traced(settings, site)
    gate = Gate(
        traced or site,
        metrics=metrics,
        allowed_hosts=_hosts(settings),
        allowed_origins=settings.allowed_origins,
        request_timeout_seconds=settings.request_timeout_seconds,
        proxies=Proxies(settings.trusted_proxies),
    )
    gate.on_ready += [openai.load, anthropic.load, mcp.load, keystone.load, zero.load, pages.load]
    if settings.embedder == "embedded":
        parts[SearchEngine].is_loading = True
        gate.on_ready.append(parts[SearchEngine].load)
    gate.on_stop += [streams.stop, parts[SessionTelling].stop, mcp.stop, zero.stop]
    if traced is not None:
        gate.on_stop.append(traced.stop)
    return gate


def _oidc(settings: Settings) -> "OidcClient | None":
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    # Imported only where it is configured: its HTTP client costs start-up time and memory.
    from holdfast.engines.oidc import OidcClient

    return OidcClient(settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret)


def _traced(settings: Settings, inside: ASGIApp) -> "Traced | None":
    if settings.otlp_endpoint is None:
        return None
    # Imported only where it is configured: it costs start-up time and memory, and is an optional extra.
    try:
        from holdfast.surfaces.http.telemetry.tracing import Traced
    except ImportError:
        raise StartFailed("HOLDFAST_OTLP_ENDPOINT needs the extra: pip install 'holdfast[telemetry]'.") from None
    return Traced(inside, settings.otlp_endpoint)


def _answers(tx: Tx) -> None:
    tx.one("SELECT 1 AS one")


def _mcp(settings: Settings, parts: Parts, authenticator: Authenticator) -> "McpSurface":
    from holdfast.server.mcp import build_mcp

    return build_mcp(settings, parts, authenticator, parts[Gateway])


def _keystone(settings: Settings, parts: Parts, authenticator: Authenticator) -> "KeystoneSurface":
    from holdfast.server.keystone import build_keystone

    return build_keystone(settings, parts, authenticator)


def _zero(settings: Settings, parts: Parts, authenticator: Authenticator) -> "ZeroSurface":
    from holdfast.server.zero import build_zero

    return build_zero(settings, parts, authenticator)


def _openai(settings: Settings, parts: Parts, authenticator: Authenticator) -> "OpenAiSurface":
    from holdfast.server.endpoints.openai import build_openai

    return build_openai(settings, parts, authenticator)


def _dashboard(parts: Parts, authenticator: Authenticator, public_url: str) -> "Dashboard":
    from holdfast.server.dashboard import build_dashboard

    return build_dashboard(parts, authenticator, public_url)


def _anthropic(settings: Settings, parts: Parts, authenticator: Authenticator) -> "AnthropicSurface":
    from holdfast.server.endpoints.anthropic import build_anthropic

    return build_anthropic(settings, parts, authenticator)


def _fixed(make: Callable[[], bytes], content_type: bytes) -> ASGIApp:
    """What is the same for everybody, made when somebody first asks for it."""
    body = cache(make)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await send_bytes(send, 200, body(), content_type=content_type)

    return serve


def _hosts(settings: Settings) -> list[str]:
    """Names this server goes by; an address that it listens on is its name too."""
    hosts = [*settings.allowed_hosts]
    if settings.host not in ("0.0.0.0", "::"):  # noqa: S104 – compared, not bound
        hosts.append(settings.host)
    if settings.public_url:
        hosts.append(urlsplit(settings.public_url).hostname or "")
    return hosts
