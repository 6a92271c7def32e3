"""Owns what a catalog entry is: an MCP server that a workspace may run, what it takes, and its tools as pinned."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.core.errors import Conflict, NotFound

Shape = Literal["image", "command", "remote"]
EnvKind = Literal["secret", "value"]
Policy = Literal["auto", "approve", "deny"]
ToolState = Literal["active", "quarantined", "gone"]
InstallState = Literal["none", "installing", "installed", "failed"]

NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
POLICIES: tuple[Policy, ...] = ("auto", "approve", "deny")
MAX_TOOLS = 1_000
"""More than any server has that means well; `describe` refuses absurd numbers before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRule:
    """What a server expects in one variable of its environment."""

    kind: EnvKind = "value"
    label: str = ""
    required: bool = False
    regex: str | None = None
    enum: tuple[str, ...] = ()
    guessed: bool = False
    """Whether nobody said so: it was read off a README, a snippet or the server's own complaints."""


@dataclass(frozen=True, slots=True)
class ServerManifest:
    """What a server expects to be given, and which of its tools ask for a grant."""

    env: Mapping[str, EnvRule] = field(default_factory=dict[str, EnvRule])
    tool_scopes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """What an admin says of a server."""

    name: str
    shape: Shape
    image: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of a remote server: sent with every request, values or `${SECRET}`."""
    manifest: ServerManifest = field(default_factory=ServerManifest)
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    allow: tuple[str, ...] = ()
    """The `host:port`s that it may reach."""
    paths: tuple[str, ...] = ()
    """Files and directories of this machine that its command names: it sees them read-only."""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PackagePin:
    """What was installed in place of `npx`, `uvx` or an image's name, at one version, by its digest."""

    manager: Literal["npm", "pypi", "image"]
    package: str
    version: str
    integrity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One server of a workspace's catalog."""

    id: str
    workspace_id: str
    spec: NewEntry
    revision: int
    """Another number after each change: a running server of an earlier one is not used again."""
    created_at: int
    updated_at: int
    updated_by: str
    install: InstallState = "none"
    installed: PackagePin | None = None
    job_id: str | None = None
    """The job that installs its package and starts it to see its tools."""
    problem: str | None = None
    """Why its package could not be installed, or why its tools could not be seen after that."""
    server_info: Mapping[str, Any] | None = None
    protocol: str | None = None
    probed_at: int | None = None

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool as its server describes it: everything that a pin covers."""

    name: str
    title: str | None
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTool:
    """A tool of an entry. What runs is what was pinned; what the server says since waits beside it for a person."""

    server_id: str
    server: str
    """The entry's name."""
    pinned: ToolDescription
    digest: str
    state: ToolState
    waiting: ToolDescription | None = None
    """What the server says now, where a person has to look at it first."""
    flags: tuple[str, ...] = ()
    """What in its text tries to steer a model, in words."""
    set_policy: Policy | None = None
    set_destructive: bool | None = None
    set_idempotent: bool = False
    set_scope: str | None = None
    manifest_scope: str | None = None
    is_new: bool = False
    """Whether nobody accepted it yet: it appeared after the first probe, or its text speaks to models."""

    @property
    def name(self) -> str:
        return self.pinned.name

    @property
    def xem_name(self) -> str:
        """How it is called from outside: `<server>.<tool>`."""
        return f"{self.server}.{self.pinned.name}"

    @property
    def scope(self) -> str | None:
        return self.set_scope if self.set_scope is not None else self.manifest_scope

    @property
    def destructive(self) -> bool:
        """As an operator said; else as the server claims. Its claim can hide a tool, never show one."""
        if self.set_destructive is not None:
            return self.set_destructive
        return self.pinned.annotations.get("destructiveHint") is True

    @property
    def read_only(self) -> bool:
        """Whether its server claims that it changes nothing, and nothing speaks against it."""
        return self.pinned.annotations.get("readOnlyHint") is True and not self.destructive

    @property
    def idempotent(self) -> bool:
        """Whether an operator said that running it twice does no harm; a server's own claim is not enough."""
        return self.set_idempotent

    def policy(self, *, granted: bool = False) -> Policy:
        """How calls are decided: as an operator said; else by the default rule."""
        if self.set_policy is not None:
            return self.set_policy
        return "auto" if self.read_only or (granted and self.scope is not None) else "approve"


@dataclass(frozen=True, slots=True)
class ToolChange:
    """What an operator sets for a tool; None leaves it, except where a name in `cleared` goes back to the default."""

    policy: Policy | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    scope: str | None = None
    cleared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LoginStanding:
    """What is known of a person's login without opening it."""

    server_id: str
    user_id: str
    issuer: str
    updated_at: int
    expires_at: int | None
    """When its token ends; None where the server did not say."""
    renewable: bool
    """Whether it is renewed without the person."""
    ended_at: int | None
    """When the server stopped taking it."""

    def needs_login(self, now: int) -> bool:
        """Whether the person has to sign in again before anything works."""
        expired = self.expires_at is not None and self.expires_at <= now and not self.renewable
        return self.ended_at is not None or expired


@dataclass(frozen=True, slots=True)
class ConnectedPerson:
    """Somebody who signed in at a remote server."""

    standing: LoginStanding
    name: str
    email: str
    needs_login: bool


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found."""

    tools: tuple[PinnedTool, ...]
    server_info: Mapping[str, Any]
    protocol: str
    seconds: float


class EntryNotFound(NotFound):
    """No server of this name in the workspace's catalog."""

    def __init__(self, name: str) -> None:
        super().__init__("MCP server", name[:80])


class PinnedToolNotFound(NotFound):
    """No tool of this name was pinned for the server."""

    def __init__(self, name: str) -> None:
        super().__init__("tool", name[:200])


class EntryExists(Conflict):
    """The workspace has a server of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The workspace has a server {name!r}; change it, or choose another name.")


class NotReady(Conflict):
    """The server cannot be started now; the message says why and what to do."""

    code = "server_not_ready"
