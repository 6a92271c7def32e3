"""Owns what a client, a connection and a bundle of files for a client are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import Invalid
from holdfast.core.principal import Tier

SERVER = "xerotier"
"""The name that the server goes by in every client."""
VARIABLE = "XEROTIER_API_KEY"
"""The environment variable that holds the key where it is kept out of the file."""

Format = Literal["json", "toml", "yaml"]


class Unmergeable(Invalid):
    """A file that is there cannot be changed without losing something; nothing is written."""

    code = "unmergeable"


@dataclass(frozen=True, slots=True)
class Connection:
    """What a client needs to reach one workspace."""

    url: str
    workspace_id: str
    credential: str
    """The key, or the client's own way to name the environment variable that holds it."""
    in_environment: bool

    @property
    def headers(self) -> dict[str, str]:
        """The two headers that every client sends."""
        return {"Authorization": f"Bearer {self.credential}", "X-Xerotier-Workspace": self.workspace_id}


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
    settings: Callable[[Connection], Mapping[str, Any]]
    variable: str | None
    """How a value in the settings names the environment variable; None where the client cannot."""
    rules: RulesFile | None
    rules_setting: str | None = None
    """The setting that holds the rules themselves, where the client has no file of its own for them."""
    stale: Callable[[Connection], Sequence[tuple[str, ...]]] = lambda connection: ()
    """Settings that an earlier run may have left and that contradict this one."""
    opening: str = ""
    """What a new settings file begins with."""
    is_project_scoped: bool = True
    after: str = ""
    """What a person still has to do or know, for the README."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for when they connect a client."""

    client: str
    workspace_id: str
    tier: Tier = "all"
    in_environment: bool = False
    url: str | None = None
    """The server as the client reaches it, where the server's own idea of it is wrong."""
    label: str = ""
    """Tells several people's or machines' keys for one client apart; each rotates only its own."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a bundle, as a change to what is there: `merge("")` is the file where there was none."""

    path: str
    merge: Callable[[str], str]
    has_key: bool = False


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything that connects one client: the settings first, then rules and what git must not see."""

    client: Client
    key_name: str
    files: tuple[BundleFile, ...]
    readme: str
    environment: Mapping[str, str]
    """Variables that have to be set before the client starts."""

    def __repr__(self) -> str:
        return f"Bundle({self.key_name})"
