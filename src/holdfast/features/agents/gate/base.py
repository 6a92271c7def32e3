"""Owns what the gate needs to know of a session, what it asks of it, and the interface between the two."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.core.principal import Principal
from holdfast.engines.runners.base import ServerEntry
from holdfast.engines.runtime.base import Mounted, RunSpec

SOCKETS = "/run/x1/mcp"
"""Where the sockets are in the agent's sandbox."""
PROGRAMS = "/run/x1/bin"
"""Where programs of ours are in it, where there are any: to be put at the end of its PATH."""


@dataclass(frozen=True, slots=True)
class FrozenAttachment:
    """A server of the catalog as it was when the session started: a later change is for the next session."""

    server_id: str
    name: str
    revision: int
    env: Mapping[str, str]
    """Values, and `${NAME}` references that are read when the server starts; never what they stand for."""
    tools: Mapping[str, str]
    """The digests of the tools by their names; one that differs now is held back."""


@dataclass(frozen=True, slots=True)
class GatedSession:
    """One session, as far as the gate knows it."""

    id: str
    workspace_id: str
    agent_id: str
    agent_slug: str
    principal: Principal
    """Whom everything is done as: the agent in this session, with no more rights than who started it."""
    user_id: str | None
    """The person who started it: whose logins remote servers see, and whose grants count beside the agent's."""
    parent_id: str | None
    attachments: Sequence[FrozenAttachment]
    worktree: Path
    """On our side; everything in it was written by the agent and is not to be trusted, links above all."""
    refresh: Callable[[], Awaitable[None]]
    """Brings it up to date, where the agent writes to another machine's disk."""
    secrets: Sequence[tuple[str, str]] = field(default=(), repr=False)
    """The names and values of what was granted to the agent's own environment: nobody reads them in what it tells."""
    keep: Callable[[int], None] = field(default=lambda size: None, repr=False)
    """Told how many bytes more of what its agent makes are kept by us."""


@dataclass(frozen=True, slots=True)
class ChildOutput:
    """A piece of what a child session told, oldest first, and where to go on."""

    state: str
    events: Sequence[Mapping[str, Any]]
    next_seq: int


class SessionActions(Protocol):
    """What tools of `x1agent` do to sessions; errors are domain errors whose text the agent reads."""

    async def emit(self, session: GatedSession, kind: str, data: Mapping[str, Any]) -> int:
        """Add an event to the session's durable stream, and tell followers; its number."""
        ...

    async def ask(self, session: GatedSession, request_id: str, question: str, options: Sequence[str]) -> str:
        """Ask a person and wait: the session is `waiting` until somebody answers. The same `request_id` asks once."""
        ...

    async def request_grant(
        self,
        session: GatedSession,
        request_id: str,
        grant_type: str,
        details: Mapping[str, Any],
        scope: str,
        justification: str,
    ) -> Mapping[str, Any]:
        """Ask a person for a right and wait: `{decision: granted|denied, grant_id?, note?}`."""
        ...

    async def end(self, session: GatedSession, summary: str) -> None:
        """The agent says that it is done; the session completes after this call is answered."""
        ...

    async def spawnable(self, session: GatedSession) -> Sequence[Mapping[str, Any]]:
        """The agents that it may spawn: `{id, slug, name, granted}`."""
        ...

    async def spawn(self, session: GatedSession, agent_id: str, prompt: str, model: str | None) -> str:
        """Start a child; its id. Forbidden without a spawn grant, beyond depth, number or the shared budget."""
        ...

    async def child_output(self, session: GatedSession, child_id: str, after: int, limit: int) -> ChildOutput:
        """What a child of its own told since."""
        ...

    async def inject(self, session: GatedSession, child_id: str, text: str) -> None:
        """Say something to a child of its own."""
        ...

    async def message_caller(self, session: GatedSession, summary: str, body: str, needs_response: bool) -> str | None:
        """Say something to whoever started it, a parent session or a person; the answer where one was asked for."""
        ...

    async def expect_quiet(self, session: GatedSession, seconds: float, reason: str) -> None:
        """The watchdog leaves it alone for so long."""
        ...


@dataclass(frozen=True, slots=True)
class OpenGate:
    """What a session's sandbox gets of its gate."""

    servers: Mapping[str, ServerEntry]
    """For `mcpServers`: one for each attachment, and `x1agent`."""
    mounts: tuple[Mounted, ...]
    """The sockets at `/run/x1/mcp`, and whatever the entries' commands need."""
    companions: tuple[RunSpec, ...] = ()
    """Its servers, as they will be started beside the agent."""


class SessionGates(Protocol):
    """Opens gates."""

    def open(self, session: GatedSession, directory: Path) -> AbstractAsyncContextManager[OpenGate]:
        """Serve a session's sockets in a directory of ours while somebody is in here; its servers end with it.

        Fails fast, with the field named, on a cleared secret, a removed server or a quarantined tool.
        """
        ...
