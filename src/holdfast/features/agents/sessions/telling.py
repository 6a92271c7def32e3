"""Owns what sessions tell: durable events by number, their followers woken, and the stream that they read."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import orjson

from holdfast.core.clock import Clock, iso
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.text.jsontext import dumps
from holdfast.core.text.sse import PING, PING_SECONDS, framed
from holdfast.engines.events import LAGGED, Event, Subscription
from holdfast.engines.events.bus import EventBus
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.model import OVER, AgentSessionNotFound, SessionEvent
from holdfast.storage.database import Database, Tx

TOPIC = "session"
MAX_DATA = 200_000
"""Characters of one event; what is longer is cut, and says so."""
_PAGE = 200
_RECHECK_SECONDS = 5.0
_RETRY_MILLIS = 2_000


class SessionTelling:
    """Keeps what sessions tell, and hands it to whoever follows."""

    def __init__(self, database: Database, events: EventBus, clock: Clock) -> None:
        self._database = database
        self._events = events
        self._clock = clock
        self._open: set[Subscription] = set()
        self._stopped = False

    def add(self, tx: Tx, session_id: str, workspace_id: str, kind: str, data: Mapping[str, Any]) -> int:
        """Add an event to a session's stream, and wake its followers after the commit; its number."""
        seq = store.append(tx, session_id, self._clock.now(), kind, bounded(data))
        if seq is None:
            raise AgentSessionNotFound(session_id)
        payload = {"id": session_id, "seq": seq, "kind": kind[:64]}
        self._events.publish(tx, f"{TOPIC}.told", payload, workspace_id=workspace_id)
        return seq

    async def emit(self, session_id: str, workspace_id: str, kind: str, data: Mapping[str, Any]) -> int:
        """The same, in a transaction of its own."""
        return await self._database.write(lambda tx: self.add(tx, session_id, workspace_id, kind, data))

    async def frames(
        self, recheck: Callable[[], Awaitable[None]], session_id: str, workspace_id: str, after: int
    ) -> AsyncGenerator[bytes, None]:
        """A session's events from after a number on, until it is over and everything was sent, or `recheck` objects."""
        if self._stopped:
            raise Unavailable("The server is shutting down.", headers={"Retry-After": "5"})

        def concerns(event: Event) -> bool:
            return event.topic == LAGGED or event.payload.get("id") == session_id

        async with self._events.subscribe(
            [f"{TOPIC}.told"], workspace_ids={workspace_id}, predicate=concerns
        ) as subscription:
            self._open.add(subscription)
            try:
                yield f": following\nretry: {_RETRY_MILLIS}\n\n".encode()
                async for frame in self._following(subscription, recheck, session_id, after):
                    yield frame
            finally:
                self._open.discard(subscription)

    async def stop(self) -> None:
        """End every stream, and begin no other."""
        self._stopped = True
        for subscription in list(self._open):
            subscription.close()

    async def _following(
        self, subscription: Subscription, recheck: Callable[[], Awaitable[None]], session_id: str, after: int
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        check_at, spoke_at = loop.time() + _RECHECK_SECONDS, loop.time()
        while True:
            is_over, events = await self._database.read(partial(_news, session_id=session_id, after=after))
            for event in events:
                after = event.seq
                yield _frame(event)
                spoke_at = loop.time()
            if len(events) == _PAGE:
                continue
            if is_over:
                return
            if loop.time() >= spoke_at + PING_SECONDS:
                yield PING
                spoke_at = loop.time()
            if loop.time() >= check_at:
                check_at = loop.time() + _RECHECK_SECONDS
                try:
                    await recheck()
                except HoldfastError as refusal:
                    yield _end(refusal.code, refusal.message)
                    return
            try:
                async with asyncio.timeout_at(min(check_at, spoke_at + PING_SECONDS)):
                    await subscription.get()
            except TimeoutError:
                continue
            except StopAsyncIteration:
                yield _end("shutting_down", "The server is shutting down; connect again.")
                return


def bounded(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of an event, its longest texts cut where it is too large to keep."""
    if len(dumps(data)) <= MAX_DATA:
        return data
    room = MAX_DATA // max(1, len(data)) // 2
    cut = {name: _cut(value, room) for name, value in data.items()}
    return {**cut, "truncated": True}


def _cut(value: Any, room: int) -> Any:
    if isinstance(value, (int, float, bool)) or value is None:
        return value
    text = value if isinstance(value, str) else dumps(value).decode()
    return value if len(text) <= room else text[:room]


def event_json(event: SessionEvent) -> dict[str, Any]:
    """An event as it is read."""
    return {"seq": event.seq, "at": iso(event.at), "kind": event.kind, "data": dict(event.data)}


def _frame(event: SessionEvent) -> bytes:
    return framed(dumps(event_json(event)), event=event.kind, id=event.seq)


def _news(tx: Tx, session_id: str, after: int) -> tuple[bool, list[SessionEvent]]:
    session = store.find(tx, session_id)
    return session is None or session.state in OVER, store.events(tx, session_id, after, _PAGE)


def _end(reason: str, message: str) -> bytes:
    return framed(orjson.dumps({"reason": reason, "message": message}), event="stream.end")
