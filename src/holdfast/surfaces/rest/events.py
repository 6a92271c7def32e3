"""Owns following a workspace live: its events as Server-Sent Events, for as long as the caller may see it."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import orjson
from pydantic import Field

from holdfast.core.access import READ
from holdfast.core.clock import Clock, iso
from holdfast.core.errors import FieldError, HoldfastError, Invalid, RateLimited, Unavailable
from holdfast.core.model import Model
from holdfast.core.operations import Call, EventStream, Operation
from holdfast.core.principal import Principal
from holdfast.core.text.sse import PING, PING_SECONDS, framed
from holdfast.engines.events import LAGGED, Event, EventBus, Subscription
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.topics import Topics
from holdfast.surfaces.http.protocol.connections import OpenElsewhere

RECHECK_SECONDS = 5.0
MAX_WAITING = 2_000
MAX_STREAMS = 2_000
MAX_STREAMS_EACH = 16
_REMEMBERED = 1_000
_RETRY_MILLIS = 2_000
_TOPIC = re.compile(r"([a-z]+)\.(\*|[a-z_]+(\.[a-z_]+)*(\.\*)?)")


Looked = Callable[[Principal], Awaitable[Collection[str]]]
"""The workspaces that a stream tells of, as the principal may see them now."""


class EventsQuery(Model):
    topics: str | None = Field(
        default=None,
        max_length=1000,
        description="Topics such as `job.progress`, or all of a noun such as `repository.*`, separated by commas; "
        "every topic that the credential may follow when left out",
    )


class EventStreams:
    """Serves streams of events from the bus, and ends them all when the server stops."""

    def __init__(
        self,
        bus: EventBus,
        workspaces: Workspaces,
        topics: Topics,
        clock: Clock,
        elsewhere: OpenElsewhere | None = None,
    ) -> None:
        self._bus = bus
        self._topics = topics
        self._workspaces = workspaces
        self._clock = clock
        self._open: set[Subscription] = set()
        self._by_actor: Counter[str] = Counter()
        self._elsewhere = elsewhere
        self._stopped = False

    async def follow(self, call: Call) -> EventStream:
        """The events of the workspace in the path, from now on or from after the Last-Event-ID."""

        async def look(principal: Principal) -> Collection[str]:
            return {(await self._workspaces.get(principal, call.path["workspace_id"])).id}

        return await self._follow(call, look)

    async def follow_all(self, call: Call) -> EventStream:
        """The same of every workspace that the caller sees, also of those that come to be meanwhile."""

        async def look(principal: Principal) -> Collection[str]:
            return frozenset(await self._workspaces.ids(principal))

        return await self._follow(call, look)

    async def _follow(self, call: Call, look: Looked) -> EventStream:
        topics = topics_of(self._topics, call.principal, call.query.topics)
        after = _last_event_id(call)
        within = await look(call.principal)
        return EventStream(self._frames(call, look, within, topics, after))

    async def stop(self) -> None:
        """End every stream, and begin no other."""
        self._stopped = True
        for subscription in list(self._open):
            subscription.close()

    @contextmanager
    def _subscribed(
        self, principal: Principal, within: Collection[str], topics: Sequence[str]
    ) -> Iterator[Subscription]:
        if self._stopped:
            raise Unavailable("The server is shutting down.", headers={"Retry-After": "5"})
        if self._held_by(principal.actor) >= MAX_STREAMS_EACH:
            raise RateLimited(
                f"{MAX_STREAMS_EACH} streams of events are open already; close one, or follow more topics in one.",
                code="too_many_streams",
                headers={"Retry-After": "5"},
            )
        if len(self._open) >= MAX_STREAMS:
            raise Unavailable("Too many streams of events are open; try again later.", headers={"Retry-After": "30"})
        subscription = self._bus.subscribe(
            topics, workspace_ids=within, organization_id=principal.organization_id, capacity=MAX_WAITING
        )
        self._open.add(subscription)
        self._by_actor[principal.actor] += 1
        if self._elsewhere is not None:
            self._elsewhere.opened(principal.actor)
        try:
            yield subscription
        finally:
            subscription.close()
            self._open.discard(subscription)
            self._by_actor[principal.actor] -= 1
            if not self._by_actor[principal.actor]:
                del self._by_actor[principal.actor]
            if self._elsewhere is not None:
                self._elsewhere.closed(principal.actor)

    def _held_by(self, actor: str) -> int:
        return self._by_actor[actor] if self._elsewhere is None else self._elsewhere.held_by(actor)

    async def _frames(
        self, call: Call, look: Looked, within: Collection[str], topics: Sequence[str], after: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Events until the caller may no longer see them, reads too slowly, or the server stops."""
        loop = asyncio.get_running_loop()
        with self._subscribed(call.principal, within, topics) as subscription:
            yield _start(await self._bus.newest() if after is None else None)
            sent: deque[int] = deque(maxlen=_REMEMBERED)
            if after is not None:
                async for frame in self._caught_up(call.principal, subscription, within, after, sent):
                    yield frame
            check_at, spoke_at = loop.time() + RECHECK_SECONDS, loop.time()
            while True:
                if loop.time() >= check_at:
                    check_at = loop.time() + RECHECK_SECONDS
                    try:
                        subscription.follow(await self._still(call, look, topics))
                    except HoldfastError as refusal:
                        yield self._end(refusal.code, refusal.message)
                        return
                if loop.time() >= spoke_at + PING_SECONDS:
                    yield PING
                    spoke_at = loop.time()
                try:
                    async with asyncio.timeout_at(min(check_at, spoke_at + PING_SECONDS)):
                        event = await subscription.get()
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    yield self._end("shutting_down", "The server is shutting down; connect again.")
                    return
                if event.topic == LAGGED:
                    yield self._end("too_slow", "More happened than was read in time; connect again to go on.")
                    return
                if event.number not in sent:
                    yield _told(event)
                    spoke_at = loop.time()

    async def _caught_up(
        self, principal: Principal, subscription: Subscription, within: Collection[str], after: int, sent: deque[int]
    ) -> AsyncGenerator[bytes, None]:
        """What came since an event; `sent` gets the numbers of the newest, which the subscription may bring again."""
        if not await self._bus.keeps(after):
            missing = {"message": "Events before this one may be missing; read the state afresh."}
            yield _block("stream.gap", self._clock.now(), missing)
        while events := await self._bus.kept(within, principal.organization_id, after):
            for event in events:
                after = event.number
                sent.append(after)
                if subscription.wants(event):
                    yield _told(event)

    def _end(self, reason: str, message: str) -> bytes:
        """The last event. It is about the stream itself, and no place to go on from."""
        return _block("stream.end", self._clock.now(), {"reason": reason, "message": message})

    async def _still(self, call: Call, look: Looked, topics: Iterable[str]) -> Collection[str]:
        """The workspaces to tell of from now on, or why the stream ends. Looking again is no request to be counted."""
        principal = await call.again()
        READ.check(principal)
        for topic in topics:
            self._topics.access(topic.partition(".")[0]).check(principal)
        return await look(principal)


def _start(newest: int | None) -> bytes:
    """The beginning, with the place that a client which hears nothing can go on from."""
    place = "" if newest is None else f"id: {newest}\n"
    return f": following\nretry: {_RETRY_MILLIS}\n{place}\n".encode()


def _told(event: Event) -> bytes:
    within = {} if event.workspace_id is None else {"workspace_id": event.workspace_id}
    return _block(event.topic, event.at, event.payload, event.number, within)


def _block(
    topic: str, at: int, payload: Any, number: int | None = None, within: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    return framed(orjson.dumps({"topic": topic, "at": iso(at), **within, "payload": payload}), event=topic, id=number)


def topics_of(known: Topics, principal: Principal, text: str | None) -> Sequence[str]:
    """The topics that are asked for; Invalid where one can never come, Forbidden where it is not the principal's."""
    if text is None:
        return [f"{noun}.*" for noun in known.nouns if known.access(noun).missing(principal) is None]
    topics = [topic.strip() for topic in text.split(",")]
    for topic in topics:
        shape = _TOPIC.fullmatch(topic)
        if shape is None or shape[1] not in known.nouns:
            nouns = ", ".join(known.nouns)
            problem = f"{topic[:100]!r} is no topic; use names such as job.progress or NOUN.*, of {nouns}"
            raise Invalid("The topics cannot be followed.", fields=[FieldError("topics", problem)])
        known.access(shape[1]).check(principal)
    return topics


def _last_event_id(call: Call) -> int | None:
    text = call.header("last-event-id")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        problem = "send the id of the last event that was read, or leave it out"
        raise Invalid("The place to go on from is none.", fields=[FieldError("Last-Event-ID", problem)])
    return int(text)


def operations(streams: EventStreams) -> list[Operation]:
    """Everything served here."""
    return [
        Operation(
            method="GET",
            path="/api/workspaces/{workspace_id}/events",
            handler=streams.follow,
            tag="events",
            access=READ,
            query=EventsQuery,
            produces="text/event-stream",
            summary="Follow what happens in the workspace (Server-Sent Events; Last-Event-ID goes on after a break)",
        ),
        Operation(
            method="GET",
            path="/api/events",
            handler=streams.follow_all,
            tag="events",
            access=READ,
            query=EventsQuery,
            produces="text/event-stream",
            summary="Follow what happens in every workspace that you see, over one connection (Server-Sent Events)",
        ),
    ]
