"""Owns the Keystone mount, `POST /api/mcp`: four tools about an organization's repositories, without sessions."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from holdfast.core.access import READ
from holdfast.core.errors import Forbidden, NotFound, RateLimited, Unauthenticated
from holdfast.core.text.redaction import redacted_path
from holdfast.core.tools.gateway import Gateway
from holdfast.features.clients.service import Clients
from holdfast.surfaces.http.admission import CallerCheck
from holdfast.surfaces.http.asgi import header, send_bytes
from holdfast.surfaces.mcp.admission import Admitted, check_origin, origins
from holdfast.surfaces.mcp.content.tools import ToolHandlers
from holdfast.surfaces.mcp.keystone_server import build_keystone_server
from holdfast.surfaces.mcp.transport.intake import is_handshake, read_message, refusing
from holdfast.surfaces.mcp.transport.sessionless import SessionlessEra
from holdfast.surfaces.mcp.transport.stateless import StatelessEra
from holdfast.surfaces.mcp.transport.wire import send_refusal

CALL = "tools/call"
# Who gets in at all; each tool says the rest. A key sees the repositories of what it reaches.
ENTER = READ


@dataclass(frozen=True, slots=True, kw_only=True)
class KeystoneSettings:
    """How the operator wants the endpoint."""

    enabled: bool = True
    allowed_origins: Sequence[str] = ()
    with_tracing: bool = False


class KeystoneSurface:
    """An ASGI application for one path. Both eras are served, and programs that know only JSON-RPC over HTTP."""

    def __init__(self, gate: CallerCheck, gateway: Gateway, clients: Clients, settings: KeystoneSettings) -> None:
        """`gate` limits tool calls; nothing else here is counted."""
        self._gate = gate
        self._enabled = settings.enabled
        self._origins = origins(settings.allowed_origins)
        tools = ToolHandlers(gateway, clients, None, "keystone")
        server = build_keystone_server(tools, with_tracing=settings.with_tracing)
        self._handshake = SessionlessEra(server, clients)
        self._stateless = StatelessEra(server, clients, tools.param_schema, plain=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._enabled:
            await send_refusal(send, NotFound("page", redacted_path(scope["path"])[:200]))
            return
        await refusing(send, self._serve(scope, receive, send))

    async def stop(self) -> None:
        """Nothing stays open here once its request is answered."""

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        admitted = await self._admit(scope)
        if scope["method"] != "POST":
            # Nothing is said unasked and there is no session to end, so neither GET nor DELETE has a meaning.
            await send_bytes(send, 405, b"", headers={"Allow": "POST"})
            return
        message = await read_message(scope, receive)
        if message.kind == "request" and message.method == CALL:
            try:
                admitted.headers = await self._gate.limit(admitted.principal)
            except RateLimited as error:
                await send_refusal(send, error, message.id)
                return
            # A tool takes as long as it takes: what asks a model or the network has limits of its own.
            scope.setdefault("state", {})["unhurried"] = True
        era = self._handshake if is_handshake(scope, message) else self._stateless
        await era.post(admitted, message, receive, send)

    async def _admit(self, scope: Scope) -> Admitted:
        """Unauthenticated or Forbidden unless the request carries a key or token that may read."""
        check_origin(scope, self._origins)
        if header(scope, b"authorization") is None:
            # Browsers' cookies are for pages; agents bring a bearer.
            raise Unauthenticated
        principal = await self._gate.authenticate(scope)
        try:
            ENTER.check(principal)
        except Forbidden as error:
            await self._gate.denied(principal, "keystone", error)
            raise
        return Admitted(scope, principal, principal.project_id or "", None, False)
