"""Owns the streams a session opens with GET: what the server says unasked, and the rest of a stream that dropped."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Receive, Send

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.principal import Principal
from holdfast.core.text.sse import PING_SECONDS
from holdfast.features.clients.model import McpSession
from holdfast.features.clients.service import STANDALONE, Clients
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.http.sse import EventWriter, ReaderTooSlow
from holdfast.surfaces.mcp.admission import Admitted, McpAdmission
from holdfast.surfaces.mcp.transport.live import LIST_CHANGES, Live
from holdfast.surfaces.mcp.transport.wire import message_event

LOOK_SECONDS = 1.0
RECHECK_SECONDS = 5.0
SLOW_READER_SECONDS = 30.0


class Streams:
    """Sends a session's events on as they are written, from the store: any replica can, and nothing queues here."""

    def __init__(
        self,
        clients: Clients,
        doorkeeper: McpAdmission,
        live: Live,
        watchable: Callable[[Principal, str], bool],
        *,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        """`watchable` says whether somebody may hear of a resource's changes."""
        self._clients = clients
        self._watchable = watchable
        self._doorkeeper = doorkeeper
        self._live = live
        self._recheck_seconds = recheck_seconds

    async def get(self, admitted: Admitted, session: McpSession, receive: Receive, send: Send) -> None:
        """Resume the stream of Last-Event-ID, or open the standalone one."""
        resume = header(admitted.scope, b"last-event-id")
        if resume is None:
            after = await self._clients.last_event(session.id, STANDALONE)
            stream = STANDALONE
        else:
            event = await self._clients.event(session.id, int(resume)) if _is_event_id(resume) else None
            if event is None:
                raise Invalid("The Last-Event-ID is not of this session, or too old.", code="event_id")
            after, stream = event.id, event.stream
        headers = {**admitted.headers, "Mcp-Session-Id": session.id}
        events = EventWriter(send, headers, patience_seconds=SLOW_READER_SECONDS)
        # Something at once: proxies and clients take a stream without a byte for one that hangs.
        await events.ping()
        await self.follow(admitted, session, stream, after, receive, events)

    async def follow(
        self, admitted: Admitted, session: McpSession, stream: str, after: int, receive: Receive, events: EventWriter
    ) -> None:
        """Send what the stream says until it ends, the client hangs up, or the credential no longer holds."""
        number = self._live.stand(session.id, admitted.reach) if stream == STANDALONE else None
        sending = asyncio.ensure_future(self._send_on(admitted, session, stream, number, after, events))
        hang_up = asyncio.ensure_future(_hung_up(receive))
        closing = asyncio.ensure_future(self._live.closing.wait())
        try:
            await asyncio.wait({sending, hang_up, closing}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                # A client that does not read is let go; what it missed is kept for its return.
                with suppress(ReaderTooSlow, TimeoutError, OSError):
                    sending.result()
        finally:
            for task in (sending, hang_up, closing):
                task.cancel()
            if stream == STANDALONE:
                self._live.leave(session.id)
        with suppress(ReaderTooSlow, OSError):
            await events.end()

    async def _send_on(
        self, admitted: Admitted, session: McpSession, stream: str, number: int | None, after: int, events: EventWriter
    ) -> None:
        principal = admitted.principal
        pinged = checked = time.monotonic()
        with self._clients.waker(session.id) as waker:
            while number is None or self._live.speaks(session.id, number):
                for event in await self._clients.events(session.id, stream, after):
                    after = event.id
                    await events.write(message_event(event.message.encode(), event.id))
                    pinged = time.monotonic()
                    if event.is_final:
                        return
                now = time.monotonic()
                if now - checked >= self._recheck_seconds:
                    checked = now
                    current = await self._rechecked(admitted, session, principal)
                    if current is None:
                        return
                    principal = current
                if now - pinged >= PING_SECONDS:
                    pinged = now
                    await events.ping()
                await waker.wait(min(LOOK_SECONDS, self._recheck_seconds))

    async def _rechecked(self, admitted: Admitted, session: McpSession, known: Principal) -> Principal | None:
        """The principal now; None ends the stream. A changed tier is told, and nothing beyond it is followed."""
        try:
            principal = await self._doorkeeper.again(admitted)
        except HoldfastError:
            return None
        current = await self._clients.keep(session.id)
        if current is None:
            return None
        admitted.principal = principal
        if not admitted.is_pinned:
            admitted.workspace_id = current.workspace_id
        self._live.move(session.id, admitted.reach)
        if principal.tier != known.tier or principal.catalog_search != known.catalog_search:
            for uri in await self._clients.subscriptions(session.id):
                if not self._watchable(principal, uri):
                    await self._clients.unsubscribe(session.id, uri)
            for event in LIST_CHANGES.values():
                await self._live.say(session.id, event)
        return principal


def _is_event_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
