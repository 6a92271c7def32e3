"""Owns what reaches clients unasked: changes of resources and of lists, to whoever listens on this replica."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from holdfast.core.principal import Principal
from holdfast.features.clients.service import STANDALONE, Clients
from holdfast.registry.topics import AgentList
from holdfast.surfaces.mcp.transport.wire import notification_message

logger = logging.getLogger(__name__)

LIST_CHANGES: Mapping[AgentList, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
GRACE_SECONDS = 60.0
"""How long what a session missed is still written down after its standalone stream dropped."""


@dataclass(frozen=True, slots=True)
class WorkspaceChange:
    """Something in a workspace changed: these resources read otherwise now, or these lists do."""

    workspace_id: str
    uris: tuple[str, ...] = ()
    lists: tuple[ServerEvent, ...] = ()
    project_id: str = ""
    """Where the workspace is, for those who hear of a whole project."""
    organization_id: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """Whose changes a client hears: a workspace's, or those of every workspace that somebody sees in a project."""

    workspace_id: str | None
    everywhere: Principal | None = None
    project_id: str = ""

    def hears(self, change: WorkspaceChange) -> bool:
        """Whether a change concerns it."""
        if self.workspace_id is not None or self.everywhere is None:
            return self.workspace_id == change.workspace_id
        return (
            self.everywhere.organization_id == change.organization_id
            and self.project_id == change.project_id
            and self.everywhere.sees_workspace(change.workspace_id)
        )


Changes = Callable[[], AsyncIterator[WorkspaceChange]]


@dataclass(slots=True)
class _Standing:
    """A session whose standalone stream is open here, or was a moment ago."""

    reach: Reach
    readers: int = 0
    newest: int = 0
    """The number of the stream opened last: the one that speaks."""
    left_at: float = field(default=0.0)


Listener = Callable[[ServerEvent], None]


class Live:
    """Tells listeners on this replica. Sessions are told through the store, so that a dropped stream misses nothing."""

    def __init__(self, clients: Clients, changes: Changes | None) -> None:
        self._clients = clients
        self._changes = changes
        self._standing: dict[str, _Standing] = {}
        self._listeners: dict[object, tuple[Callable[[], Reach], Listener]] = {}
        self.closing = asyncio.Event()

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        if self._changes is None:
            return
        async for change in self._changes():
            try:
                await self.publish(change)
            except Exception:
                logger.exception("a change could not be told to MCP clients")

    async def publish(self, change: WorkspaceChange) -> None:
        """Tell everyone on this replica whom a change concerns."""
        events: list[ServerEvent] = [*(ResourceUpdated(uri) for uri in change.uris), *change.lists]
        for reach, listener in list(self._listeners.values()):
            if reach().hears(change):
                for event in events:
                    listener(event)
        self._forget_gone()
        for session_id, standing in list(self._standing.items()):
            if standing.reach.hears(change):
                await self._tell_session(session_id, events)

    async def _tell_session(self, session_id: str, events: Sequence[ServerEvent]) -> None:
        wanted: Sequence[str] | None = None
        for event in events:
            if isinstance(event, ResourceUpdated):
                if wanted is None:
                    wanted = await self._clients.subscriptions(session_id)
                for uri in wanted:
                    if matches(uri, event.uri):
                        await self.say(session_id, ResourceUpdated(uri))
            else:
                await self.say(session_id, event)

    async def say(self, session_id: str, event: ServerEvent) -> None:
        """Put an event on a session's standalone stream."""
        await self._clients.append(session_id, STANDALONE, notification_of(event).decode())

    def stand(self, session_id: str, reach: Reach) -> int:
        """A session's standalone stream was opened here; its number. An older one, likely broken, ends."""
        standing = self._standing.setdefault(session_id, _Standing(reach))
        standing.readers += 1
        standing.newest += 1
        standing.reach = reach
        self._clients.wake(session_id)
        return standing.newest

    def speaks(self, session_id: str, number: int) -> bool:
        """Whether that stream is still the one that speaks: a message must not arrive twice."""
        standing = self._standing.get(session_id)
        return standing is None or standing.newest == number

    def move(self, session_id: str, reach: Reach) -> None:
        """The session was bound to a workspace after its stream was opened, or its credential sees others now."""
        standing = self._standing.get(session_id)
        if standing is not None:
            standing.reach = reach

    def leave(self, session_id: str) -> None:
        """It was closed, or dropped."""
        standing = self._standing.get(session_id)
        if standing is not None:
            standing.readers -= 1
            standing.left_at = time.monotonic()

    def listen(self, reach: Callable[[], Reach], listener: Listener) -> Callable[[], None]:
        """Hear directly of the changes in what is within reach then; call what this returns to stop."""
        token = object()
        self._listeners[token] = (reach, listener)
        return lambda: self._listeners.pop(token, None) and None

    def _forget_gone(self) -> None:
        now = time.monotonic()
        for session_id, standing in list(self._standing.items()):
            if standing.readers <= 0 and now - standing.left_at > GRACE_SECONDS:
                del self._standing[session_id]


def matches(subscribed: str, changed: str) -> bool:
    """Whether a subscription is to a changed resource; its query only says how much of it to read."""
    return subscribed == changed or subscribed.split("?", 1)[0] == changed


def notification_of(event: ServerEvent) -> bytes:
    """An event as the handshake era tells it."""
    if isinstance(event, ResourceUpdated):
        return notification_message("notifications/resources/updated", {"uri": event.uri})
    if isinstance(event, ToolsListChanged):
        return notification_message("notifications/tools/list_changed", None)
    if isinstance(event, PromptsListChanged):
        return notification_message("notifications/prompts/list_changed", None)
    return notification_message("notifications/resources/list_changed", None)
