"""Owns what is served where: the surfaces on their paths, behind one gate."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.operations import Operation
from holdfast.core.settings import Settings
from holdfast.features.artifacts import operations as artifacts
from holdfast.features.audit import operations as audit
from holdfast.features.chat import operations as chats
from holdfast.features.client_bundles import operations as client_bundles
from holdfast.features.clients import operations as clients
from holdfast.features.documents import operations as documents
from holdfast.features.documents import vector_store_operations as vector_stores
from holdfast.features.endpoints import operations as endpoints
from holdfast.features.identity.operations import invitations, keys, organizations, sessions, users
from holdfast.features.intelligence.operations import brief, decisions, graph, milestones
from holdfast.features.interchange import operations as interchange
from holdfast.features.jobs import operations as jobs
from holdfast.features.memory import operations as memory
from holdfast.features.repositories.hosts.webhooks import PATH as WEBHOOKS
from holdfast.features.secrets import operations as secrets
from holdfast.features.usage import operations as usage
from holdfast.features.workspaces import operations as workspaces
from holdfast.services import Services
from holdfast.storage.database import StartFailed, Tx
from holdfast.surfaces.dashboard.bundles import PATH as BUNDLE_FORM
from holdfast.surfaces.dashboard.bundles import BundleForm
from holdfast.surfaces.dashboard.home import Home
from holdfast.surfaces.dashboard.join import JoinPages
from holdfast.surfaces.dashboard.pages import ICON
from holdfast.surfaces.dashboard.sign_in import SignInPages
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.http.deferred import Deferred
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.operation import Readiness, health
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.site import Site
from holdfast.surfaces.http.telemetry.metrics import Metrics
from holdfast.surfaces.rest import (
    events,
    repositories,
    repository_answers,
    repository_files,
    repository_synthesis,
)
from holdfast.surfaces.rest.api import Api
from holdfast.surfaces.rest.docs_page import docs_page, docs_script
from holdfast.surfaces.rest.openapi import document
from holdfast.surfaces.rest.webhooks import WebhookDoor

if TYPE_CHECKING:
    from holdfast.engines.oidc import OidcClient
    from holdfast.surfaces.http.telemetry.tracing import Traced
    from holdfast.surfaces.mcp.keystone import KeystoneSurface
    from holdfast.surfaces.mcp.surface import McpSurface
    from holdfast.surfaces.openai.surface import OpenAiSurface


def rest_operations(
    services: Services, public_url: str | None = None, streams: events.EventStreams | None = None
) -> Sequence[Operation]:
    """The whole management API."""
    repository_gate = repositories.Gate(services.repositories, services.workspaces)
    return [
        *organizations.api.bind(services),
        *workspaces.api.bind(services),
        *users.api.bind(services),
        *invitations.api.bind(services),
        *sessions.api.bind(services),
        *keys.api.bind(services),
        *audit.api.bind(services),
        *usage.api.bind(services),
        *jobs.api.bind(services),
        *events.operations(streams or events.EventStreams(services.events, services.workspaces)),
        *secrets.api.bind(services),
        *endpoints.api.bind(services),
        *memory.api.bind(services),
        *artifacts.api.bind(services),
        *documents.api.bind(services),
        *vector_stores.api.bind(services),
        *chats.api.bind(services),
        *repositories.operations(services.repositories, repository_gate, public_url or ""),
        *repository_answers.operations(
            services.repositories, services.repository_finding, services.ask, repository_gate
        ),
        *repository_files.operations(services.live_files, repository_gate),
        *repository_synthesis.operations(services.synthesis, repository_gate),
        *decisions.api.bind(services),
        *milestones.api.bind(services),
        *graph.api.bind(services),
        *brief.api.bind(services),
        *interchange.api.bind(services),
        *clients.api.bind(services),
        *client_bundles.api.bind(services),
    ]


def build_gate(settings: Settings, services: Services, public_url: str) -> Gate:
    """The ASGI application that uvicorn serves."""
    metrics = Metrics()
    authenticator = Authenticator(
        services.keys,
        services.sign_in,
        services.tokens,
        services.limiter,
        services.audit,
        settings.requests_per_minute,
        usage=services.usage,
    )
    streams = events.EventStreams(services.events, services.workspaces)
    operations = rest_operations(services, public_url, streams)
    api = Api(
        operations,
        authenticator,
        services.idempotency,
        public_url=public_url,
        max_body_bytes=settings.max_body_bytes,
    )
    secure = settings.secure_cookies if settings.secure_cookies is not None else public_url.startswith("https://")
    sign_in = SignInPages(
        services.sign_in,
        services.limiter,
        public_url=public_url,
        secure_cookies=secure,
        attempts_per_minute=settings.sign_ins_per_minute,
        oidc=_oidc(settings),
    )
    join = JoinPages(
        services.invitations,
        services.sign_in,
        services.limiter,
        secure_cookies=secure,
        attempts_per_minute=settings.sign_ins_per_minute,
    )
    # The MCP SDK takes a second to import: the server says that it is ready before.
    mcp = Deferred("holdfast.mcp_door", lambda: _mcp(settings, services, authenticator))
    keystone = Deferred("holdfast.keystone_door", lambda: _keystone(settings, services, authenticator))
    openai = Deferred("holdfast.openai_door", lambda: _openai(settings, services, authenticator))
    site = Site(
        exact={
            "/healthz": health,
            "/readyz": Readiness({"storage": lambda: services.database.read(_answers)}),
            "/metrics": metrics,
            "/": Home(services.sign_in, services.identity, services.workspaces, services.keys, public_url=public_url),
            "/join": join,
            BUNDLE_FORM: BundleForm(services.sign_in, services.client_bundles, public_url=public_url),
            **dict.fromkeys(("/sign-in", "/sign-out", "/sign-in/oidc", "/sign-in/oidc/callback"), sign_in),
            "/api/openapi.json": _fixed(lambda: orjson.dumps(document(operations)), b"application/json"),
            "/favicon.ico": _fixed(lambda: ICON, b"image/svg+xml"),
            "/api/mcp": keystone,
            "/api/docs": docs_page,
            "/api/docs.js": docs_script,
        },
        prefixes=[(WEBHOOKS, WebhookDoor(services.webhooks)), ("/api/", api)],
        projects=[("/v1/mcp", mcp)],
        endpoints=openai,
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
    gate.on_ready += [openai.load, mcp.load, keystone.load]
    gate.on_stop += [streams.stop, mcp.stop]
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


def _mcp(settings: Settings, services: Services, authenticator: Authenticator) -> "McpSurface":
    from holdfast.mcp_door import build_mcp

    return build_mcp(settings, services, authenticator, services.gateway)


def _keystone(settings: Settings, services: Services, authenticator: Authenticator) -> "KeystoneSurface":
    from holdfast.keystone_door import build_keystone

    return build_keystone(settings, services, authenticator)


def _openai(settings: Settings, services: Services, authenticator: Authenticator) -> "OpenAiSurface":
    from holdfast.openai_door import build_openai

    return build_openai(settings, services, authenticator)


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
