"""Owns tool names for strict upstreams, which refuse dots: rewritten on the way out, restored on the way back."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from holdfast.engines.llm.model import Json

_STRICT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WRONG = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


def needs_rewriting(body: Json) -> bool:
    """Whether a request names a tool that a strict upstream would refuse."""
    return any(not _STRICT.fullmatch(name) for name in _tool_names(body))


class ToolNames:
    """The names of one request: `outward` for the upstream, `inward` for the client."""

    def __init__(self, names: Iterable[str]) -> None:
        self._outward: dict[str, str] = {}
        wanted = list(dict.fromkeys(names))
        taken = {name for name in wanted if _STRICT.fullmatch(name)}
        for name in wanted:
            if name in taken:
                continue
            plain = _WRONG.sub("_", name) or "_"
            if len(plain) > _LONGEST or plain in taken:
                # Two names may look alike without their dots; a digest of the real one tells them apart.
                plain = f"{plain[: _LONGEST - 9]}_{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
            taken.add(plain)
            self._outward[name] = plain
        self._inward = {plain: name for name, plain in self._outward.items()}

    def __bool__(self) -> bool:
        return bool(self._outward)

    def outward(self, name: Any) -> Any:
        return self._outward.get(name, name) if isinstance(name, str) else name

    def inward(self, name: Any) -> Any:
        return self._inward.get(name, name) if isinstance(name, str) else name


def names_of(body: Json) -> ToolNames:
    """The names that a request needs: of its tools, and of the calls in its history."""
    return ToolNames(_tool_names(body))


def rewrite(body: Json, names: ToolNames) -> Json:
    """A copy of the request with the upstream's names; the client's body stays as it was."""
    if not names:
        return body
    changed = dict(body)
    if isinstance(body.get("tools"), list):
        changed["tools"] = [_renamed(tool, names) for tool in body["tools"]]
    if isinstance(body.get("tool_choice"), dict):
        changed["tool_choice"] = _renamed(body["tool_choice"], names)
    if isinstance(body.get("messages"), list):
        changed["messages"] = [_message(message, names) for message in body["messages"]]
    return changed


def restore(chunk: Json, names: ToolNames) -> Json:
    """A chunk with the client's names, changed in place: it was just parsed and belongs to nobody else."""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        for part in ("delta", "message"):
            said = choice.get(part) if isinstance(choice, dict) else None
            calls = said.get("tool_calls") if isinstance(said, dict) else None
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict) and "name" in function:
                    function["name"] = names.inward(function["name"])
    return chunk


def _renamed(tool: Any, names: ToolNames) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or "name" not in function:
        return tool
    return {**tool, "function": {**function, "name": names.outward(function["name"])}}


def _message(message: Any, names: ToolNames) -> Any:
    if not isinstance(message, dict):
        return message
    if isinstance(message.get("tool_calls"), list):
        return {**message, "tool_calls": [_renamed(call, names) for call in message["tool_calls"]]}
    if message.get("role") == "tool" and "name" in message:
        return {**message, "name": names.outward(message["name"])}
    return message


def _tool_names(body: Json) -> Iterable[str]:
    found: list[Any] = [tool.get("function") for tool in _dicts(body.get("tools"))]
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and "tool_calls" in message:
            found.extend(call.get("function") for call in _dicts(message["tool_calls"]))
    for function in found:
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and name:
            yield name


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
