"""Owns the MCP endpoint: admits a request, tells the eras apart, and hands it to the right one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from mcp_types import INVALID_REQUEST
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.text.redaction import redacted_path
from holdfast.core.tools.gateway import Gateway
from holdfast.features.clients.service import Clients
from holdfast.registry.methods import Methods
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resources
from holdfast.surfaces.http.admission import CallerCheck, ProjectCheck, WorkspaceFinder
from holdfast.surfaces.http.asgi import header, send_bytes
from holdfast.surfaces.mcp.admission import Admitted, McpAdmission
from holdfast.surfaces.mcp.content.prompts import PromptHandlers
from holdfast.surfaces.mcp.content.resources import ResourceHandlers
from holdfast.surfaces.mcp.content.tools import ToolHandlers
from holdfast.surfaces.mcp.server import XEROTIER, Completing, Handlers, Mount, build_server
from holdfast.surfaces.mcp.transport.handshake import HandshakeEra
from holdfast.surfaces.mcp.transport.intake import (
    is_handshake,
    read_message,
    read_messages,
    refusing,
    serves_handshake,
    unsupported_version,
)
from holdfast.surfaces.mcp.transport.listening import Listening
from holdfast.surfaces.mcp.transport.live import Changes, Live
from holdfast.surfaces.mcp.transport.sse import EventTransport
from holdfast.surfaces.mcp.transport.stateless import StatelessEra
from holdfast.surfaces.mcp.transport.streams import RECHECK_SECONDS, Streams
from holdfast.surfaces.mcp.transport.wire import (
    ONE_BY_ONE,
    RpcBatch,
    WireError,
    error_message,
    send_message,
    send_refusal,
)

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 30.0
_ABOUT_NO_WORKSPACE = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/templates/list", "notifications/cancelled"}
)
"""What a client asks of a server whatever workspace it works in; looking for one would be in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """How the operator wants the endpoint."""

    enabled: bool = True
    transport: Literal["streamable", "legacy"] = "streamable"
    allowed_origins: Sequence[str] = ()
    recheck_seconds: float = RECHECK_SECONDS
    with_tracing: bool = False


class McpSurface:
    """An ASGI application for `/{project_id}/v1/mcp`."""

    def __init__(
        self,
        *,
        gate: CallerCheck,
        workspaces: WorkspaceFinder,
        project_exists: ProjectCheck,
        gateway: Gateway,
        prompts: Prompts,
        resources: Resources,
        methods: Methods,
        clients: Clients,
        changes: Changes | None = None,
        settings: McpSettings | None = None,
        admission: McpAdmission | None = None,
        mount: Mount = XEROTIER,
    ) -> None:
        """`admission` takes the place of the project in the path, where a mount has another way to find it."""
        self._settings = settings = settings or McpSettings()
        self._clients = clients
        self._doorkeeper = admission or McpAdmission(gate, workspaces, project_exists, settings.allowed_origins)
        self._mount = mount
        self._live = Live(clients, changes)
        self._tools = ToolHandlers(gateway, clients, workspaces, mount.consumer)
        self._resources = ResourceHandlers(resources)
        self._prompts = PromptHandlers(prompts, clients)
        self._completing = Completing(prompts, resources)
        self._methods = methods
        self._streams = Streams(
            clients,
            self._doorkeeper,
            self._live,
            self._resources.watchable,
            recheck_seconds=settings.recheck_seconds,
        )
        self._parts: tuple[StatelessEra, HandshakeEra, EventTransport] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._starting = asyncio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while entered."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    @property
    def live(self) -> Live:
        """Where changes are told."""
        return self._live

    async def start(self) -> tuple[StatelessEra, HandshakeEra, EventTransport]:
        """Fetch the shared key, follow changes, sweep what expired. The first request does this where nobody did."""
        async with self._starting:
            if self._parts is None:
                self._parts = await self._build()
                self._tasks = [asyncio.create_task(self._live.run()), asyncio.create_task(self._sweep())]
            return self._parts

    async def stop(self) -> None:
        """End open streams, so that a shutdown need not wait for clients to hang up."""
        self._live.closing.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _build(self) -> tuple[StatelessEra, HandshakeEra, EventTransport]:
        handlers = Handlers(
            self._tools, self._prompts, self._resources, self._completing, self._clients, self._doorkeeper
        )
        recheck = self._settings.recheck_seconds
        listening = Listening(self._live, self._doorkeeper, self._resources, recheck_seconds=recheck)
        key = await self._clients.state_key()
        server = build_server(
            handlers, listening, key, self._methods, mount=self._mount, with_tracing=self._settings.with_tracing
        )
        handshake = HandshakeEra(server, self._clients)
        events = EventTransport(handshake, self._streams, self._clients)
        return StatelessEra(server, self._clients, self._tools.param_schema), handshake, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._settings.enabled:
            await send_refusal(send, NotFound("page", redacted_path(scope["path"])[:200]))
            return
        await refusing(send, self._admit(scope, receive, send))

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(await self._doorkeeper.admit(scope, _project_id(scope)), receive, send)

    async def _serve(self, admitted: Admitted, receive: Receive, send: Send) -> None:
        stateless, handshake, events = self._parts or await self.start()
        method = admitted.scope["method"]
        if self._settings.transport == "legacy":
            await self._serve_events(admitted, events, method, receive, send)
        elif method == "POST":
            read = await read_messages(admitted.scope, receive)
            if isinstance(read, RpcBatch):
                await self._serve_batch(admitted, handshake, read, receive, send)
                return
            message = read
            if is_handshake(admitted.scope, message):
                await handshake.post(admitted, message, receive, send)
                return
            if message.method not in _ABOUT_NO_WORKSPACE:
                await self._doorkeeper.place(admitted)
            await stateless.post(admitted, message, receive, send)
        else:
            await self._serve_other(admitted, handshake, method, receive, send)

    async def _serve_batch(
        self, admitted: Admitted, handshake: HandshakeEra, batch: RpcBatch, receive: Receive, send: Send
    ) -> None:
        if not serves_handshake(header(admitted.scope, b"mcp-protocol-version")):
            raise WireError(INVALID_REQUEST, ONE_BY_ONE)
        # Each of its messages counts, as if it had come alone.
        for _ in batch.messages[1:]:
            admitted.headers = await self._doorkeeper.count(admitted)
        await handshake.post_batch(admitted, batch, receive, send)

    async def _serve_other(
        self, admitted: Admitted, handshake: HandshakeEra, method: str, receive: Receive, send: Send
    ) -> None:
        version = header(admitted.scope, b"mcp-protocol-version")
        unknown = unsupported_version(version)
        if unknown is not None:
            raw = error_message(None, unknown.code, unknown.message, unknown.data)
            await send_message(send, raw, status=400, headers=admitted.headers)
        elif method in ("GET", "DELETE") and serves_handshake(version):
            await self._serve_session(admitted, handshake, method, receive, send)
        else:
            allowed = "GET, POST, DELETE" if serves_handshake(version) else "POST"
            await send_bytes(send, 405, b"", headers={**admitted.headers, "Allow": allowed})

    async def _serve_session(
        self, admitted: Admitted, handshake: HandshakeEra, method: str, receive: Receive, send: Send
    ) -> None:
        session = await handshake.session(admitted)
        if method == "DELETE":
            await self._clients.end(session)
            await send_bytes(send, 200, b"", headers=admitted.headers)
        else:
            await self._streams.get(admitted, session, receive, send)

    @staticmethod
    async def _serve_events(
        admitted: Admitted, events: EventTransport, method: str, receive: Receive, send: Send
    ) -> None:
        if method == "GET":
            await events.open(admitted, receive, send)
        elif method == "POST" and b"session_id=" in admitted.scope.get("query_string", b""):
            await events.post(admitted, await read_message(admitted.scope, receive), send)
        else:
            await send_bytes(send, 405, b"", headers={**admitted.headers, "Allow": "GET"})

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self._clients.sweep()
            except HoldfastError:
                logger.exception("expired MCP sessions could not be removed; trying again soon")


def _project_id(scope: Scope) -> str:
    named = scope.get("path_params", {}).get("project_id")
    return str(named) if named else str(scope["path"]).strip("/").split("/")[0]
