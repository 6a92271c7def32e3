"""Owns what a session is: the states that it goes through, what was frozen at its start, and what it tells and asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from holdfast.core.errors import Conflict, FieldError, NotFound
from holdfast.core.principal import Principal
from holdfast.engines.runners.base import RunnerPin
from holdfast.features.agents.definitions.model import AgentLimits, NewAgent
from holdfast.features.agents.gate.base import FrozenAttachment

SessionState = Literal["pending", "starting", "running", "waiting", "completed", "failed", "cancelled"]
STATES: tuple[SessionState, ...] = get_args(SessionState)
OVER: frozenset[SessionState] = frozenset({"completed", "failed", "cancelled"})
QuestionKind = Literal["input", "grant", "message"]
QuestionState = Literal["pending", "answered", "denied", "withdrawn"]

MAX_PROMPT = 200_000
MAX_MESSAGE = 50_000


@dataclass(frozen=True, slots=True)
class FrozenServer:
    """A server as the session has it, with what was installed for it, by its digest."""

    attachment: FrozenAttachment
    shape: str
    image: str | None
    """The digest of the image or package that runs."""


@dataclass(frozen=True, slots=True)
class FrozenStart:
    """Everything that a session runs with; a later change of the agent is for the next one."""

    spec: NewAgent
    servers: tuple[FrozenServer, ...]
    model: str
    project_id: str
    repository_id: str | None = None
    base_commit: str | None = None
    runner: RunnerPin | None = None
    """What drives it, exactly; None where that is a command of the definition's own."""

    @property
    def limits(self) -> AgentLimits:
        return self.spec.limits


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    """One run of an agent, from being asked for to its end."""

    id: str
    workspace_id: str
    agent_id: str
    agent_slug: str
    agent_version: int
    state: SessionState
    prompt: str
    frozen: FrozenStart
    principal: Principal
    """Whom the agent acts as: itself, with no more rights than who started it."""
    started_by: Principal
    user_id: str | None
    case_id: str | None = None
    case_fence: int | None = None
    parent_id: str | None = None
    root_id: str
    depth: int = 0
    job_id: str | None = None
    key_ids: tuple[str, ...] = ()
    """The keys that its model was reached with, one for each time it was started."""
    resume_token: str | None = None
    stop_by: str | None = None
    """Who asked for its end."""
    quiet_until: int = 0
    waited_millis: int = 0
    waiting_since: int | None = None
    last_seq: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    summary: str | None = None
    """What the agent said of its work when it ended it."""
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def branch(self) -> str:
        """Where its commits are."""
        return f"holdfast/{self.id}"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Something that a session told, by its number."""

    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuestion:
    """What a session waits for: an answer, a right, or a word from whoever started it."""

    id: str
    session_id: str
    workspace_id: str
    request_id: str
    kind: QuestionKind
    question: str
    options: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: QuestionState = "pending"
    answer: str | None = None
    grant_id: str | None = None
    created_at: int
    decided_at: int | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """What somebody said to a session."""

    id: str
    session_id: str
    text: str
    said_by: str
    created_at: int


@dataclass(frozen=True, slots=True)
class NewSession:
    """What somebody wants an agent to do."""

    prompt: str
    case_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions; None is no restriction."""

    state: SessionState | None = None
    agent: str | None = None
    case_id: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A question that waits for a person, with the session that asks."""

    session: AgentSession
    question: SessionQuestion


class AgentSessionNotFound(NotFound):
    """No such session for this caller."""

    def __init__(self, id: str) -> None:
        super().__init__("session", id[:80])


class SessionQuestionNotFound(NotFound):
    """The session has no such question."""

    def __init__(self, id: str) -> None:
        super().__init__("question", id[:80])


class SessionOver(Conflict):
    """The session has ended; nothing more reaches it."""

    code = "session_over"


class NotStartable(Conflict):
    """The agent cannot be started now; the fields say what is missing and what to do."""

    code = "not_startable"

    def __init__(self, wrong: Sequence[FieldError]) -> None:
        told = "; ".join(f"{each.field}: {each.message}" for each in wrong)
        super().__init__(f"The agent was not started. {told}", fields=wrong)


class LimitReached(Exception):
    """A session used up one of its limits; told to whoever watches it."""

    def __init__(self, limit: str, said: str) -> None:
        super().__init__(said)
        self.limit = limit
        self.said = said
