"""Owns what we know of an MCP server that we call, and the interface of a connection to one."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.errors import UpstreamFailed

TellProgress = Callable[[float, float | None, str], Awaitable[None]]


class ServerFailed(UpstreamFailed):
    """The MCP server did not start, broke the protocol, or ended; the message says which, with its last words."""

    code = "mcp_server_failed"


class CallRefused(ServerFailed):
    """The server is well and answered with an error of the protocol: no such tool, arguments that it does not take."""

    code = "mcp_call_refused"

    def __init__(self, message: str, rpc_code: int = 0, data: Any = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data


class LoginNeeded(UpstreamFailed):
    """The remote server wants the person to sign in (again); `url` is where a person does that."""

    code = "login_needed"

    def __init__(self, message: str, url: str) -> None:
        super().__init__(message)
        self.url = url


class CallNotTaken(LoginNeeded):
    """The same said to the call itself: the server did nothing of it."""


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool as its server describes it, word for word."""

    name: str
    title: str | None
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any]
    """As sent: `readOnlyHint`, `destructiveHint`, … Claims of the server, to be trusted as such."""


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What a server says of itself."""

    server_info: Mapping[str, Any]
    protocol: str
    tools: tuple[ServedTool, ...]


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave, as the protocol has it."""

    content: tuple[Mapping[str, Any], ...]
    structured: Mapping[str, Any] | None
    is_error: bool


class Connection(Protocol):
    """An open connection to one server, used by several callers at once."""

    async def describe(self) -> ServerDescription:
        """The server and all its tools, over all pages; ServerFailed where there are absurdly many."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        """Call a tool. Cancelling the task cancels the call at the server. ServerFailed if the server breaks."""
        ...

    def logs(self) -> str:
        """The last of what the server wrote to stderr; empty for a remote one."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the server is gone, so that the next call needs a new connection."""
        ...

    async def close(self) -> None:
        """End the connection, and the server where it is ours."""
        ...
