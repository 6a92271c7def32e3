"""Owns what an event is, and the bounded queue of one subscriber."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

LAGGED = "lagged"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was committed. The topic `lagged` says how many events a slow subscriber `missed`."""

    topic: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    workspace_id: str | None = None
    at: int = 0
    number: int = field(default=0, compare=False)
    """Its place among all events; a later one mostly has a higher number, unless transactions overtook each other."""
    organization_id: str | None = None
    """For what concerns a whole organization, and none of its workspaces alone."""


class Subscription:
    """One subscriber's events in order: `async with bus.subscribe(…) as events: async for event in events: …`."""

    def __init__(
        self,
        topics: Collection[str] | None,
        workspace_ids: Collection[str] | None,
        predicate: Callable[[Event], bool] | None,
        capacity: int,
        leave: Callable[["Subscription"], None],
        organization_id: str | None = None,
    ) -> None:
        self._exact = None if topics is None else frozenset(topic for topic in topics if not topic.endswith("*"))
        self._prefixes = tuple(topic[:-1] for topic in topics or () if topic.endswith("*"))
        self._workspace_ids = workspace_ids
        self._organization_id = organization_id
        self._predicate = predicate
        self._capacity = capacity
        self._leave = leave
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._ready = asyncio.Event()
        self._closed = False

    def offer(self, event: Event) -> None:
        """Queue the event if it is wanted and there is room; never waits."""
        if self._closed or not self.wants(event):
            return
        if len(self._waiting) >= self._capacity:
            self._missed += 1
        else:
            self._mark_gap()
            self._waiting.append(event)
        self._ready.set()

    async def get(self) -> Event:
        """The next event; waits for one. Raises StopAsyncIteration once closed and empty."""
        while True:
            if self._waiting:
                return self._waiting.popleft()
            if self._missed:
                self._mark_gap()
                continue
            if self._closed:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()

    def follow(self, workspace_ids: Collection[str]) -> None:
        """Take events of these workspaces from now on, and of no other."""
        self._workspace_ids = workspace_ids

    def close(self) -> None:
        """Take no more events; what is queued can still be read."""
        self._closed = True
        self._ready.set()
        self._leave(self)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Event:
        return await self.get()

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def wants(self, event: Event) -> bool:
        """Whether the event is of the topics and workspaces that were asked for, or of the whole organization."""
        if self._exact is not None and event.topic not in self._exact and not event.topic.startswith(self._prefixes):
            return False
        if self._workspace_ids is not None and event.workspace_id not in self._workspace_ids:
            whole = event.workspace_id is None and event.organization_id is not None
            if not whole or event.organization_id != self._organization_id:
                return False
        return self._predicate is None or self._predicate(event)

    def _mark_gap(self) -> None:
        if self._missed:
            self._waiting.append(Event(LAGGED, {"missed": self._missed}))
            self._missed = 0
