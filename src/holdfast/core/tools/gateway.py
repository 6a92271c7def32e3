"""Owns how a Tool is run for whoever asks: who sees it, arguments and results checked, large results set aside."""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from holdfast.core import jsontext
from holdfast.core.errors import Forbidden, HoldfastError, NotFound
from holdfast.core.fields import invalid
from holdfast.core.principal import Principal
from holdfast.core.schema import input_schema, output_schema
from holdfast.core.tools.tool import AnyTool, ToolCall

Ending = Literal["ok", "refused", "invalid", "failed"]

MAX_RESULT_BYTES = 400_000
PREVIEW_CHARACTERS = 4_000


class ToolUnknown(NotFound):
    """No tool of that name, for anybody."""

    code = "unknown_tool"

    def __init__(self, name: str) -> None:
        super().__init__("tool", name)
        self.message = f"Unknown tool: {name[:100]}"
        self.args = (self.message,)


class ToolRefused(Forbidden):
    """The tool exists, but not for this credential."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True)
class Spilled:
    """Where the whole of a large result was put."""

    artifact_id: str
    uri: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: text to read, and the same as JSON; `spilled` where both had to be shortened."""

    text: str
    data: dict[str, Any]
    spilled: Spilled | None = None


Denied = Callable[[ToolCall, str, HoldfastError], Awaitable[None]]
Spill = Callable[[ToolCall, str, str], Awaitable[Spilled]]
Observe = Callable[[ToolCall, str, Ending, float], None]


async def _nobody_told(call: ToolCall, name: str, error: HoldfastError) -> None:
    """Denials go nowhere."""


def _unobserved(call: ToolCall, name: str, ending: Ending, seconds: float) -> None:
    """Nobody measures."""


class Gateway:
    """The tools of a server, shared by every surface that serves them."""

    def __init__(
        self,
        tools: Iterable[AnyTool],
        *,
        denied: Denied = _nobody_told,
        spill: Spill | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES,
        whole: frozenset[str] = frozenset(),
        observe: Observe = _unobserved,
    ) -> None:
        self._tools: dict[str, AnyTool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name}")
            self._tools[tool.name] = tool
        self._denied = denied
        self._spill = spill
        self._max_result_bytes = max_result_bytes
        self._whole = whole
        self._observe = observe
        self._visible: dict[tuple[object, ...], tuple[AnyTool, ...]] = {}
        self._inputs = {name: input_schema(tool.input) for name, tool in self._tools.items()}
        self._outputs = {name: output_schema(tool.output) for name, tool in self._tools.items()}

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """All of them, in the order given."""
        return tuple(self._tools.values())

    def visible(self, principal: Principal) -> tuple[AnyTool, ...]:
        """The tools that this principal may call."""
        key = seen_as(principal)
        found = self._visible.get(key)
        if found is None:
            found = self._visible[key] = tuple(
                tool for tool in self._tools.values() if tool.access.missing(principal) is None
            )
        return found

    def get(self, name: str) -> AnyTool | None:
        """A tool by name, whoever asks."""
        return self._tools.get(name)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """What a tool takes, as JSON Schema."""
        return self._inputs.get(name)

    def output_schema(self, name: str) -> dict[str, Any] | None:
        """What a tool gives, as JSON Schema."""
        return self._outputs.get(name)

    async def call(self, call: ToolCall, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool: ToolUnknown, ToolRefused, Invalid naming the field, or whatever the tool raises."""
        started = time.perf_counter()
        ending: Ending = "failed"
        known = name
        try:
            tool = self._tools.get(name)
            if tool is None:
                known, ending = "unknown", "refused"
                raise ToolUnknown(name)
            refusal = self._refusal(call.principal, tool)
            if refusal is not None:
                ending = "refused"
                await self._denied(call, name, refusal)
                raise refusal
            try:
                given = tool.input.model_validate(arguments)
            except ValidationError as error:
                ending = "invalid"
                raise invalid(error, f"The input of {name}") from None
            result = await tool.handler(call, given)
            if not isinstance(result, tool.output):
                raise TypeError(f"{name} answered {type(result).__name__}, not {tool.output.__name__}")
            outcome = await self._outcome(call, tool, result)
            ending = "ok"
            return outcome
        except Forbidden as error:
            if ending != "refused":
                ending = "refused"
                await self._denied(call, name, error)
            raise
        finally:
            self._observe(call, known, ending, time.perf_counter() - started)

    @staticmethod
    def _refusal(principal: Principal, tool: AnyTool) -> ToolRefused | None:
        missing = tool.access.missing(principal)
        return None if missing is None else ToolRefused(f"The tool {tool.name} is not for this credential. {missing}")

    async def _outcome(self, call: ToolCall, tool: AnyTool, result: Any) -> Outcome:
        data: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
        raw = jsontext.dumps(data)
        text = tool.text(result) if tool.text is not None else raw.decode()
        large = max(len(raw), len(text)) > self._max_result_bytes
        if not large or self._spill is None or call.workspace_id is None or tool.name in self._whole:
            return Outcome(text, data)
        spilled = await self._spill(call, tool.name, json.dumps(data, indent=2, ensure_ascii=False))
        return Outcome(text[:PREVIEW_CHARACTERS], shortened(data, self._max_result_bytes // 4), spilled)


def seen_as(principal: Principal) -> tuple[object, ...]:
    """What decides which tools a principal sees: the same for every credential of a kind."""
    confined = (principal.project_id is not None, principal.workspace_ids is not None)
    return (principal.is_person, principal.role, principal.tier, principal.scopes, *confined)


def shortened(data: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The same shape with long texts and lists cut, so that it fits and still follows its schema."""
    characters, items = 2_000, 50
    cut = _cut(data, characters, items)
    while len(jsontext.dumps(cut)) > max_bytes and characters > 16:
        characters, items = characters // 2, max(1, items // 2)
        cut = _cut(data, characters, items)
    return dict(cut)


def _cut(value: Any, characters: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, list):
        return [_cut(item, characters, items) for item in value[:items]]
    if isinstance(value, dict):
        return {key: _cut(item, characters, items) for key, item in value.items()}
    return value
