"""Owns what an MCP session, an event of its streams and a client seen here are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import NotFound, RateLimited, Unavailable


@dataclass(frozen=True, slots=True)
class McpSession:
    """A conversation of the handshake era. It belongs to a credential, and to a workspace once it is bound to one."""

    id: str
    organization_id: str
    project_id: str
    owner: str
    workspace_id: str | None
    protocol_version: str
    client_name: str
    client_version: str
    capabilities: Mapping[str, Any]
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One message of a stream, kept until the session ends so that a dropped stream can be resumed anywhere."""

    id: int
    stream: str
    message: str
    """The JSON-RPC message; empty for an event that only marks a place to resume from."""
    is_final: bool


@dataclass(frozen=True, slots=True)
class ClientSeen:
    """A client program that has connected here, and what it declared that it can do."""

    name: str
    version: str
    protocol_version: str
    title: str
    capabilities: Mapping[str, Any]
    first_seen_at: int
    last_seen_at: int


@dataclass(frozen=True, slots=True)
class NewClient:
    """How a client introduced itself."""

    name: str
    version: str
    protocol_version: str
    title: str
    capabilities: Mapping[str, Any]


class SessionNotFound(NotFound):
    """No such session, or somebody else's, or expired: the answer is the same."""

    code = "session_not_found"

    def __init__(self) -> None:
        super().__init__("session", "of that id")
        self.message = "Session not found; initialize a new one."
        self.args = (self.message,)


class TooManySessionsOfOne(RateLimited):
    """One credential has its share; the others' is not touched."""

    code = "too_many_sessions"


class TooManySessions(Unavailable):
    """The cap is reached; idle sessions make room as they expire."""

    code = "too_many_sessions"
