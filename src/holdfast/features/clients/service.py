"""Owns MCP sessions as rows that any replica can serve from, and the record of what clients can do."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.features.clients import store
from holdfast.features.clients.model import (
    ClientSeen,
    McpSession,
    NewClient,
    SessionNotFound,
    StreamEvent,
    TooManySessions,
    TooManySessionsOfOne,
)
from holdfast.storage.database import Database, Tx

STANDALONE = "standalone"
"""The stream of what the server says unasked; every other stream belongs to one request."""
SEEN_AGAIN_MILLIS = 60_000
MAX_NAME = 120
MAX_SEEN = 10_000
STATE_SECRET = "mcp.request_state"  # noqa: S105 - a name, not a secret


class Clients:
    """Opens, finds and ends sessions, keeps what their streams said, and remembers which clients came."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        ttl_seconds: int = 600,
        max_sessions: int = 20_000,
        max_sessions_each: int = 2_000,
    ) -> None:
        self._database = database
        self._clock = clock
        self.ttl_millis = ttl_seconds * 1000
        self._max_sessions = max_sessions
        self._max_sessions_each = max_sessions_each
        self._seen: dict[tuple[str, ...], int] = {}
        self._wakers: dict[str, set[asyncio.Event]] = {}

    async def open(
        self, principal: Principal, project_id: str, workspace_id: str | None, client: NewClient
    ) -> McpSession:
        """A new session of this credential; TooManySessions when the server holds as many as it may."""
        now = self._clock.now()
        session = McpSession(
            secrets.token_urlsafe(32),
            principal.organization_id,
            project_id,
            principal.actor,
            workspace_id,
            client.protocol_version,
            client.name[:MAX_NAME],
            client.version[:MAX_NAME],
            client.capabilities,
            now,
            now + self.ttl_millis,
        )

        def work(tx: Tx) -> None:
            if store.count_sessions_of(tx, principal.actor, now) >= self._max_sessions_each:
                raise TooManySessionsOfOne(
                    f"This credential has {self._max_sessions_each} sessions open, as many as one may; "
                    "end some with DELETE, or let idle ones expire."
                )
            if store.count_sessions(tx, now) >= self._max_sessions:
                raise TooManySessions(f"{self._max_sessions} sessions are open, as many as allowed; try again later.")
            store.insert_session(tx, session)

        await self._database.write(work)
        return session

    async def find(self, principal: Principal, session_id: str, project_id: str) -> McpSession:
        """The session, if it is this credential's in this project and has not expired; it lives on from now."""
        now = self._clock.now()
        found = await self._database.glance(lambda tx: store.find_session(tx, session_id))
        if (
            found is None
            or found.expires_at <= now
            or found.owner != principal.actor
            or found.organization_id != principal.organization_id
            or found.project_id != project_id
        ):
            raise SessionNotFound
        await self._extend_in_time(found)
        return found

    async def _extend_in_time(self, session: McpSession) -> None:
        """Let a session in use live on; written ten times a lifetime, for a write costs more than a call."""
        now = self._clock.now()
        if session.expires_at - now < self.ttl_millis * 9 // 10:
            until = now + self.ttl_millis
            await self._database.write(lambda tx: store.extend_session(tx, session.id, until))

    async def keep(self, session_id: str) -> McpSession | None:
        """The session as it is now, alive for as long as a stream of it is open; None once it has ended."""
        found = await self._database.glance(lambda tx: store.find_session(tx, session_id))
        if found is None or found.expires_at <= self._clock.now():
            return None
        await self._extend_in_time(found)
        return found

    async def bind(self, session: McpSession, workspace_id: str) -> None:
        """Bind a session to a workspace that the caller has checked."""
        await self._database.write(lambda tx: store.bind_session(tx, session.id, workspace_id))

    async def introduce(self, session: McpSession, client: NewClient) -> None:
        """Keep how the client of an open session introduced itself."""
        await self._database.write(lambda tx: store.introduce_session(tx, session.id, client))

    async def end(self, session: McpSession) -> None:
        """End a session and everything that hangs on it."""
        await self._database.write(lambda tx: store.delete_session(tx, session.id))
        self.wake(session.id)

    async def sweep(self) -> int:
        """Remove what has expired; how many sessions that were."""
        now = self._clock.now()
        return await self._database.write(lambda tx: store.sweep(tx, now, now - self.ttl_millis))

    async def append(self, session_id: str, stream: str, message: str, *, is_final: bool = False) -> int | None:
        """Add a message to a stream and wake whoever sends it on; None when the session has ended."""
        now = self._clock.now()
        id = await self._database.write(lambda tx: store.append_event(tx, session_id, stream, message, is_final, now))
        self.wake(session_id)
        return id

    async def event(self, session_id: str, event_id: int) -> StreamEvent | None:
        """One event of this session's."""
        return await self._database.glance(lambda tx: store.find_event(tx, session_id, event_id))

    async def events(self, session_id: str, stream: str, after: int, limit: int = 50) -> Sequence[StreamEvent]:
        """What a stream said after an event."""
        return await self._database.glance(lambda tx: store.events_after(tx, session_id, stream, after, limit))

    async def last_event(self, session_id: str, stream: str) -> int:
        """The id of a stream's newest event."""
        return await self._database.glance(lambda tx: store.last_event(tx, session_id, stream))

    async def leave(self, session_id: str, about: str, message: str) -> None:
        """Leave a message for whichever replica waits for it."""
        await self._database.write(lambda tx: store.put_mail(tx, session_id, about, message))
        self.wake(session_id)

    async def mail(self, session_id: str, about: str) -> str | None:
        """A message that was left for this replica."""
        return await self._database.glance(lambda tx: store.find_mail(tx, session_id, about))

    async def subscribe(self, session_id: str, uri: str) -> None:
        """Let a session hear of a resource."""
        await self._database.write(lambda tx: store.subscribe(tx, session_id, uri))
        self.wake(session_id)

    async def unsubscribe(self, session_id: str, uri: str) -> None:
        """Let it hear no more."""
        await self._database.write(lambda tx: store.unsubscribe(tx, session_id, uri))
        self.wake(session_id)

    async def subscriptions(self, session_id: str) -> Sequence[str]:
        """What a session wants to hear about."""
        return await self._database.glance(lambda tx: store.subscriptions(tx, session_id))

    async def spend(self, nonce: str, lifetime_seconds: float) -> bool:
        """Use up a request state; False when it has been used before, on any replica."""
        until = self._clock.now() + int(lifetime_seconds * 1000)
        return await self._database.write(lambda tx: store.spend_state(tx, nonce, until))

    async def state_key(self) -> bytes:
        """The key that seals request states, the same on every replica."""
        return await self._database.write(lambda tx: store.secret(tx, STATE_SECRET, secrets.token_bytes(32)))

    async def see(self, principal: Principal, client: NewClient) -> None:
        """Record what a client declared; written at most once a minute for the same declaration."""
        known = (principal.organization_id, repr(client))
        now = self._clock.now()
        if now - self._seen.get(known, -SEEN_AGAIN_MILLIS) < SEEN_AGAIN_MILLIS:
            return
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
        self._seen[known] = now
        short = NewClient(
            client.name[:MAX_NAME],
            client.version[:MAX_NAME],
            client.protocol_version,
            client.title[:MAX_NAME],
            _declared(client.capabilities),
        )
        await self._database.write(lambda tx: store.see_client(tx, principal.organization_id, short, now))

    async def list(self, principal: Principal, *, limit: int = 200, after: int = 0) -> Sequence[ClientSeen]:
        """The clients seen in the principal's organization, most recent first, without the first so many."""
        principal.require_any("read", "inference", "management")
        return await self._database.read(lambda tx: store.clients(tx, principal.organization_id, limit, after))

    def waker(self, session_id: str) -> "Waker":
        """Wakes this process's readers of a session at once; other replicas look every so often."""
        return Waker(self._wakers, session_id)

    def wake(self, session_id: str) -> None:
        """Let this process's readers of a session look."""
        for event in self._wakers.get(session_id, ()):
            event.set()


class Waker:
    """Waits until something was written about a session here, or a moment has passed."""

    def __init__(self, wakers: dict[str, set[asyncio.Event]], session_id: str) -> None:
        self._wakers = wakers
        self._session_id = session_id
        self._event = asyncio.Event()

    def __enter__(self) -> "Waker":
        self._wakers.setdefault(self._session_id, set()).add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        waiting = self._wakers[self._session_id]
        waiting.discard(self._event)
        if not waiting:
            del self._wakers[self._session_id]

    async def wait(self, seconds: float) -> None:
        """Return when woken, or after this long."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            self._event.clear()


def _declared(capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a client declared, if it is of a size that a client would declare."""
    return capabilities if len(repr(capabilities)) <= 8_000 else {"truncated": True}
