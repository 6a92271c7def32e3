"""Owns which tools a request asks for: `web_search_options`, the hosted entries of `tools`, and the x_tools rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holdfast.core.access import RUN_INTEL
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.llm.model import ROUNDS, Json
from holdfast.features.chat.turn.limits import ToolLimits, read_limits

ContextSize = Literal["low", "medium", "high"]

RESEARCH = ("web_search", "fetch_url", "code_search", "gitlab_code_search", "calculator")
DEFAULT = ("web_search", "fetch_url")
SELECTABLE = frozenset((*RESEARCH, "file_search"))
MAX_ROUNDS = 20
# Its report is an artifact, and it reads code.
DEEP_THINK = RUN_INTEL
MAX_VECTOR_STORES = 10

_SIZES: tuple[ContextSize, ...] = ("low", "medium", "high")
# What is ours to read and an upstream's to refuse.
_OURS = ("web_search_options", "x_chat_id", "x_parent_message_id", "x_ask_user")


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What the request says about tools that run here."""

    research: bool = False
    """Whether it opted in to research at all."""
    names: tuple[str, ...] = ()
    context_size: ContextSize = "medium"
    max_rounds: int = ROUNDS
    deep_think: bool = False
    file_search: bool = False
    vector_store_ids: tuple[str, ...] = ()
    limits: Mapping[str, ToolLimits] = field(default_factory=dict)
    """What tools may do in this turn, by their names."""


def tool_options(body: Json, *, max_rounds: int = MAX_ROUNDS) -> ToolOptions:
    """Read a Chat Completions body; Invalid names the field that makes no sense."""
    options = ToolOptions()
    asked = body.get("web_search_options")
    if asked is not None:
        options = _research(options, asked, "web_search_options", max_rounds)
    for number, tool in enumerate(_tools(body)):
        kind = _hosted(tool)
        if kind == "web_search":
            options = _research(options, tool, f"tools[{number}]", max_rounds)
        elif kind == "file_search":
            ids = _strings(tool.get("vector_store_ids"), f"tools[{number}].vector_store_ids")
            if len(ids) > MAX_VECTOR_STORES:
                raise _wrong(f"tools[{number}].vector_store_ids", f"name at most {MAX_VECTOR_STORES}")
            options = replace(options, file_search=True, vector_store_ids=(*options.vector_store_ids, *ids))
    return options


def upstream_body(body: Json) -> Json:
    """The body without what only this server understands."""
    kept = {key: value for key, value in body.items() if key not in _OURS}
    if "tools" in kept:
        tools = [tool for tool in _tools(body) if _hosted(tool) is None]
        kept = {**kept, "tools": tools} if tools else {key: kept[key] for key in kept if key != "tools"}
    return kept


def selected(names: Iterable[str], available: frozenset[str]) -> tuple[str, ...]:
    """The tools to offer, by the x_tools rules.

    Names that are unknown or unavailable are ignored; with none left the defaults apply; `web_search` brings
    `fetch_url` along, so that its hits can be read.
    """
    wanted = [name for name in dict.fromkeys(names) if name in available] or list(DEFAULT)
    if "web_search" in wanted and "fetch_url" not in wanted:
        wanted.insert(wanted.index("web_search") + 1, "fetch_url")
    return tuple(wanted)


def _research(options: ToolOptions, asked: Any, place: str, max_rounds: int) -> ToolOptions:
    if not isinstance(asked, Mapping):
        raise _wrong(place, "write an object, such as {}")
    size = asked.get("search_context_size") or "medium"
    if size not in _SIZES:
        raise _wrong(f"{place}.search_context_size", f"use one of {', '.join(_SIZES)}")
    rounds = asked.get("max_iterations")
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1):
        raise _wrong(f"{place}.max_iterations", "use a whole number from 1")
    deep_think = asked.get("x_deep_think") or False
    if not isinstance(deep_think, bool):
        raise _wrong(f"{place}.x_deep_think", "use true or false")
    return replace(
        options,
        research=True,
        names=RESEARCH if deep_think else _strings(asked.get("x_tools"), f"{place}.x_tools"),
        context_size=size,
        max_rounds=min(rounds or ROUNDS, max_rounds),
        deep_think=deep_think,
        limits=read_limits(asked.get("x_limits"), f"{place}.x_limits"),
    )


def _tools(body: Json) -> list[Json]:
    tools = body.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise _wrong("tools", "write a list of objects")
    return tools


def _hosted(tool: Json) -> Literal["web_search", "file_search"] | None:
    """Which of our tools an entry of `tools` means; None for a tool of the client's own."""
    kind = tool.get("type")
    if isinstance(kind, str) and kind.startswith("web_search"):
        return "web_search"
    return "file_search" if kind == "file_search" else None


def _strings(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong(field, "write a list of names")
    return tuple(item for item in value if isinstance(item, str))


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"The request is not valid: {field}: {problem}.", fields=[FieldError(field, problem)])
