"""Owns how the tools of the gateway become those of a turn: the loop calls them, the gateway runs them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.text.schema import input_schema
from holdfast.core.tools.alias import TOOL_CALL, AnyAlias
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.engines.llm.model import Json, LoopTool


@dataclass(frozen=True, slots=True)
class Offer:
    """An alias as one turn offers it."""

    alias: AnyAlias
    fixed: Mapping[str, Any]
    """Arguments that are the turn's to set and not the model's; it does not see them."""


def loop_tool(gateway: Gateway, call: ToolCall, offer: Offer) -> LoopTool:
    """A tool for the loop. What it raises, the loop tells the model as `{"error": …}`."""
    alias = offer.alias

    async def run(arguments: Json) -> Outcome:
        return await gateway.call(call, alias.name, {**arguments, **offer.fixed})

    return LoopTool(alias.name, alias.description, _parameters(offer), run, event=alias.event, research=alias.research)


def enrolled_tool(gateway: Gateway, call: ToolCall, tool: AnyTool) -> LoopTool:
    """A tool of another server for the loop, under the name and with the schema that were pinned."""

    async def run(arguments: Json) -> Outcome:
        return await gateway.call(call, tool.name, arguments)

    return LoopTool(tool.name, tool.description, tool.input_schema(), run, event=TOOL_CALL, research=False)


def turning_away(gateway: Gateway, call: ToolCall) -> Callable[[str], Awaitable[None]]:
    """What the loop tells of calls of tools that the turn does not offer."""

    async def turn_away(name: str) -> None:
        await gateway.turn_away(call, name)

    return turn_away


def _parameters(offer: Offer) -> Json:
    schema = input_schema(offer.alias.input)
    shown = {name: part for name, part in schema["properties"].items() if name not in offer.fixed}
    return {**schema, "properties": shown}
