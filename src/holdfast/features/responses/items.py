"""Owns the way from a Responses request to a Chat Completions one: items to messages, tools to functions."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.model import Json
from holdfast.features.responses.standing import allowed, settled

# What Chat Completions does not know, knows by another name, or is only for us.
_OWN = frozenset(
    {
        "access_programs",
        "background",
        "client_metadata",
        "context_management",
        "conversation",
        "image",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "moderation",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "truncation",
    }
)
_CUSTOM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_ROLES = ("user", "assistant", "system", "developer")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_ID = re.compile(r"[\w.:~-]{1,128}", re.ASCII)
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


@dataclass(frozen=True, slots=True)
class Called:
    """What a function of the chat is to the client."""

    name: str
    namespace: str | None = None
    custom: bool = False


@dataclass(frozen=True, slots=True)
class Translated:
    """A Chat Completions body, and what its functions are called by the client."""

    body: Json
    functions: dict[str, Called]


def input_items(given: Any, field: str = "input") -> list[Json]:
    """The items of `input`, each with an id."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise _wrong(field, "write a text or a list of items")
    return [_identified(item, f"{field}[{number}]") for number, item in enumerate(given)]


def translate(request: Json, items: list[Json], history: Sequence[Json] = ()) -> Translated:
    """The request as a chat, behind what was said before; Invalid names the item or tool that cannot be read."""
    request = settled(request, [*history, *items])
    body: Json = {name: value for name, value in request.items() if name not in _OWN and value is not None}
    body["messages"] = _messages(request.get("instructions"), items, history)
    tools, functions = _tools(request.get("tools"))
    if tools:
        wanted = request.get("tool_choice")
        body["tools"] = allowed(wanted, tools, {name: called.namespace for name, called in functions.items()})
        choice = _choice(wanted)
        # Where only ours are there, none of them can be named.
        if choice is not None and (functions or choice in ("none", "required")):
            body["tool_choice"] = choice
    else:
        body.pop("parallel_tool_calls", None)
    if request.get("max_output_tokens") is not None:
        body["max_completion_tokens"] = request["max_output_tokens"]
    effort = _object(request, "reasoning").get("effort")
    if effort is not None:
        body["reasoning_effort"] = effort
    text = _object(request, "text")
    if text.get("verbosity") is not None:
        body["verbosity"] = text["verbosity"]
    shape = _format(text.get("format"))
    if shape is not None:
        body["response_format"] = shape
    return Translated(body, functions)


def joined(name: str, namespace: str | None) -> str:
    """A function's name in the chat; dots are rewritten for upstreams that refuse them."""
    return f"{namespace}.{name}" if namespace else name


# Tools.


def _tools(given: Any) -> tuple[list[Json], dict[str, Called]]:
    if given is None:
        return [], {}
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise _wrong("tools", "write a list of objects")
    tools: list[Json] = []
    functions: dict[str, Called] = {}
    for number, tool in enumerate(given):
        kind = str(tool.get("type"))
        if kind.startswith("web_search") or kind == "file_search":
            tools.append(tool)
        for inner, called in _functions(tool, f"tools[{number}]"):
            name = joined(called.name, called.namespace)
            if name in functions:
                raise _wrong(f"tools[{number}]", f"{name} is there twice")
            functions[name] = called
            tools.append({"type": "function", "function": _function(inner, name, called.custom)})
    return tools, functions


def _functions(tool: Json, field: str) -> Iterator[tuple[Json, Called]]:
    """The functions of an entry. Kinds that run at OpenAI only are left out: no model here could call them."""
    if tool.get("type") in ("function", "custom"):
        yield tool, Called(_name(tool, field), None, tool["type"] == "custom")
    elif tool.get("type") == "namespace":
        inside = tool.get("tools")
        for number, inner in enumerate(inside if isinstance(inside, list) else ()):
            if isinstance(inner, dict) and inner.get("type") in ("function", "custom"):
                name = _name(inner, f"{field}.tools[{number}]")
                yield inner, Called(name, _name(tool, field), inner["type"] == "custom")


def _function(tool: Json, name: str, custom: bool) -> Json:
    made: Json = {"name": name}
    if tool.get("description"):
        made["description"] = tool["description"]
    made["parameters"] = _CUSTOM if custom else tool.get("parameters") or {"type": "object", "properties": {}}
    if tool.get("strict") and not custom:
        made["strict"] = True
    return made


def _name(tool: Json, field: str) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise _wrong(f"{field}.name", "name it")
    return name


def _choice(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    if given.get("type") == "allowed_tools":
        return given.get("mode") or "auto"
    if given.get("type") in ("function", "custom"):
        return {"type": "function", "function": {"name": joined(str(given.get("name")), given.get("namespace"))}}
    return "auto"


def _format(given: Any) -> Json | None:
    if not isinstance(given, dict) or given.get("type") in (None, "text"):
        return None
    if given["type"] == "json_schema":
        return {"type": "json_schema", "json_schema": {key: given[key] for key in given if key != "type"}}
    return given


# Items.


def _messages(instructions: Any, items: list[Json], history: Sequence[Json]) -> list[Json]:
    made = _Messages()
    if isinstance(instructions, str) and instructions:
        made.say({"role": "system", "content": instructions})
    for name, given in (("instructions", instructions), ("history", history), ("input", items)):
        for number, item in enumerate(given if isinstance(given, (list, tuple)) else ()):
            if isinstance(item, dict):
                made.add(item, f"{name}[{number}]")
    made.flush()
    if not made.messages:
        raise _wrong("input", "write a text or at least one item")
    return made.messages


class _Messages:
    """Messages as they grow: calls in a row belong to one message, pictures that tools gave come behind the texts."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._pictures: list[Json] = []

    def say(self, message: Json) -> None:
        self.flush()
        self.messages.append(message)

    def flush(self) -> None:
        if self._pictures:
            self.messages.append({"role": "user", "content": self._pictures})
            self._pictures = []

    def add(self, item: Json, field: str) -> None:
        kind = item.get("type") or "message"
        if kind == "message":
            self._say(_message(item, field))
        elif kind in _CALLS:
            self._call(item, kind, field)
        elif kind in _OUTPUTS:
            self._output(item, field)

    def _say(self, message: Json) -> None:
        """Words behind calls of the same answer belong to the message with the calls: their results come next."""
        last = self.messages[-1] if self.messages and not self._pictures else None
        if message["role"] == "assistant" and last is not None and last["role"] == "assistant" and "tool_calls" in last:
            last["content"] = "\n".join(text for text in (last["content"], message["content"]) if text)
        else:
            self.say(message)

    def _call(self, item: Json, kind: str, field: str) -> None:
        given = item.get(_CALLS[kind])
        if kind == "custom_tool_call":
            given = dumps({"input": given or ""}).decode()
        name = joined(_name(item, field), item.get("namespace"))
        call = {
            "id": _call_id(item, field),
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else dumps(given or {}).decode()},
        }
        last = self.messages[-1] if self.messages and not self._pictures else None
        if last is not None and last["role"] == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            self.say({"role": "assistant", "content": None, "tool_calls": [call]})

    def _output(self, item: Json, field: str) -> None:
        given = item.get("output")
        text = given if isinstance(given, str) else ""
        if isinstance(given, list):
            parts = [_part(part, f"{field}.output[{number}]") for number, part in enumerate(given)]
            text = "\n".join(part["text"] for part in parts if part["type"] == "text")
            self._pictures += [part for part in parts if part["type"] != "text"]
        elif given is not None and not isinstance(given, str):
            text = dumps(given).decode()
        self.messages.append({"role": "tool", "tool_call_id": _call_id(item, field), "content": text})


def _message(item: Json, field: str) -> Json:
    role = item.get("role")
    if role not in _ROLES:
        raise _wrong(f"{field}.role", f"use one of {', '.join(_ROLES)}")
    content = item.get("content")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if not isinstance(content, list):
        raise _wrong(f"{field}.content", "write a text or a list of parts")
    parts = [_part(part, f"{field}.content[{number}]") for number, part in enumerate(content)]
    # Plain text wherever it is plain: assistants and simple upstreams take nothing else.
    if role != "user" or (len(parts) == 1 and parts[0]["type"] == "text"):
        return {"role": role, "content": "\n".join(part["text"] for part in parts if part["type"] == "text")}
    return {"role": role, "content": parts}


def _part(part: Any, field: str) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text", "summary_text"):
        return {"type": "text", "text": str(part.get("text") or "")}
    if kind == "refusal":
        return {"type": "text", "text": str(part.get("refusal") or "")}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        return {"type": "file", "file": {key: part[key] for key in ("filename", "file_data") if part.get(key)}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    raise _wrong(field, "use input_text, input_image with image_url, or input_file with file_data")


def _call_id(item: Json, field: str) -> str:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        raise _wrong(f"{field}.call_id", "write the id of the call")
    return call_id


def _identified(item: Json, field: str) -> Json:
    """The item as it is kept: with its type, an id, and words as parts."""
    kind = item.get("type") or "message"
    prefix = {"message": "msg", "function_call": "fc", "reasoning": "rs"}.get(kind, "item")
    given = item.get("id")
    id = given if isinstance(given, str) and _ID.fullmatch(given) else new_id(prefix)
    if kind == "item_reference" and given != id:
        raise _wrong(f"{field}.id", "write the id of an item")
    kept = {**item, "type": kind, "id": id}
    if kind == "message" and isinstance(item.get("content"), str):
        answered = (
            {"type": "output_text", "annotations": []} if item.get("role") == "assistant" else {"type": "input_text"}
        )
        kept |= {"content": [{**answered, "text": item["content"]}], "status": item.get("status") or "completed"}
    return kept


def _object(request: Json, name: str) -> Json:
    value = request.get(name)
    if value is not None and not isinstance(value, dict):
        raise _wrong(name, "write an object")
    return value or {}


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The response can't be made.", fields=[FieldError(field, problem)])
