"""Owns how a tool is run, whoever calls it: see, validate, decide, run, check, shorten, audit, count."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from holdfast.core.errors import FieldError, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.core.text import jsontext
from holdfast.core.text.fields import invalid
from holdfast.core.tools.alias import AliasTarget, AnyAlias
from holdfast.core.tools.deadline import within
from holdfast.core.tools.enrolled import EnrolledTools, ServedResult, served_outcome
from holdfast.core.tools.finding import find_tool
from holdfast.core.tools.outcome import Outcome, Spilled
from holdfast.core.tools.shortening import shortened
from holdfast.core.tools.tool import WORKSPACE, AnyTool, Consumer, ToolCall

Ending = Literal["ok", "refused", "invalid", "failed"]

MAX_RESULT_BYTES = 400_000
PREVIEW_CHARACTERS = 4_000


class ToolUnknown(NotFound):
    """No tool of that name, for anybody; `why` says what to do where something is known of it."""

    code = "unknown_tool"

    def __init__(self, name: str, why: str | None = None) -> None:
        super().__init__("tool", name)
        self.message = f"Unknown tool: {name[:100]}" + (f". {why}" if why is not None else "")
        self.args = (self.message,)


class ToolRefused(Forbidden):
    """The tool exists, but not for this credential."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that models can call here."""

    tools: Sequence[AnyTool]
    aliases: Sequence[AnyAlias] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """A call that is about to run: who, through which consumer, which tool, with which arguments."""

    call: ToolCall
    tool: AnyTool
    arguments: Mapping[str, Any]


Decide = Callable[[Intent], Awaitable[None]]
"""Whether a call may run: raises the error that refuses it."""
Denied = Callable[[ToolCall, str, HoldfastError], Awaitable[None]]
Spill = Callable[[ToolCall, str, str], Awaitable[Spilled]]
Observe = Callable[[ToolCall, str, Ending, float], None]


async def allow(intent: Intent) -> None:
    """Every call that its tool's access lets through."""


async def _nobody_told(call: ToolCall, name: str, error: HoldfastError) -> None:
    """Denials go nowhere."""


def _unobserved(call: ToolCall, name: str, ending: Ending, seconds: float) -> None:
    """Nobody measures."""


@dataclass(slots=True)
class _Trace:
    """How far a call got."""

    call: ToolCall
    known: str = "unknown"
    ending: Ending = "failed"


class Gateway:
    """The one way to run a tool. MCP, the loop of chats and `ask` list their tools here and call them here."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        *,
        denied: Denied = _nobody_told,
        spill: Spill | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES,
        observe: Observe = _unobserved,
        enrolled: Callable[[], EnrolledTools] | None = None,
    ) -> None:
        """`catalog` and `enrolled` are asked at the first use: tools need services, and some services call tools."""
        self._make_catalog = catalog
        self._make_enrolled = enrolled
        self.decide: Decide = allow
        """Asked before every call; policies and approvals take its place."""
        self._denied = denied
        self._spill = spill
        self._max_result_bytes = max_result_bytes
        self._observe = observe
        self._visible: dict[tuple[object, ...], tuple[AnyTool, ...]] = {}

    # Listing.

    def listed(self, consumer: Consumer) -> tuple[AnyTool, ...]:
        """The tools that a consumer lists under their own names, in the order given."""
        return tuple(tool for tool in self._tools.values() if tool.consumer == consumer)

    def visible(self, principal: Principal, consumer: Consumer) -> tuple[AnyTool, ...]:
        """Of those, the ones that this principal may call."""
        key = (consumer, *seen_as(principal))
        found = self._visible.get(key)
        if found is None:
            found = self._visible[key] = tuple(
                tool for tool in self.listed(consumer) if tool.access.missing(principal) is None
            )
        return found

    async def enrolled(self, principal: Principal, workspace_id: str | None) -> Sequence[AnyTool]:
        """The tools of other servers that this principal may call in a workspace."""
        if self._enrolled is None or workspace_id is None:
            return ()
        return await self._enrolled.listed(principal, workspace_id)

    def aliases(self, consumer: Consumer) -> tuple[AnyAlias, ...]:
        """The aliases that a consumer lists, in the order given."""
        return tuple(alias for (of, _), alias in self._aliases.items() if of == consumer)

    def visible_aliases(self, principal: Principal, consumer: Consumer) -> dict[str, AnyAlias]:
        """Of those, the ones that this principal may call."""
        return {
            alias.name: alias
            for alias in self.aliases(consumer)
            if _missing(principal, [self._tools[name] for name in alias.tools]) is None
        }

    def get(self, name: str) -> AnyTool | None:
        """A tool by its own name, whoever asks."""
        return self._tools.get(name)

    # Calling.

    async def call(self, call: ToolCall, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool: ToolUnknown, ToolRefused, Invalid naming the field, or whatever the tool raises."""
        started = time.perf_counter()
        trace = _Trace(call)
        try:
            outcome = await self._run(call, name, arguments, trace)
            trace.ending = "ok"
            return outcome
        except ToolUnknown:
            trace.ending = "refused"
            raise
        except Forbidden as error:
            if trace.ending != "refused":
                trace.ending = "refused"
                await self._denied(trace.call, name, error)
            raise
        finally:
            self._observe(trace.call, trace.known, trace.ending, time.perf_counter() - started)

    async def admit(self, call: ToolCall, name: str, arguments: Mapping[str, Any]) -> AnyTool:
        """The enrolled tool that another tool is told to run, seen and decided about like a call of its own."""
        found = await self._enrolled_tool(call, name)
        if found is None:
            raise ToolUnknown(name)
        missing = found.access.missing(call.principal)
        if missing is not None:
            raise _refusal(name, missing)
        await self._decided(Intent(call, found, arguments), name, _Trace(call, name))
        return found

    async def turn_away(self, call: ToolCall, name: str) -> None:
        """A model called what its turn does not offer: nothing runs, and it is told and counted like any refusal."""
        tools = self._of(call.consumer, name)
        missing = _missing(call.principal, tools)
        if missing is not None:
            await self._denied(call, name, _refusal(name, missing))
        self._observe(call, name if tools else "unknown", "refused", 0.0)

    async def _run(self, call: ToolCall, name: str, arguments: Mapping[str, Any], trace: _Trace) -> Outcome:
        tools = self._of(call.consumer, name)
        if not tools:
            enrolled = await self._enrolled_tool(call, name)
            if enrolled is None:
                raise ToolUnknown(name)
            tools = [enrolled]
        trace.known = name
        missing = _missing(call.principal, tools)
        if missing is not None:
            raise _refusal(name, missing)
        alias = self._aliases.get((call.consumer, name))
        said: BaseModel | None = None
        try:
            if alias is None:
                call, arguments = await _placed(call, tools[0], arguments)
                trace.call = call
            target, tool = AliasTarget(name, arguments), tools[0]
            if alias is not None:
                said = alias.input.model_validate(_without_nulls(arguments))
                target = alias.target(said)
                tool = self._tools[target.tool]
            given = tool.input.model_validate(target.arguments)
        except ValidationError as error:
            trace.ending = "invalid"
            raise invalid(error, f"The input of {name}") from None
        except (Invalid, NotFound):
            trace.ending = "invalid"
            raise
        await self._decided(Intent(call, tool, target.arguments), name, trace)

        async def work() -> Outcome:
            result = await tool.handler(call, given)
            if not isinstance(result, tool.output):
                raise TypeError(f"{name} answered {type(result).__name__}, not {tool.output.__name__}")
            if alias is None:
                return await self._outcome(call, tool, result)
            return await self._shown(call, tool, result, alias.show(said, result))

        around = None if alias is None else alias.around
        return await within(work() if around is None else around(call, name, target, work), name, call.seconds)

    async def _decided(self, intent: Intent, name: str, trace: _Trace) -> None:
        try:
            await self.decide(intent)
        except HoldfastError as error:
            trace.ending = "refused"
            await self._denied(intent.call, name, error)
            raise

    async def _outcome(self, call: ToolCall, tool: AnyTool, result: BaseModel) -> Outcome:
        if isinstance(result, ServedResult):
            return served_outcome(result)
        data: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
        raw = jsontext.dumps(data)
        text = tool.text(result) if tool.text is not None else raw.decode()
        spilled = await self._set_aside(call, tool, data, max(len(raw), len(text)))
        if spilled is None:
            return Outcome(text, data)
        return Outcome(text[:PREVIEW_CHARACTERS], shortened(data, self._max_result_bytes // 4), spilled)

    async def _shown(self, call: ToolCall, tool: AnyTool, result: BaseModel, outcome: Outcome) -> Outcome:
        """What an alias shows; its models read text only, so a large one ends by saying where the whole is."""
        size = len(outcome.text)
        if size <= self._max_result_bytes:
            return outcome
        spilled = await self._set_aside(call, tool, result.model_dump(mode="json", by_alias=True), size)
        return outcome if spilled is None else replace(outcome, text=preview(outcome.text, spilled), spilled=spilled)

    async def _set_aside(self, call: ToolCall, tool: AnyTool, data: dict[str, Any], size: int) -> Spilled | None:
        if size <= self._max_result_bytes or self._spill is None or call.workspace_id is None or tool.whole:
            return None
        return await self._spill(call, tool.name, json.dumps(data, indent=2, ensure_ascii=False))

    # What there is.

    async def _enrolled_tool(self, call: ToolCall, name: str) -> AnyTool | None:
        """A tool of another server; chats and MCP call them, whoever else has tools of its own alone."""
        if self._enrolled is None or call.workspace_id is None or call.consumer not in ("mcp", "chat"):
            return None
        return await self._enrolled.named(call.principal, call.workspace_id, name)

    @cached_property
    def _enrolled(self) -> EnrolledTools | None:
        return None if self._make_enrolled is None else self._make_enrolled()

    def _of(self, consumer: Consumer, name: str) -> list[AnyTool]:
        """The tools behind a name that a consumer lists; none for a name that it does not."""
        alias = self._aliases.get((consumer, name))
        if alias is not None:
            return [self._tools[each] for each in alias.tools]
        tool = self._tools.get(name)
        return [tool] if tool is not None and tool.consumer == consumer else []

    @cached_property
    def _catalog(self) -> Catalog:
        return self._make_catalog()

    @cached_property
    def _tools(self) -> dict[str, AnyTool]:
        tools: dict[str, AnyTool] = {}
        finding = find_tool(self._findable)
        for tool in (*self._catalog.tools, finding):
            if tool.name in tools:
                raise ValueError(f"two tools are named {tool.name}")
            tools[tool.name] = tool
        return tools

    async def _findable(self, call: ToolCall) -> Sequence[AnyTool]:
        return [*self.visible(call.principal, "mcp"), *await self.enrolled(call.principal, call.workspace_id)]

    @cached_property
    def _aliases(self) -> dict[tuple[Consumer, str], AnyAlias]:
        aliases: dict[tuple[Consumer, str], AnyAlias] = {}
        for alias in self._catalog.aliases:
            if (alias.consumer, alias.name) in aliases:
                raise ValueError(f"two tools of {alias.consumer} are named {alias.name}")
            unknown = [name for name in alias.tools if name not in self._tools]
            if unknown or not alias.tools:
                raise ValueError(f"{alias.name} stands for what does not exist: {unknown}")
            aliases[alias.consumer, alias.name] = alias
        return aliases


async def _placed(call: ToolCall, tool: AnyTool, arguments: Mapping[str, Any]) -> tuple[ToolCall, Mapping[str, Any]]:
    """The call in the workspace that its arguments name, or that is found for it, and the tool's own arguments."""
    if not tool.in_workspace or call.place is None:
        return call, arguments
    named = arguments.get(WORKSPACE)
    if named is not None and not isinstance(named, str):
        raise Invalid("The workspace is not right.", fields=[FieldError(WORKSPACE, "give its id or slug, as text")])
    own = {name: value for name, value in arguments.items() if name != WORKSPACE}
    return replace(call, workspace_id=await call.place(named or None)), own


def preview(text: str, spilled: Spilled) -> str:
    """The beginning of a text that was set aside, and where the whole is."""
    return f"{text[:PREVIEW_CHARACTERS]}\n\n[Shortened. The whole result, {spilled.bytes} bytes, is at {spilled.uri}]"


def seen_as(principal: Principal) -> tuple[object, ...]:
    """What decides which tools a principal sees: the same for every credential of a kind."""
    confined = (principal.project_id is not None, principal.workspace_ids is not None)
    return (principal.is_person, principal.role, principal.tier, principal.scopes, *confined)


def _missing(principal: Principal, tools: Sequence[AnyTool]) -> str | None:
    return next((lack for tool in tools if (lack := tool.access.missing(principal)) is not None), None)


def _refusal(name: str, missing: str) -> ToolRefused:
    return ToolRefused(f"The tool {name} is not for this credential. {missing}")


def _without_nulls(arguments: Mapping[str, Any]) -> dict[str, Any]:
    # A null stands for an argument that was left out: strict schemas make models write them all.
    return {key: value for key, value in arguments.items() if value is not None}
