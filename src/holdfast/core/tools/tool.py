"""Owns the Tool: one definition of what a model can call, and the circumstances of a call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from holdfast.core.access import Access, NeededTier, holds
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal, Tier
from holdfast.core.text.schema import input_schema, output_schema

_In = TypeVar("_In", bound=BaseModel)
_Out = TypeVar("_Out", bound=BaseModel)
_Turn = TypeVar("_Turn")

WORKSPACE = "workspace"
"""The argument by which a call names the workspace that it is for."""
# The server's instructions say more: it is the bound one where a call names none.
_WORKSPACE_SCHEMA = {"type": "string", "description": "Its id or slug"}

Consumer = Literal["mcp", "catalog", "keystone", "zero", "x1agent", "chat", "ask"]
"""Who lists and calls tools: MCP on its three mounts, for keys that search its catalog and for agents in sessions of
ours, chats, and `ask`."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a client may assume of a call before it makes one."""

    read_only: bool
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


class Asks(Protocol):
    """How a tool asks the person behind the client something while it runs, where the client can."""

    async def __call__(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The person's answer, or None when they declined or the client cannot ask."""
        ...


class SendsToPage(Protocol):
    """How a tool sends the person behind the client to one of our pages, where the client can."""

    async def __call__(self, message: str, url: str) -> bool:
        """Whether the client says that the person went there."""
        ...


class AsksModel(Protocol):
    """How a tool asks the client's own model something, where the client lets servers do so."""

    async def __call__(self, question: str) -> str | None:
        """What the model said; None where the client cannot ask, or did not."""
        ...


async def _nowhere_to_go(message: str, url: str) -> bool:
    return False


async def _no_model(question: str) -> str | None:
    return None


async def _no_progress(done: float, total: float | None, message: str) -> None:
    """Nobody follows this call's progress."""


async def _nobody_to_ask(message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    return None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The circumstances of one call: who, where, and how to reach back."""

    principal: Principal
    workspace_id: str | None
    consumer: Consumer
    project_id: str | None = None
    session_id: str | None = None
    chat_id: str | None = None
    seconds: float | None = None
    """How long it may take; None where the tool's own limits are enough."""
    turn: object = None
    """What belongs to the consumer's turn: the sources that `ask` numbers, the request of MCP. Its own tools look."""
    progress: Callable[[float, float | None, str], Awaitable[None]] = _no_progress
    ask: Asks = _nobody_to_ask
    send_to_page: SendsToPage = _nowhere_to_go
    ask_model: AsksModel = _no_model
    bind: Callable[[str], Awaitable[None]] | None = None
    """Binds the session to a workspace, where the surface has sessions."""
    place: Callable[[str | None], Awaitable[str]] | None = None
    """Finds the workspace to work in, by what the call named or did not, where a call may name one."""

    @property
    def source(self) -> str:
        """The way it came, as usage is counted."""
        return "mcp" if self.consumer in ("catalog", "keystone", "zero", "x1agent") else self.consumer

    def during(self, kind: type[_Turn]) -> _Turn:
        """What the turn has; a tool that needs it is listed only where it is brought."""
        if not isinstance(self.turn, kind):
            raise AssertionError(f"the call brings no {kind.__name__}")
        return self.turn

    def workspace(self) -> str:
        """The bound workspace; Invalid with the remedy when there is none."""
        if self.workspace_id is None:
            problem = "send the header X-Xerotier-Workspace, or call xerotier.session.init with workspace_id"
            raise Invalid("No workspace is bound to this session.", fields=[FieldError(WORKSPACE, problem)])
        return self.workspace_id


@dataclass(frozen=True, slots=True)
class Tool(Generic[_In, _Out]):
    """A named thing an agent can do. `handler` gets validated input and returns the output model."""

    name: str
    title: str
    description: str
    input: type[_In]
    output: type[_Out]
    handler: Callable[[ToolCall, _In], Awaitable[_Out]]
    annotations: Annotations
    access: Access
    """Who may call it, on whichever surface."""
    text: Callable[[_Out], str] | None = field(default=None)
    """Renders the result for reading; the JSON of the output where absent."""
    consumer: Consumer | None = "mcp"
    """Who lists it under this name; None for a tool that is only called by aliases."""
    whole: bool = False
    """Whether a large result is the point of calling it, and is not set aside."""
    in_workspace: bool = False
    """Whether it works in a workspace, which an MCP client may name with each call."""

    @property
    def tier(self) -> NeededTier:
        """The tier that a key needs."""
        return self.access.tier

    def input_schema(self) -> dict[str, Any]:
        """What it takes, as JSON Schema."""
        schema = input_schema(self.input)
        if self.in_workspace:
            schema["properties"] = {**schema["properties"], WORKSPACE: _WORKSPACE_SCHEMA}
        return schema

    def output_schema(self) -> dict[str, Any] | None:
        """What it gives, as JSON Schema; None where it does not say."""
        return output_schema(self.output)

    def described(self) -> dict[str, Any]:
        """The tool as MCP lists it, which is what a model reads of it before it calls."""
        notes, gives = self.annotations, self.output_schema()
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema(),
            **({} if gives is None else {"outputSchema": gives}),
            "annotations": {
                "readOnlyHint": notes.read_only,
                "destructiveHint": notes.destructive,
                "idempotentHint": notes.idempotent,
                "openWorldHint": notes.open_world,
            },
        }

    def within(self, tier: Tier) -> bool:
        """Whether a key of that tier sees this tool."""
        return holds(tier, self.tier)


AnyTool = Tool[Any, Any]
