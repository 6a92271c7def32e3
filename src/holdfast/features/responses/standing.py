"""Owns what a Responses request says of itself elsewhere: tools and settings among its items, and allowed tools."""

from collections.abc import Iterable
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import Json


def settled(request: Json, items: Iterable[Json]) -> Json:
    """The request with the tools that its items add, and the settings that the last of them changed."""
    made, tools = request, dicts(request.get("tools"))
    for item in items:
        kind = item.get("type")
        if kind == "additional_tools":
            added = dicts(item.get("tools"))
            tools = [tool for tool in tools if not any(_is_same(tool, each) for each in added)] + added
            made = {**made, "tools": tools}
        elif kind == "configuration_update":
            for name, field in (("reasoning", "effort"), ("text", "format")):
                said = item.get(name)
                if isinstance(said, dict) and field in said:
                    before = made.get(name)
                    made = {**made, name: {**(before if isinstance(before, dict) else {}), field: said[field]}}
    return made


def allowed(choice: Any, tools: list[Json], namespaces: dict[str, str | None]) -> list[Json]:
    """The tools that may be called; `namespaces` are those of functions, by their names in the chat."""
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return tools
    named = dicts(choice.get("tools"))
    kept = [tool for tool in tools if any(_is_named(tool, each, namespaces) for each in named)]
    if not kept:
        problem = "name at least one that is among the tools"
        raise Invalid("The response can't be made.", fields=[FieldError("tool_choice.tools", problem)])
    return kept


def _is_same(tool: Json, other: Json) -> bool:
    return (tool.get("type"), tool.get("name")) == (other.get("type"), other.get("name"))


def _is_named(tool: Json, named: Json, namespaces: dict[str, str | None]) -> bool:
    kind = str(named.get("type"))
    if tool["type"] != "function":
        return _family(str(tool["type"])) == _family(kind)
    name = str(tool["function"]["name"])
    namespace = namespaces[name]
    if kind == "namespace":
        return namespace is not None and namespace == named.get("name")
    own = name[len(namespace) + 1 :] if namespace else name
    return kind in ("function", "custom") and own == named.get("name") and namespace == named.get("namespace")


def _family(kind: str) -> str:
    """Kinds end with their dates, and searches have had two names."""
    return "web_search" if kind.startswith("web_search") else kind
