"""Owns what the tools of `x1agent` are made of: the session that calls, and a tool whose result speaks for itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from holdfast.core.access import READ, WRITE
from holdfast.core.tools.tool import Annotations, AnyTool, Consumer, Tool, ToolCall
from holdfast.features.agents.gate.base import GatedSession, SessionActions
from holdfast.features.secrets.masking import SecretMask

CONSUMER: Consumer = "x1agent"


class X1Input(BaseModel):
    """What an agent writes; what nobody asked for is refused by its name."""

    model_config = ConfigDict(extra="forbid")


class X1Output(BaseModel):
    """What an agent reads."""


class AckOutput(X1Output):
    """It was done."""

    ok: bool = True


@dataclass(frozen=True, slots=True)
class X1Turn:
    """The session whose agent calls."""

    session: GatedSession
    actions: SessionActions
    mask: SecretMask
    """What nobody is to read; arguments are without it already, what a tool reads by itself is not."""


@dataclass(frozen=True, slots=True)
class X1Tool(Tool[Any, Any]):
    """A tool of `x1agent`. Schemas of 25 results would fill a context for nothing."""

    def output_schema(self) -> dict[str, Any] | None:
        return None


_In = TypeVar("_In", bound=X1Input)
_Out = TypeVar("_Out", bound=X1Output)
Handler = Callable[[ToolCall, X1Turn, _In], Awaitable[_Out]]


def x1_tool(
    name: str,
    description: str,
    input: type[_In],
    output: type[_Out],
    handler: Handler[_In, _Out],
    *,
    reads: bool = False,
    repeats: bool = False,
    outside: bool = False,
) -> AnyTool:
    """A tool of `x1agent`; `reads` where it changes nothing, `repeats` where twice is once."""

    async def run(call: ToolCall, given: _In) -> _Out:
        return await handler(call, call.during(X1Turn), given)

    return X1Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=description,
        input=input,
        output=output,
        handler=run,
        annotations=Annotations(read_only=reads, idempotent=reads or repeats, open_world=outside),
        access=READ if reads else WRITE,
        consumer=CONSUMER,
    )
