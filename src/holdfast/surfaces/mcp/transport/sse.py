"""Owns the older HTTP+SSE transport, for operators who choose it: one stream a session, messages POSTed beside it."""

import asyncio
from urllib.parse import parse_qs, quote

from starlette.types import Receive, Send

from holdfast.core.text.sse import framed
from holdfast.features.clients.model import McpSession, NewClient
from holdfast.features.clients.service import STANDALONE, Clients
from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.sse import EventWriter
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.handshake import HandshakeEra
from holdfast.surfaces.mcp.transport.streams import SLOW_READER_SECONDS, Streams
from holdfast.surfaces.mcp.transport.wire import RpcMessage

UNKNOWN = NewClient("", "", "2024-11-05", "", {})


class EventTransport:
    """A GET opens the session and its stream; every answer goes through the store onto that stream."""

    def __init__(self, handshake: HandshakeEra, streams: Streams, clients: Clients) -> None:
        self._handshake = handshake
        self._streams = streams
        self._clients = clients
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, admitted: Admitted, receive: Receive, send: Send) -> None:
        """Begin a session: its first event names where to POST."""
        session = await self._clients.open(admitted.principal, admitted.project_id, admitted.workspace_id, UNKNOWN)
        admitted.session = session
        path = quote(str(admitted.scope["path"]))
        events = EventWriter(send, admitted.headers, patience_seconds=SLOW_READER_SECONDS)
        await events.write(framed(f"{path}?session_id={session.id}".encode(), event="endpoint"))
        try:
            await self._streams.follow(admitted, session, STANDALONE, 0, receive, events)
        finally:
            # The stream is the session here: nobody can come back to it.
            await self._clients.end(session)

    async def post(self, admitted: Admitted, message: RpcMessage, send: Send) -> None:
        """Take a message; its answer comes on the stream."""
        query = parse_qs(admitted.scope.get("query_string", b"").decode("latin-1"))
        session = await self._handshake.session_of(admitted, query["session_id"][0])
        if message.kind == "request":
            task = asyncio.create_task(self._answer(admitted, session, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            await self._handshake.note(session, message)
        await send_bytes(send, 202, b"Accepted", content_type=b"text/plain", headers=admitted.headers)

    async def _answer(self, admitted: Admitted, session: McpSession, message: RpcMessage) -> None:
        if message.method != "initialize":
            await self._handshake.respond(admitted, session, message, _OnStream(self._clients, session))
            return
        raw, client = await self._handshake.introduce(admitted, message)
        if client is not None:
            await self._clients.introduce(session, client)
            await self._clients.see(admitted.principal, client)
        await self._clients.append(session.id, STANDALONE, raw.decode())


class _OnStream:
    """Says everything about a request on the session's one stream."""

    def __init__(self, clients: Clients, session: McpSession) -> None:
        self._clients = clients
        self._session = session

    async def tell(self, raw: bytes) -> None:
        """Say something before the result."""
        await self._clients.append(self._session.id, STANDALONE, raw.decode())

    async def finish(self, raw: bytes, *, status: int = 200) -> None:
        """The result."""
        await self.tell(raw)

    async def close_stream(self) -> None:
        """This stream cannot be resumed, so it stays open."""
