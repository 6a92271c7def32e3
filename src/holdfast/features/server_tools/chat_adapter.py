"""Owns how a tool becomes one that a model calls in a chat: lenient input, JSON out."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.core import jsontext
from holdfast.core.fields import invalid
from holdfast.core.schema import input_schema
from holdfast.engines.llm.model import Json, LoopTool, Outcome


class ChatInput(BaseModel):
    """What a model writes. Arguments that nobody asked for are ignored: models invent them, and mean no harm."""

    model_config = ConfigDict(extra="ignore")


_In = TypeVar("_In", bound=ChatInput)


def adapted(
    name: str,
    description: str,
    input: type[_In],
    handler: Callable[[_In], Awaitable[Outcome]],
    *,
    event: str | None = None,
    research: bool = False,
) -> LoopTool:
    """A loop's tool over a handler. What it raises, the loop tells the model as `{"error": …}`."""

    async def run(arguments: Json) -> Outcome:
        return await handler(_given(name, input, arguments))

    return LoopTool(name, description, input_schema(input), run, event=event, research=research)


def json_text(value: Any) -> str:
    """A result as models read it."""
    return jsontext.dumps(value).decode()


def _given(name: str, input: type[_In], arguments: Json) -> _In:
    # A null stands for an argument that was left out: strict schemas make models write them all.
    try:
        return input.model_validate({key: value for key, value in arguments.items() if value is not None})
    except ValidationError as error:
        raise invalid(error, f"The input of {name}") from None
