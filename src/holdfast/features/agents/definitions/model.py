"""Owns what an agent is: its instructions, what drives it, what it is given, and what it may use up."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from holdfast.core.errors import Conflict, NotFound

RunnerName = Literal["builtin", "claude-code", "codex", "opencode", "goose", "command"]
RUNNERS: tuple[RunnerName, ...] = get_args(RunnerName)
SLUG = re.compile(r"[a-z][a-z0-9-]{0,47}")
MAX_NAME, MAX_INSTRUCTIONS, MAX_COMMAND, MAX_ATTACHMENTS = 200, 100_000, 4_000, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """How much one session may use; whichever is reached first ends it, and is named."""

    minutes: int = 60
    """Of work: what it waits for people is not counted."""
    tokens: int = 2_000_000
    """In and out, its children's included."""
    memory_mb: int = 2_048
    disk_mb: int = 2_048
    """Its home and its worktree together."""
    processes: int = 256


MOST = AgentLimits(minutes=7 * 24 * 60, tokens=1_000_000_000, memory_mb=262_144, disk_mb=1_048_576, processes=32_768)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A server of the workspace's catalog that an agent may use, with an environment of its own."""

    name: str
    server_id: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """What an author says of an agent."""

    name: str
    slug: str | None = None
    """How it is called in paths and commands; from its name where left out."""
    instructions: str = ""
    runner: RunnerName = "builtin"
    command: str | None = None
    """What to run, for the runner of that name."""
    endpoint: str = "default"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the agent's own process: values, and `${NAME}` where an admin granted it the secret."""
    repository: str | None = None
    """The slug of the repository that it works in; an empty directory without one."""
    limits: AgentLimits = field(default_factory=AgentLimits)

    @property
    def words(self) -> tuple[str, ...]:
        """The command as words."""
        return tuple(shlex.split(self.command or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as it is at one version."""

    id: str
    workspace_id: str
    slug: str
    version: int
    spec: NewAgent
    attachments: tuple[Attachment, ...] = ()
    created_at: int
    updated_at: int
    updated_by: str
    secrets: tuple["SecretGrant", ...] = ()
    """Secrets whose values its own process may be given."""

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class SecretGrant:
    """An admin let an agent's own process have a secret."""

    name: str
    granted_at: int
    granted_by: str


@dataclass(frozen=True, slots=True)
class NewAttachment:
    """What an author wants attached."""

    name: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class AgentNotFound(NotFound):
    """No such agent for this caller."""

    def __init__(self, id: str) -> None:
        super().__init__("agent", id[:80])


class AgentExists(Conflict):
    """The workspace has an agent of this slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"The workspace has an agent {slug!r}; change it, or choose another slug.")


class AgentBusy(Conflict):
    """The agent has sessions that run."""

    code = "agent_busy"
