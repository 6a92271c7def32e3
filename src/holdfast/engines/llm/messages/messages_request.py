"""Owns a Chat Completions request as a Messages request, for a model behind Anthropic's wire."""

from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.llm.messages.words import PASSED, THINKING_BLOCKS, dicts, tool_use_id
from holdfast.engines.llm.model import Json

DEFAULT_MAX_TOKENS = 8_192
"""Messages needs a limit; Chat Completions does not."""
_NO_PLACE = "it cannot be said to a model behind Anthropic's API"
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_CHOOSE = "use auto, required, none, a function or allowed_tools"


def messages_body(body: Json) -> Json:
    """The same question in Anthropic's words; Invalid names what cannot be said in them."""
    if body.get("n") not in (None, 1):
        raise _wrong("n", "only one answer is given by a model behind Anthropic's API")
    for name in ("logprobs", "audio", "functions"):
        if body.get(name):
            raise _wrong(name, _NO_PLACE)
    made: Json = {key: body[key] for key in PASSED if body.get(key) is not None}
    made["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
    if isinstance(made.get("temperature"), (int, float)):
        made["temperature"] = min(1, made["temperature"])
    system, messages = _said(dicts(body.get("messages")))
    if system and not messages:
        # Whoever says everything as instructions still asks something; Anthropic wants a message.
        messages = [{"role": "user", "content": system.pop()["text"]}]
    if system:
        is_marked = any("cache_control" in block for block in system)
        made["system"] = system if is_marked else "\n\n".join(block["text"] for block in system)
    made["messages"] = messages
    stop = body.get("stop")
    if stop:
        made["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    user = body.get("user") or body.get("safety_identifier")
    if isinstance(user, str):
        made["metadata"] = {"user_id": user}
    made |= _tools(body) | _form(body)
    return _with_thought(made, body.get("reasoning_effort"))


def _said(messages: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    system: list[Json] = []
    made: list[Json] = []
    gathers = False
    for number, message in enumerate(messages):
        place, role = f"messages[{number}]", message.get("role")
        if role in ("system", "developer"):
            system += _instructions(message.get("content"), place)
            continue
        if role == "assistant":
            content = _assistant(message, place)
            # A turn without a word has no place there.
            if content:
                made.append({"role": "assistant", "content": content})
            gathers = False
        elif role == "tool":
            block = {
                "type": "tool_result",
                "tool_use_id": tool_use_id(message.get("tool_call_id")),
                "content": _plain(message.get("content"), place),
            }
            if gathers:
                made[-1]["content"].append(block)
            else:
                made.append({"role": "user", "content": [block]})
            gathers = True
        elif role == "user":
            blocks = _user(message.get("content"), place)
            # Results and what a person says to them are one message there.
            if gathers:
                said = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
                made[-1]["content"] += [block for block in said if block.get("text") != ""]
            else:
                made.append({"role": "user", "content": blocks})
            gathers = False
        else:
            raise _wrong(f"{place}.role", "use system, user, assistant or tool")
    return system, made


def _instructions(content: Any, place: str) -> list[Json]:
    """Instructions as one text, or as the parts that they have where a cache may end between them."""
    if not any(map(_cached, dicts(content))):
        return [{"type": "text", "text": _plain(content, place)}]
    said = [(_plain([part], place), _cached(part)) for part in dicts(content)]
    return [{"type": "text", "text": text, **cached} for text, cached in said if text.strip()]


def _cached(part: Json) -> Json:
    """Where a cache ends, by OpenAI's word for it or by Anthropic's own, which some clients write for its models."""
    mark = part.get("cache_control")
    if not isinstance(mark, dict):
        own = part.get("prompt_cache_breakpoint")
        if not isinstance(own, dict):
            return {}
        mark = {"type": "ephemeral", **({"ttl": "1h"} if own.get("ttl") else {})}
    return {"cache_control": mark}


def _assistant(message: Json, place: str) -> str | list[Json]:
    content = message.get("content") or message.get("refusal") or ""
    text = _plain(content, place, between="")
    thinking = dicts(message.get(THINKING_BLOCKS))
    calls = dicts(message.get("tool_calls"))
    if not text.strip():
        # Some models write line breaks before their calls, which Anthropic refuses as a text.
        text = ""
    if not thinking and not calls:
        return text
    blocks = [*thinking, *([{"type": "text", "text": text}] if text else [])]
    for call in calls:
        function = call.get("function")
        if not isinstance(function, dict):
            raise _wrong(f"{place}.tool_calls", "only calls of functions can be told")
        made = {"type": "tool_use", "id": tool_use_id(call.get("id")), "name": function.get("name")}
        blocks.append({**made, "input": _arguments(function.get("arguments"))})
    return blocks


def _arguments(text: Any) -> Json:
    """Arguments as an object; a model's own unreadable ones must not end the conversation."""
    try:
        value = orjson.loads(text) if isinstance(text, str) else text
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _user(content: Any, place: str) -> str | list[Json]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise _wrong(f"{place}.content", "write text or a list of parts")
    blocks = [{**_block(part, f"{place}.content[{number}]"), **_cached(part)} for number, part in enumerate(content)]
    # Anthropic refuses a text of blanks, which some clients write beside a picture.
    return [block for block in blocks if block.get("text", block["type"]).strip()] or blocks


def _block(part: Json, place: str) -> Json:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return {"type": "image", "source": _source(url, f"{place}.image_url.url")}
    file = part.get("file")
    if kind == "file" and isinstance(file, dict) and isinstance(file.get("file_data"), str):
        made: Json = {"type": "document", "source": _source(file["file_data"], f"{place}.file.file_data")}
        return {**made, "title": file["filename"]} if file.get("filename") else made
    raise _wrong(place, _NO_PLACE)


def _source(url: Any, place: str) -> Json:
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if head.startswith("data:") and head.endswith(";base64") and comma:
        # What a type says besides, such as a charset, has no place there.
        return {"type": "base64", "media_type": head[5:-7].partition(";")[0], "data": data}
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise _wrong(place, "write https://… or data:TYPE;base64,…")
    return {"type": "url", "url": url}


def _plain(content: Any, place: str, *, between: str = "\n") -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part.get("text", part.get("refusal")) for part in dicts(content)]
    if not all(isinstance(text, str) for text in texts):
        raise _wrong(f"{place}.content", "only text can be told here")
    return between.join(str(text) for text in texts)


def _tools(body: Json) -> Json:
    made = []
    for number, tool in enumerate(dicts(body.get("tools"))):
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, dict):
            raise _wrong(f"tools[{number}]", _NO_PLACE)
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        named = {"name": function.get("name"), "input_schema": schema}
        more = {key: function[key] for key in ("description", "strict") if function.get(key) is not None}
        made.append({**named, **more, **_cached(tool)})
    if not made:
        return {}
    wanted = body.get("tool_choice")
    choice: Json | None = None
    if isinstance(wanted, dict) and wanted.get("type") == "allowed_tools":
        wanted, made = _allowed(wanted.get("allowed_tools"), made)
    if isinstance(wanted, dict):
        function = wanted.get("function")
        if not isinstance(function, dict):
            raise _wrong("tool_choice", _CHOOSE)
        choice = {"type": "tool", "name": function.get("name")}
    elif wanted is not None:
        if not isinstance(wanted, str) or wanted not in _CHOICES:
            raise _wrong("tool_choice", _CHOOSE)
        choice = {"type": _CHOICES[wanted]}
    if body.get("parallel_tool_calls") is False and (choice is None or choice["type"] != "none"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {"tools": made, **({"tool_choice": choice} if choice else {})}


def _allowed(allowed: Any, tools: list[Json]) -> tuple[Any, list[Json]]:
    """Among which tools a model may choose, and how: Anthropic has no word for it but to offer no others."""
    named = dicts(allowed.get("tools")) if isinstance(allowed, dict) else []
    names = [each["function"].get("name") for each in named if isinstance(each.get("function"), dict)]
    kept = [tool for tool in tools if tool["name"] in names]
    if not kept:
        raise _wrong("tool_choice.allowed_tools", "name functions that are among the tools")
    return allowed.get("mode"), kept


def _form(body: Json) -> Json:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") in (None, "text"):
        return {}
    if wanted["type"] != "json_schema":
        raise _wrong("response_format", "use json_schema; a model behind Anthropic's API has no other form")
    named = wanted.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else None
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _with_thought(made: Json, effort: Any) -> Json:
    """The request with as much thought as was asked for, and without what thinking forbids."""
    if not isinstance(effort, str) or effort not in _EFFORTS:
        return made
    made = {**made, "output_config": {**made.get("output_config", {}), "effort": _EFFORTS[effort]}}
    if made.get("tool_choice", {}).get("type") in ("any", "tool"):
        return made
    kept = {key: value for key, value in made.items() if key not in ("temperature", "top_p")}
    return {**kept, "thinking": {"type": "adaptive"}}


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The request cannot be translated.", fields=[FieldError(field, problem)])
