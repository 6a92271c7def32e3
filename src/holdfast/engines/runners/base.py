"""Owns what an agent is started with, what it tells us while it works, and the interface of whatever drives one."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.engines.runtime.base import Mounted, Running

MODEL_PORT = 4711
"""Where, on the loopback of its sandbox, an agent finds the model: Holdfast itself, and of it one endpoint only."""
HOME = "/home/agent"
WORKTREE = "/work"


class RunnerMissing(Unavailable):
    """The runner is not installed here; the message says `holdfast agents install NAME`."""

    code = "runner_missing"


class RunnerFailed(UpstreamFailed):
    """The agent did not start, broke its protocol, or ended in the middle; the message has its last words."""

    code = "runner_failed"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How the agent starts one of its MCP servers: a pipe to a socket of the gate, as in any `mcpServers`."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an agent is given. Nothing in it is secret but the key, which ends with the session."""

    prompt: str
    instructions: str
    model: str
    model_url: str
    """`http://127.0.0.1:4711/{project_id}/{endpoint}`: `/v1/chat/completions`, `/v1/responses` and `/v1/messages`."""
    model_key: str = field(repr=False)
    servers: Mapping[str, ServerEntry]
    env: Mapping[str, str] = field(repr=False)
    """The definition's own environment, with what was granted to it."""
    resume: str | None = None
    """What the runner called this conversation when it last ran, where it is to go on with it."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What a runner needs started for an assignment; the session adds home, worktree, gate and limits."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    mounts: tuple[Mounted, ...] = ()
    home_files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Settings that it reads from its home, by their path in there."""
    least_memory_bytes: int = 0
    """Below this it does not even start."""


@dataclass(frozen=True, slots=True)
class Said:
    """Text for whoever reads along, whole or in pieces: the last piece of one text, perhaps empty, is `whole`."""

    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Thought:
    """What it thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """It calls a tool of its own or of a server."""

    call_id: str
    name: str
    arguments: str
    """As JSON, cut where it is long."""


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """The call's end."""

    call_id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class CanResume:
    """What to hand in as `Assignment.resume` to go on with this conversation in a new process."""

    token: str


@dataclass(frozen=True, slots=True)
class TurnOver:
    """It has nothing more to do until somebody says something."""

    reason: Literal["done", "interrupted", "refused", "limit", "error"]
    text: str


RunnerEvent = Said | Thought | ToolStarted | ToolEnded | CanResume | TurnOver


class Driving(Protocol):
    """An agent at work."""

    def events(self) -> AsyncIterator[RunnerEvent]:
        """What it tells, until its process ends; RunnerFailed where it breaks its protocol."""
        ...

    async def send(self, text: str) -> None:
        """Say something to it: at once where it can listen while it works, else after its turn."""
        ...

    async def interrupt(self) -> None:
        """Ask it to stop what it does and keep its conversation."""
        ...


class AgentRunner(Protocol):
    """One kind of agent."""

    name: str

    def plan(self, assignment: Assignment) -> LaunchPlan:
        """What to start; RunnerMissing where it is not installed."""
        ...

    async def drive(self, running: Running, assignment: Assignment) -> Driving:
        """Begin the conversation with a process that was started by the plan; the prompt is its first message."""
        ...


@dataclass(frozen=True, slots=True)
class RunnerPin:
    """Exactly which program a runner is: what a session records, and finds again when it goes on."""

    package: str
    version: str
    integrity: str
    """A digest over everything that was installed for it."""


class Runners(Protocol):
    """The runners that there are."""

    def get(self, name: str, command: tuple[str, ...] = (), pin: RunnerPin | None = None) -> AgentRunner:
        """One by its name, as it is installed now or as it is pinned; `command` for the runner of that name.

        RunnerMissing where it is not installed, or no longer.
        """
        ...

    def pin(self, name: str) -> RunnerPin | None:
        """What is installed under a name now; None for `command`, whose program is the definition's own."""
        ...

    @property
    def programs(self) -> Path:
        """Where installed ones lie."""
        ...
