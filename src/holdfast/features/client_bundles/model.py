"""Owns what a surface, a client, a connection and a bundle of files for a client are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import Invalid
from holdfast.core.principal import Tier

Format = Literal["json", "toml", "yaml"]
SurfaceName = Literal["xerotier", "keystone", "zero"]


class Unmergeable(Invalid):
    """A file that is there cannot be changed without losing something; nothing is written."""

    code = "unmergeable"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEndpoint:
    """One of the server's MCP endpoints, as clients know it."""

    name: SurfaceName
    """What it is called in every client's settings."""
    title: str
    about: str
    variable: str
    """The environment variable that holds the key where it is kept out of the file."""
    hidden_key: str
    """What stands for a key in everything that is shown."""
    slow_seconds: int | None
    """How long its slowest tool may take, where clients would not wait so long by themselves."""
    rules_about: str
    """What its rules are for, in one line."""
    has_prompts: bool

    def only_with_prompts(self, text: str) -> str:
        """What is only worth saying of a surface that has prompts and resources."""
        return text if self.has_prompts else ""


XEROTIER = McpEndpoint(
    name="xerotier",
    title="Xerotier",
    about="Holdfast: this project's memory and tools",
    variable="XEROTIER_API_KEY",
    hidden_key="xero_…",
    slow_seconds=None,
    rules_about="Use Holdfast (the MCP server xerotier) as this project's memory",
    has_prompts=True,
)
KEYSTONE = McpEndpoint(
    name="keystone",
    title="Keystone",
    about="Holdfast: what the history of our repositories tells",
    variable="KEYSTONE_API_KEY",
    hidden_key="ks_live_…",
    slow_seconds=300,
    rules_about="Ask Holdfast (the MCP server keystone) about the repositories' history",
    has_prompts=False,
)
ZERO = McpEndpoint(
    name="zero",
    title="Zero",
    about="Holdfast: this project's work items, closed by proof",
    variable="ZERO_API_KEY",
    hidden_key="xero_…",
    slow_seconds=None,
    rules_about="Take work from Holdfast (the MCP server zero), and close it by proof",
    has_prompts=False,
)
SURFACES: Mapping[SurfaceName, McpEndpoint] = {surface.name: surface for surface in (XEROTIER, KEYSTONE, ZERO)}


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """What a client needs to reach one workspace, or one organization's repositories."""

    surface: McpEndpoint
    url: str
    workspace_id: str | None
    credential: str
    """The key, or the client's own way to name the environment variable that holds it."""
    in_environment: bool

    @property
    def name(self) -> str:
        """What the server is called in the client's settings."""
        return self.surface.name

    def timeout(self, usual: int) -> int:
        """Seconds to wait for a tool, for clients that let us say."""
        return self.surface.slow_seconds or usual

    @property
    def headers(self) -> dict[str, str]:
        """What every client sends with each request."""
        workspace = {} if self.workspace_id is None else {"X-Xerotier-Workspace": self.workspace_id}
        return {"Authorization": f"Bearer {self.credential}", **workspace}


@dataclass(frozen=True, slots=True)
class RouterFile:
    """Where a client reads which model it is to use, and what it is told there."""

    path: str
    settings: Callable[[str, str | None], Mapping[str, Any]]
    """From the endpoint's URL and the key, or None where the key is kept out of the file."""
    variable: str
    """The environment variable that the client reads the key from in that case."""


@dataclass(frozen=True, slots=True)
class RulesFile:
    """Where a client reads standing instructions, and what such a file begins with."""

    path: str
    opening: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One MCP client: where its settings live and what they look like."""

    id: str
    title: str
    path: str
    """Of the settings file, below the folder that `place` names."""
    place: str
    """That folder, in words for people."""
    format: Format
    settings: Callable[[ClientConnection], Mapping[str, Any]]
    variable: str | None
    """How a value in the settings names the environment variable; None where the client cannot."""
    rules: RulesFile | None
    rules_setting: str | None = None
    """The setting that holds the rules themselves, where the client has no file of its own for them."""
    stale: Callable[[ClientConnection], Sequence[tuple[str, ...]]] = lambda connection: ()
    """Settings that an earlier run may have left and that contradict this one."""
    opening: str = ""
    """What a new settings file begins with."""
    router: RouterFile | None = None
    """None where the client cannot have one of our endpoints for its model."""
    is_project_scoped: bool = True
    after: str = ""
    """What a person still has to do or know, for the README."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedClient:
    """What somebody asks for when they connect a client."""

    client: str
    workspace_id: str | None = None
    """The workspace to connect; Keystone is for a whole organization and needs none."""
    surface: SurfaceName = "xerotier"
    tier: Tier | None = None
    """How much of the tool catalog the key sees, as much as its maker where None; Keystone's tools have no tiers."""
    in_environment: bool = False
    url: str | None = None
    """The server as the client reaches it, where the server's own idea of it is wrong."""
    label: str = ""
    """Tells several people's or machines' keys for one client apart; each rotates only its own."""
    router: str | None = None
    """The endpoint that is to be the client's model; None leaves the client the model that it has."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a bundle, as a change to what is there: `merge("")` is the file where there was none."""

    path: str
    merge: Callable[[str], str]
    has_key: bool = False


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything that connects one client: the settings first, then rules and what git must not see."""

    surface: McpEndpoint
    client: Client
    key_name: str
    files: tuple[BundleFile, ...]
    readme: str
    environment: Mapping[str, str]
    """Variables that have to be set before the client starts."""

    def __repr__(self) -> str:
        return f"Bundle({self.key_name})"
