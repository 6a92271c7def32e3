"""Owns the handshake era (2024-11-05 … 2025-11-25): sessions that begin with initialize and live in the store."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import orjson
from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    ClientCapabilities,
    ErrorData,
    Implementation,
    InitializeRequestParams,
)
from mcp_types.version import is_version_at_least
from starlette.types import Receive, Send

from holdfast.core.ids import new_id
from holdfast.core.text import jsontext
from holdfast.features.clients.model import McpSession, NewClient, SessionNotFound
from holdfast.features.clients.service import STANDALONE, Clients
from holdfast.surfaces.http.asgi import header, send_bytes
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.exchange import AnyServer, Exchange, answer
from holdfast.surfaces.mcp.transport.introduction import Unreachable, introduce
from holdfast.surfaces.mcp.transport.reply import Answering, RpcReply, cancellable
from holdfast.surfaces.mcp.transport.wire import (
    BATCHED_VERSION,
    ONE_BY_ONE,
    REQUEST_CANCELLED,
    RpcBatch,
    RpcMessage,
    WireError,
    error_message,
    form_of,
    notification_message,
    send_message,
)

SESSION_HEADER = "Mcp-Session-Id"
QUIET_SECONDS = 1.0
"""How long a request may stay silent before its response becomes a resumable stream."""
ANSWER_SECONDS = 300.0
MAIL_SECONDS = 1.0
MAX_KNOWN = 5_000
OUR_ID = "hf-"


class HandshakeEra:
    """Serves POSTs of sessions. Requests in flight are here; everything else about a session is in the store."""

    def __init__(self, server: AnyServer, clients: Clients) -> None:
        self._server = server
        self._clients = clients
        self._in_flight: dict[tuple[str, str], anyio.CancelScope] = {}
        self._asked: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}
        self._introduced: dict[str, InitializeRequestParams] = {}

    async def session(self, admitted: Admitted) -> McpSession:
        """The session that the request names, in its workspace; SessionNotFound for any mismatch."""
        session_id = header(admitted.scope, b"mcp-session-id")
        if session_id is None:
            raise MCPError(code=INVALID_REQUEST, message="Bad Request: Missing session ID")
        return await self.session_of(admitted, session_id)

    async def session_of(self, admitted: Admitted, session_id: str) -> McpSession:
        """The session of that id, with its workspace made the request's own."""
        session = await self._clients.find(admitted.principal, session_id[:200], admitted.project_id)
        if admitted.workspace_id is None:
            admitted.workspace_id = session.workspace_id
        elif session.workspace_id not in (None, admitted.workspace_id):
            raise SessionNotFound
        admitted.session = session
        return session

    async def post(self, admitted: Admitted, message: RpcMessage, receive: Receive, send: Send) -> None:
        """Answer a request, or take note of a notification or of an answer to something we asked."""
        if form_of(admitted.scope) is None:
            await self._not_acceptable(admitted, send)
            return
        if message.kind == "request" and message.method == "initialize":
            raw, headers = await self.initialize(admitted, message)
            await send_message(send, raw, headers={**admitted.headers, **headers})
            return
        session = await self.session(admitted)
        if message.kind == "request":
            await self._serve(admitted, session, message, receive, send)
        else:
            await self.note(session, message)
            await send_bytes(send, 202, b"", headers=admitted.headers)

    async def post_batch(self, admitted: Admitted, batch: RpcBatch, receive: Receive, send: Send) -> None:
        """Answer the requests of a batch together, in their order; take note of what else is in it."""
        if form_of(admitted.scope) is None:
            await self._not_acceptable(admitted, send)
            return
        session = await self.session(admitted)
        if session.protocol_version != BATCHED_VERSION:
            raise WireError(INVALID_REQUEST, f"{ONE_BY_ONE} This session speaks {session.protocol_version}.")
        for message in batch.messages:
            if isinstance(message, RpcMessage) and message.kind != "request":
                await self.note(session, message)
        asked = [each for each in batch.messages if not isinstance(each, RpcMessage) or each.kind == "request"]
        if not asked:
            await send_bytes(send, 202, b"", headers=admitted.headers)
            return
        requests = [each for each in asked if isinstance(each, RpcMessage)]
        reply = self.reply_for(admitted, session, requests, receive, send)
        with reply:
            answers = [await self._answer_in_batch(admitted, session, each, reply) for each in asked]
            await reply.finish(b"[" + b",".join(answers) + b"]")

    async def _answer_in_batch(
        self, admitted: Admitted, session: McpSession, asked: RpcMessage | WireError, reply: RpcReply
    ) -> bytes:
        if isinstance(asked, WireError):
            return error_message(None, asked.code, asked.message)
        if asked.method == "initialize":
            return error_message(asked.id, INVALID_REQUEST, "initialize cannot be part of a batch.")
        part = _PartOfBatch(reply)
        await self.respond(admitted, session, asked, part)
        return part.answer

    @staticmethod
    async def _not_acceptable(admitted: Admitted, send: Send) -> None:
        text = "Not Acceptable: Client must accept both application/json and text/event-stream"
        raw = error_message(None, INVALID_REQUEST, text)
        await send_message(send, raw, status=406, headers=admitted.headers)

    async def initialize(self, admitted: Admitted, message: RpcMessage) -> tuple[bytes, dict[str, str]]:
        """Open a session; the response, and the header that names the session."""
        raw, client = await self.introduce(admitted, message)
        if client is None:
            return raw, {}
        session = await self._clients.open(admitted.principal, admitted.project_id, admitted.workspace_id, client)
        await self._clients.see(admitted.principal, client)
        return raw, {SESSION_HEADER: session.id}

    async def introduce(self, admitted: Admitted, message: RpcMessage) -> tuple[bytes, NewClient | None]:
        """Negotiate; the response, and the client unless it was refused."""
        return await introduce(self._server, admitted, message)

    async def note(self, session: McpSession, message: RpcMessage) -> None:
        """A notification or an answer: apply it here, or leave it for the replica that waits for it."""
        if message.kind == "reply":
            await self._deliver(session, message)
        elif message.method == "notifications/cancelled":
            about = str((message.params or {}).get("requestId"))
            scope = self._in_flight.get((session.id, about))
            if scope is not None:
                scope.cancel()
            else:
                await self._clients.leave(session.id, f"cancel {about}"[:200], "{}")

    async def respond(self, admitted: Admitted, session: McpSession, message: RpcMessage, reply: Answering) -> None:
        """Run a request of a session and finish its reply."""
        key = (session.id, str(message.id))
        working = anyio.CancelScope()
        self._in_flight[key] = working
        try:
            exchange = Exchange(admitted, message, reply.tell, _Ask(self, session, reply), reply.close_stream)
            connection = self._connection(session)
            done = await cancellable(working, answer(self._server, connection, exchange))
        finally:
            if self._in_flight.get(key) is working:
                del self._in_flight[key]
        if done is None:
            await reply.finish(error_message(message.id, REQUEST_CANCELLED, "Request cancelled"))
        else:
            await reply.finish(done[0])

    def reply_for(
        self, admitted: Admitted, session: McpSession, messages: Sequence[RpcMessage], receive: Receive, send: Send
    ) -> RpcReply:
        """A reply whose stream is kept in the store, so that a dropped one can be resumed on any replica."""
        stream = new_id("str")

        async def record(raw: bytes, is_final: bool) -> int | None:
            return await self._clients.append(session.id, stream, raw.decode(), is_final=is_final)

        async def look_for_cancel() -> None:
            for message in messages:
                key = (session.id, str(message.id))
                if (
                    key in self._in_flight
                    and await self._clients.mail(session.id, f"cancel {message.id}"[:200]) is not None
                    and key in self._in_flight
                ):
                    self._in_flight[key].cancel()

        return RpcReply(
            receive,
            send,
            headers=admitted.headers,
            quiet_seconds=QUIET_SECONDS,
            record=record,
            primes=is_version_at_least(session.protocol_version, "2025-11-25"),
            on_tick=look_for_cancel,
        )

    async def _serve(
        self, admitted: Admitted, session: McpSession, message: RpcMessage, receive: Receive, send: Send
    ) -> None:
        reply = self.reply_for(admitted, session, [message], receive, send)
        with reply:
            await self.respond(admitted, session, message, reply)

    async def _deliver(self, session: McpSession, message: RpcMessage) -> None:
        id = str(message.id)
        waiting = self._asked.get((session.id, id))
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(message.body)
        elif id.startswith(OUR_ID) and len(id) < 60:
            await self._clients.leave(session.id, f"reply {id}", jsontext.dumps(message.body).decode())

    async def ask(
        self,
        session: McpSession,
        reply: Answering,
        method: str,
        params: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> dict[str, Any]:
        """Send the client a request on the stream of its own request, and wait for the answer wherever it arrives."""
        id = OUR_ID + secrets.token_hex(16)
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[(session.id, id)] = waiting
        try:
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
            if params is not None:
                body["params"] = params
            await reply.tell(jsontext.dumps(body))
            async with asyncio.timeout(ANSWER_SECONDS if timeout is None else timeout):
                answered = await self._answered(session, id, waiting)
        except TimeoutError:
            raise MCPError(code=REQUEST_TIMEOUT, message=f"The client did not answer {method} in time") from None
        finally:
            del self._asked[(session.id, id)]
        if "error" in answered:
            raise MCPError.from_error_data(ErrorData.model_validate(answered["error"]))
        return dict(answered["result"])

    async def _answered(self, session: McpSession, id: str, waiting: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=MAIL_SECONDS)
            if done:
                return waiting.result()
            left = await self._clients.mail(session.id, f"reply {id}")
            if left is not None:
                return dict(orjson.loads(left))

    def _connection(self, session: McpSession) -> Connection:
        """The connection as initialize left it, rebuilt from the row."""
        introduced = self._introduced.get(session.id)
        if introduced is None:
            if len(self._introduced) >= MAX_KNOWN:
                self._introduced.clear()
            introduced = self._introduced[session.id] = InitializeRequestParams(
                protocol_version=session.protocol_version,
                capabilities=ClientCapabilities.model_validate(session.capabilities, by_name=False),
                client_info=Implementation(name=session.client_name, version=session.client_version),
            )
        connection = Connection.for_loop(
            _Standalone(self._clients, session.id),
            session_id=session.id,
            protocol_version_hint=session.protocol_version,
        )
        connection.client_params = introduced
        return connection


class _PartOfBatch:
    """One request's share of the reply to a batch: what it says meanwhile goes out, its result waits for others."""

    def __init__(self, reply: RpcReply) -> None:
        self._reply = reply
        self.answer = b""

    async def tell(self, raw: bytes) -> None:
        """Say something before the result."""
        await self._reply.tell(raw)

    async def finish(self, raw: bytes, *, status: int = 200) -> None:
        """The result."""
        self.answer = raw

    async def close_stream(self) -> None:
        """Let the client come back for the rest."""
        await self._reply.close_stream()


class _Ask:
    """Asks the client of one session, on the stream of one request."""

    def __init__(self, era: HandshakeEra, session: McpSession, reply: Answering) -> None:
        self._era = era
        self._session = session
        self._reply = reply

    async def __call__(self, method: str, params: Mapping[str, Any] | None, timeout: float | None) -> dict[str, Any]:
        return await self._era.ask(self._session, self._reply, method, params, timeout)


class _Standalone(Unreachable):
    """What the server says unasked goes to the session's standalone stream, wherever that is open."""

    def __init__(self, clients: Clients, session_id: str) -> None:
        self._clients = clients
        self._session_id = session_id

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._clients.append(self._session_id, STANDALONE, notification_message(method, params).decode())
