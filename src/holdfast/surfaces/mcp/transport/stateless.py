"""Owns the stateless era (2026-07-28): each request carries its own version and capabilities, and is answered alone."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.shared.inbound import (
    MCP_PARAM_HEADER_PREFIX,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST
from starlette.types import Receive, Send

from holdfast.core.principal import Principal
from holdfast.features.clients.model import NewClient
from holdfast.features.clients.service import Clients
from holdfast.surfaces.http.asgi import header, send_bytes
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.exchange import AnyServer, Exchange, answer
from holdfast.surfaces.mcp.transport.intake import unsupported_version
from holdfast.surfaces.mcp.transport.reply import RpcReply, cancellable
from holdfast.surfaces.mcp.transport.wire import Form, RpcMessage, error_message, form_of, http_status, send_message

QUIET_SECONDS = 5.0
"""How long a request may stay silent before its response becomes a stream; until then errors keep their HTTP status."""

ParamSchema = Callable[[Principal, str], Mapping[str, Any] | None]
"""The input schema of a tool that mirrors arguments in headers, if this principal sees such a tool."""


class StatelessEra:
    """Serves one POST at a time; nothing is remembered between them."""

    def __init__(self, server: AnyServer, clients: Clients, param_schema: ParamSchema, *, plain: bool = False) -> None:
        """`plain`: clients that take only JSON are served too."""
        self._plain = plain
        self._server = server
        self._clients = clients
        self._param_schema = param_schema

    async def post(self, admitted: Admitted, message: RpcMessage, receive: Receive, send: Send) -> None:
        """Answer a request; a notification is acknowledged, for there is nothing it could act on."""
        if message.kind == "notification":
            await self._acknowledge(admitted, send)
            return
        if message.kind == "reply":
            raw = error_message(None, INVALID_REQUEST, "This revision answers input requests by a retry.")
            await send_message(send, raw, status=400, headers=admitted.headers)
            return
        form = form_of(admitted.scope, plain=self._plain)
        if form is None:
            wanted = "application/json" if self._plain else "both application/json and text/event-stream"
            raw = error_message(message.id, INVALID_REQUEST, f"Not Acceptable: Client must accept {wanted}")
            await send_message(send, raw, status=406, headers=admitted.headers)
            return
        route = self._route(admitted, message)
        if isinstance(route, InboundLadderRejection):
            await self._reject(route, message.id, send, admitted)
            return
        await self._serve(admitted, message, route, form, receive, send)

    async def _serve(
        self,
        admitted: Admitted,
        message: RpcMessage,
        route: InboundModernRoute,
        form: Form,
        receive: Receive,
        send: Send,
    ) -> None:
        connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
        if connection.client_params is not None:
            await self._see(admitted, route)
        working = anyio.CancelScope()
        # Hanging up is how a client of this era cancels.
        reply = RpcReply(
            receive, send, headers=admitted.headers, quiet_seconds=QUIET_SECONDS, form=form, on_gone=working.cancel
        )
        with reply:
            exchange = Exchange(admitted, message, reply.tell)
            done = await cancellable(working, answer(self._server, connection, exchange))
            if done is not None:
                raw, code = done
                await reply.finish(raw, status=200 if code is None else http_status(code))

    def _route(self, admitted: Admitted, message: RpcMessage) -> InboundModernRoute | InboundLadderRejection:
        # RFC 9110 takes the space around a value away; our HTTP parser leaves what trails it.
        pairs = [(key.decode("latin-1"), value.decode("latin-1").strip()) for key, value in admitted.scope["headers"]]
        duplicated = find_duplicated_routing_header(pairs)
        if duplicated is not None:
            return InboundLadderRejection(code=HEADER_MISMATCH, message=f"{duplicated} header appears more than once")
        headers = dict(pairs)
        route = classify_inbound_request(message.body, headers=headers)
        if isinstance(route, InboundLadderRejection) and route.code == INVALID_PARAMS:
            # Without an envelope to compare with, the version is what is wrong if nobody knows it.
            return unsupported_version(headers.get("mcp-protocol-version")) or route
        if isinstance(route, InboundLadderRejection) or message.method != "tools/call":
            return route
        return self._param_mismatch(admitted, message, pairs) or route

    def _param_mismatch(
        self, admitted: Admitted, message: RpcMessage, pairs: list[tuple[str, str]]
    ) -> InboundLadderRejection | None:
        params = message.params or {}
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        schema = self._param_schema(admitted.principal, name)
        if schema is None:
            return None
        prefix = MCP_PARAM_HEADER_PREFIX.lower()
        seen: set[str] = set()
        for key, _ in pairs:
            if key.startswith(prefix) and key in seen:
                return InboundLadderRejection(code=HEADER_MISMATCH, message=f"{key} header appears more than once")
            seen.add(key)
        return validate_mcp_param_headers(schema, arguments, dict(pairs))

    async def _see(self, admitted: Admitted, route: InboundModernRoute) -> None:
        """As the client wrote it: the envelope was found sound, and reading it again costs on every request."""
        info = route.client_info
        client = NewClient(
            info["name"], info["version"], route.protocol_version, info.get("title") or "", route.client_capabilities
        )
        await self._clients.see(admitted.principal, client)

    async def _acknowledge(self, admitted: Admitted, send: Send) -> None:
        requested = header(admitted.scope, b"mcp-protocol-version") or ""
        unsupported = unsupported_protocol_version_rejection(requested)
        if unsupported is not None:
            await self._reject(unsupported, None, send, admitted)
            return
        await send_bytes(send, 202, b"", headers=admitted.headers)

    @staticmethod
    async def _reject(rejection: InboundLadderRejection, id: str | int | None, send: Send, admitted: Admitted) -> None:
        raw = error_message(id, rejection.code, rejection.message, rejection.data)
        await send_message(send, raw, status=http_status(rejection.code), headers=admitted.headers)
