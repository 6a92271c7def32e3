"""Owns the Alias: another name of a tool, for models whose documents call it and its arguments otherwise."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from holdfast.core.text import jsontext
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import Consumer, ToolCall

TOOL_CALL = "x_research.tool_call"
"""The event that says that a tool begins which has no event of its own."""


class AliasInput(BaseModel):
    """What a model writes. Arguments that nobody asked for are ignored: models invent them, and mean no harm."""

    model_config = ConfigDict(extra="ignore")


_In = TypeVar("_In", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class AliasTarget:
    """The call that an alias stands for."""

    tool: str
    arguments: Mapping[str, Any]


Around = Callable[[ToolCall, str, AliasTarget, Callable[[], Awaitable[Outcome]]], Coroutine[Any, Any, Outcome]]
"""What stands around the running of some tools, such as answers that are kept and a budget of their own."""


@dataclass(frozen=True, slots=True)
class Alias(Generic[_In]):
    """A tool as one consumer's models call it. Who may call it, the tool says."""

    name: str
    consumer: Consumer
    description: str
    tools: tuple[str, ...]
    """The tools that it stands for; which of them, the arguments tell."""
    input: type[_In]
    target: Callable[[_In], AliasTarget]
    show: Callable[[_In, Any], Outcome]
    """How the tool's output is told to the model, and what the turn tells of it."""
    around: Around | None = None
    event: str | None = TOOL_CALL
    """The type of the event that says a call begins, such as `x_research.searching`."""
    research: bool = False
    """Whether a turn counts it as research, and tells `x_research.result`."""


AnyAlias = Alias[Any]


def under_its_name(
    name: str,
    consumer: Consumer,
    description: str,
    input: type[_In],
    show: Callable[[Any], Outcome],
    *,
    event: str | None = None,
) -> AnyAlias:
    """A tool that one consumer lists as it is."""
    return Alias(
        name=name,
        consumer=consumer,
        description=description,
        tools=(name,),
        input=input,
        target=lambda given: AliasTarget(name, given.model_dump(exclude_unset=True)),
        show=lambda given, output: show(output),
        event=event,
    )


def json_text(value: Any) -> str:
    """A result as models read it."""
    return jsontext.dumps(value).decode()
