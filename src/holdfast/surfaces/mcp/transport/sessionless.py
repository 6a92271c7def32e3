"""Owns the handshake era (2024-11-05 … 2025-11-25) without sessions: initialize opens nothing, each POST is alone."""

import anyio
from mcp.server.connection import Connection
from mcp_types import INVALID_REQUEST, ClientCapabilities, Implementation, InitializeRequestParams
from starlette.types import Receive, Send

from holdfast.features.clients.service import Clients
from holdfast.surfaces.http.asgi import header, send_bytes
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.exchange import AnyServer, Exchange, answer
from holdfast.surfaces.mcp.transport.introduction import Unreachable, introduce
from holdfast.surfaces.mcp.transport.reply import RpcReply, cancellable
from holdfast.surfaces.mcp.transport.wire import Form, RpcMessage, error_message, form_of, send_message

QUIET_SECONDS = 15.0
"""How long a request may stay silent before its response becomes a stream, which proxies do not take for a dead one."""
UNSAID = "2025-03-26"
"""The revision of a request that names none, by the specification's own word."""


class SessionlessEra:
    """Serves POSTs of clients that speak a handshake revision; nothing is remembered between them."""

    def __init__(self, server: AnyServer, clients: Clients) -> None:
        self._server = server
        self._clients = clients

    async def post(self, admitted: Admitted, message: RpcMessage, receive: Receive, send: Send) -> None:
        """Answer a request; there is nothing that a notification or a reply could act on."""
        form = form_of(admitted.scope, plain=True)
        if form is None:
            raw = error_message(message.id, INVALID_REQUEST, "Not Acceptable: Client must accept application/json")
            await send_message(send, raw, status=406, headers=admitted.headers)
        elif message.kind != "request":
            await send_bytes(send, 202, b"", headers=admitted.headers)
        elif message.method == "initialize":
            raw, client = await introduce(self._server, admitted, message)
            if client is not None:
                await self._clients.see(admitted.principal, client)
            await send_message(send, raw, headers=admitted.headers)
        else:
            await self._serve(admitted, message, form, receive, send)

    async def _serve(self, admitted: Admitted, message: RpcMessage, form: Form, receive: Receive, send: Send) -> None:
        working = anyio.CancelScope()
        # Nobody could come back for the answer: a client that hung up gives up its request.
        reply = RpcReply(
            receive, send, headers=admitted.headers, quiet_seconds=QUIET_SECONDS, form=form, on_gone=working.cancel
        )
        with reply:
            connection = _introduced(header(admitted.scope, b"mcp-protocol-version") or UNSAID)
            done = await cancellable(working, answer(self._server, connection, Exchange(admitted, message, reply.tell)))
            if done is not None:
                await reply.finish(done[0])


def _introduced(version: str) -> Connection:
    """A connection past its handshake."""
    connection = Connection.for_loop(Unreachable(), protocol_version_hint=version)
    connection.client_params = InitializeRequestParams(
        protocol_version=version,
        capabilities=ClientCapabilities(),
        client_info=Implementation(name="", version=""),
    )
    return connection
