"""Owns what a memory is, what may be said when saving one, and how the answer looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.engines.search.keeper import vector_text

Status = Literal["current", "superseded", "retracted"]
Trust = Literal["person", "agent", "web"]
Outcome = Literal["saved", "duplicate", "rejected"]
Visibility = Literal["workspace", "chat"]

ENTITY = "memory"
CHAT_ENTITY = "chat_memory"
"""What search calls a memory that only its chat recalls, so that whoever looks for memories does not find it."""
MAX_WORDS = 2_000
MAX_CHARACTERS = 20_000
MAX_TITLE = 200
MAX_TAGS = 20
MAX_TAG = 60
MAX_SOURCE = 500
MAX_NOTE = 500


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What somebody wants remembered."""

    content: str
    category: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    occurred_at: int | None = None
    """When it became true, where that differs from now."""
    source: str = ""
    supersedes: str | None = None
    """Id or slug of the memory that this one replaces."""
    session_id: str | None = None
    chat_id: str | None = None
    trust: Trust | None = None
    """Whose word it is; never higher than the caller's own."""
    session_is_connection: bool = False
    """Whether the session is only a client's connection, which may hold many conversations."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What an edit changes; None leaves a field as it is."""

    content: str | None = None
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None
    occurred_at: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Something known: since `learned_at` to us, true from `occurred_at` (or then) until `valid_until`."""

    id: str
    workspace_id: str
    slug: str
    title: str
    content: str
    digest: str
    category: str
    tags: tuple[str, ...]
    status: Status
    occurred_at: int | None
    learned_at: int
    valid_until: int | None
    superseded_by: str | None
    status_note: str
    author: str
    author_name: str
    trust: Trust
    session_id: str | None
    chat_id: str | None
    source: str
    position: int
    """Its place among the memories of its session."""
    revision: int
    updated_at: int
    visibility: Visibility = "workspace"
    """Whether the workspace recalls it, or only the chat it was saved in."""
    thread: str = ""
    """The conversation it is part of; empty where it is part of none."""

    @property
    def says(self) -> tuple[str, str]:
        """What its vector is made from."""
        return self.title, self.content

    @property
    def vector_text(self) -> str:
        """The same as one text."""
        return vector_text(self.title, self.content, bool(self.thread))

    @property
    def entry_type(self) -> str:
        """What search calls it."""
        return CHAT_ENTITY if self.visibility == "chat" else ENTITY

    @property
    def true_from(self) -> int:
        """Since when it holds: when it happened, or else when we learned it."""
        return self.learned_at if self.occurred_at is None else self.occurred_at

    @property
    def held_from(self) -> int:
        """Since when it is an answer: it was true, or we knew already that it would be."""
        return min(self.learned_at, self.true_from)


@dataclass(frozen=True, slots=True)
class Revision:
    """What a memory said, from `written_at` until the next revision."""

    memory_id: str
    revision: int
    title: str
    content: str
    category: str
    tags: tuple[str, ...]
    occurred_at: int | None
    written_at: int
    editor: str


@dataclass(frozen=True, slots=True)
class ForgottenMemory:
    """A memory that went with its chat, and what it said before: all that it takes to put it back."""

    memory: Memory
    revisions: Sequence[Revision]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An existing memory that the new one seems to change; a candidate to supersede."""

    memory: Memory
    reason: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Saved:
    """How a save ended. `memory` is the new one, or the existing one that it repeats; None when refused."""

    outcome: Outcome
    memory: Memory | None
    reason: str | None = None
    contradicts: Sequence[Contradiction] = ()


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that answers a query, with the text in force at the moment asked about."""

    memory: Memory
    relevance: float
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories a list holds; None filters nothing."""

    category: str | None = None
    tag: str | None = None
    status: Status | None = "current"
    author: str | None = None
    trust: Trust | None = None
    session_id: str | None = None
    chat_id: str | None = None
    visibility: Visibility | None = "workspace"
    seen_from: str | None = None
    """As this chat sees them: the workspace's and its own; then `visibility` does not matter."""
    since: int | None = None
    """Learned at or after."""
    until: int | None = None
    """Learned before."""
    as_of: int | None = None
    """True at that moment; then `status` does not matter."""


def require_current(memory: Memory) -> None:
    """Conflict, with what to do instead, unless the memory still holds."""
    if memory.status == "superseded":
        raise Conflict(f"The memory {memory.slug!r} is superseded by {memory.superseded_by}; change that one.")
    if memory.status == "retracted":
        raise Conflict(f"The memory {memory.slug!r} was retracted; save a new one.")


class MemoryNotFound(NotFound):
    """No such memory in this workspace."""

    def __init__(self, key: str) -> None:
        super().__init__("memory", key)


class MemoryRejected(Invalid):
    """The text is not stored: a credential, junk or boilerplate."""

    code = "memory_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The memory was not stored. {reason}", fields=[FieldError("content", reason)])
