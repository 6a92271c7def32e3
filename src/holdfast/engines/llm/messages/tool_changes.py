"""Owns which tools a conversation ends with: Anthropic lets a client add and withdraw some between its messages."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import Json

TOOL_CHANGES = ("tool_addition", "tool_removal")
"""The blocks that say so, which no model is told."""


def offered(tools: Sequence[Json], messages: Sequence[tuple[int, Any]]) -> list[tuple[str, Json]]:
    """The tools after all changes, each with the place where it is written."""
    known = {_name(tool): (f"tools.{number}", tool) for number, tool in enumerate(tools)}
    if len(known) < len(tools):
        # Two of one name are the upstream's to refuse, and some have none.
        return [(f"tools.{number}", tool) for number, tool in enumerate(tools)]
    now = dict(known)
    for place, change in _changes(messages):
        tool = change.get("tool")
        # Tools of a server that Anthropic would ask are refused with that server.
        if not isinstance(tool, dict) or tool.get("type") not in ("tool_reference", "tool_definition"):
            continue
        defined = tool.get("definition")
        if isinstance(defined, dict):
            known[_name(defined)] = (f"{place}.tool.definition", defined)
        name = _name(defined if isinstance(defined, dict) else tool)
        if change["type"] == "tool_removal":
            now.pop(name, None)
        elif name in known:
            now[name] = known[name]
    return list(now.values())


def _changes(messages: Sequence[tuple[int, Any]]) -> Iterator[tuple[str, Json]]:
    for number, message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for at, block in enumerate(dicts(content)):
            place = f"messages.{number}.content.{at}"
            if block.get("type") in TOOL_CHANGES:
                yield place, block
            elif block.get("type") == "compaction":
                for change in dicts(block.get("tool_changes")):
                    if change.get("type") in TOOL_CHANGES:
                        yield place, change


def _name(tool: Json) -> str:
    return str(tool.get("name") or tool.get("type"))
