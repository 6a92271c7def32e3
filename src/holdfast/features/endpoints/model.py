"""Owns what an endpoint is: a name in a project, and the upstreams that answer there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.engines.llm.remote.upstream import Kind

DEFAULT = "default"
EMBEDDED_MODEL = "holdfast-extractive"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
# Segments that follow a project's id with another meaning.
RESERVED = frozenset({"v1", "mcp", "api"})
MAX_UPSTREAMS = 8
MAX_MODEL = 200
TOOLS = frozenset({"web_search", "fetch_url", "code_search", "gitlab_code_search", "calculator", "file_search"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointUpstream:
    """One server of OpenAI's or Anthropic's wire. Lower priorities are asked first; equal ones in order."""

    base_url: str
    model: str
    kind: Kind = "openai"
    """Whose wire it speaks."""
    key_secret: str | None = None
    """The name of the secret that holds its API key."""
    key_workspace_id: str | None = None
    """The workspace whose secret that is."""
    priority: int = 0
    timeout_seconds: float = 120.0
    """How long the first byte of an answer may take."""
    price_in: float = 0.0
    price_out: float = 0.0
    """What a million tokens cost, in the team's currency."""
    private: bool = False
    """Whether the operator said so, who may name machines of the private network."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A place to chat. Without an upstream the embedded model answers."""

    project_id: str
    name: str
    upstreams: Sequence[EndpointUpstream] = ()
    disabled_tools: frozenset[str] = field(default_factory=frozenset)
    created_at: int = 0
    updated_at: int = 0

    @property
    def is_embedded(self) -> bool:
        """Whether no upstream is connected."""
        return not self.upstreams

    def cost(self, model: str, tokens_in: int, tokens_out: int) -> float:
        """What tokens of a model cost here."""
        for each in self.upstreams:
            if each.model == model:
                return (each.price_in * tokens_in + each.price_out * tokens_out) / 1e6
        return 0.0

    @property
    def path(self) -> str:
        """What follows the server's address in an OpenAI client's base URL."""
        return f"/{self.project_id}/{self.name}/v1"


class EndpointNotFound(NotFound):
    """No endpoint of this name in the project."""

    def __init__(self, name: str) -> None:
        super().__init__("endpoint", name[:80])


def checked_name(name: str) -> str:
    """The name, if it can stand in a path."""
    if NAME.fullmatch(name) is None or name in RESERVED:
        problem = "use small letters, digits, '-', '_' and '.', at most 63, beginning with a letter or digit"
        raise Invalid("The endpoint's name cannot be used.", fields=[FieldError("name", problem)])
    return name
