"""Owns a Messages request as a Chat Completions request, for whatever model is not Anthropic's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.messages.compacted import since_summary
from holdfast.engines.llm.messages.tool_changes import TOOL_CHANGES, offered
from holdfast.engines.llm.messages.words import PASSED, THINKING_BLOCKS, dicts
from holdfast.engines.llm.model import Json

# Kept apart by the model's own makers: what they are asked with, only their models know.
_UNKNOWN_TOOL = "it runs only with a model of Anthropic's; use a tool with an input_schema"
_NO_PLACE = "it cannot be said to this endpoint's model"
_LOW_BUDGET, _MEDIUM_BUDGET = 4_096, 16_384
_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_LONGEST_USER = 64
# Results of tools that ran on a server: the answer beside them has said what they gave.
_RAN_ELSEWHERE = ("server_tool_use", "mcp_tool_use", "mcp_tool_result")
# Marks that Anthropic's servers read, and that no model is told of.
_MARKS = ("compaction", "fallback", "mcp_tool_listing", *TOOL_CHANGES)
# Whoever asks for a compaction waits for a summary alone, and no other model knows to give just that.
_REFUSED = ("mcp_servers", "container", "compaction")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class ThreadUnsupported(Invalid):
    """No conversation is held here between turns; clients of Anthropic's then send the whole of it each time."""

    code = "thread_unsupported_request"

    def __init__(self) -> None:
        problem = "leave it out and send the whole conversation; this endpoint's model holds none between turns"
        super().__init__(f"thread: {problem}.", fields=[FieldError("thread", problem)])


class ThreadNotFound(HoldfastError):
    """A conversation that another upstream holds; clients begin a new one with all that was said."""

    code = "thread_not_found"
    status = 404

    def __init__(self) -> None:
        super().__init__("thread: the model that answers now does not hold it; send the whole conversation.")


def chat_body(body: Json) -> Json:
    """The same question in OpenAI's words; Invalid names what cannot be said in them."""
    thread = body.get("thread")
    if thread is not None:
        is_begun = isinstance(thread, dict) and thread.get("type") == "continue"
        raise ThreadNotFound if is_begun else ThreadUnsupported
    for name in _REFUSED:
        if body.get(name):
            raise wrong(name, _NO_PLACE)
    if body.get("max_tokens") == 0:
        raise wrong("max_tokens", "write at least 1; this endpoint's model has no cache to fill without an answer")
    made: Json = {key: body[key] for key in PASSED if body.get(key) is not None}
    made["messages"] = [*_system(body.get("system")), *_messages(body.get("messages"))]
    if body.get("stop_sequences"):
        made["stop"] = body["stop_sequences"]
    user = (body.get("metadata") or {}).get("user_id") if isinstance(body.get("metadata"), dict) else None
    if isinstance(user, str) and 0 < len(user) <= _LONGEST_USER:
        made["user"] = user
    made |= _tools(body)
    made |= _reasoning(body)
    made |= _form(body)
    if body.get("stream"):
        made |= {"stream": True, "stream_options": {"include_usage": True}}
    return made


def wrong(field: str, problem: str) -> Invalid:
    """What a client did that cannot be carried out."""
    return Invalid(f"{field}: {problem}.", fields=[FieldError(field, problem)])


def _system(system: Any) -> list[Json]:
    if system is None or system == "" or system == []:
        return []
    return [{"role": "system", "content": _plain(system, "system")}]


def _messages(messages: Any) -> Iterator[Json]:
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", "write at least one message")
    summary, since = since_summary(messages)
    if summary is not None:
        yield {"role": "user", "content": f"What was said before, in short:\n\n{summary}"}
    for number, message in since:
        place = f"messages.{number}"
        if not isinstance(message, dict):
            raise wrong(place, "write an object with role and content")
        role, content = message.get("role"), message.get("content")
        if role == "system" and _is_silent(message, since):
            continue
        if not isinstance(content, str) and not _is_blocks(content):
            raise wrong(f"{place}.content", "write text or a list of blocks")
        if role == "assistant":
            if not _is_marks(content):
                yield _assistant(content, f"{place}.content")
        elif role == "user":
            yield from _user(content, f"{place}.content")
        elif role == "system":
            text = _plain(content, f"{place}.content")
            if text or not _is_marks(content):
                yield {"role": "system", "content": text}
        else:
            raise wrong(f"{place}.role", "use user, assistant or system")


def _is_blocks(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(block, dict) for block in content)


def _is_marks(content: Any) -> bool:
    """Whether nothing of a message is left without its marks."""
    return content != [] and isinstance(content, list) and all(block.get("type") in _MARKS for block in content)


def _is_silent(message: Json, messages: Sequence[tuple[int, Any]]) -> bool:
    """Whether instructions hold no longer, as a user has spoken since, or only say how much thought is wanted."""
    if message.get("content") is None and isinstance(message.get("output_config"), dict):
        return True
    if message.get("clear_at") != "next_user_message":
        return False
    said = [each for _, each in messages if isinstance(each, dict)]
    behind = said[next(place for place, each in enumerate(said) if each is message) + 1 :]
    return any(each.get("role") == "user" for each in behind)


def _assistant(content: Any, place: str) -> Json:
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    texts: list[str] = []
    calls: list[Json] = []
    thinking: list[Json] = []
    for number, block in enumerate(content):
        kind = block.get("type")
        if kind == "text":
            texts.append(_text(block, f"{place}.{number}"))
        elif kind == "tool_use":
            function = {"name": block.get("name"), "arguments": dumps(block.get("input") or {}).decode()}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind in ("thinking", "redacted_thinking"):
            thinking.append(block)
        elif not _is_over(kind):
            raise wrong(f"{place}.{number}.type", _NO_PLACE)
    message: Json = {"role": "assistant", "content": "".join(texts) or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    if thinking:
        message[THINKING_BLOCKS] = thinking
    return message


def _is_over(kind: Any) -> bool:
    """Whether a block tells of a call that a server ran and answered from, or is only a mark."""
    return kind in _RAN_ELSEWHERE or kind in _MARKS or (isinstance(kind, str) and kind.endswith("_tool_result"))


def _user(content: Any, place: str) -> Iterator[Json]:
    if isinstance(content, str):
        yield {"role": "user", "content": content}
        return
    parts: list[Json] = []
    for number, block in enumerate(content):
        here = f"{place}.{number}"
        if block.get("type") == "tool_result":
            text, seen = _result(block, here)
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}
            parts += seen
        elif block.get("type") not in TOOL_CHANGES:
            parts += _parts(block, here)
    if parts:
        is_plain = len(parts) == 1 and parts[0]["type"] == "text"
        yield {"role": "user", "content": parts[0]["text"] if is_plain else parts}


def _result(block: Json, place: str) -> tuple[str, list[Json]]:
    """What a tool gave as text, and what has to stand beside it: tool messages hold no images."""
    content = block.get("content")
    found = [{"type": "text", "text": content}] if isinstance(content, str) else []
    for number, part in enumerate(_inside(content, f"{place}.content")):
        found += _parts(part, f"{place}.content.{number}")
    text = "\n".join(part["text"] for part in found if part["type"] == "text")
    if block.get("is_error"):
        text = f"Error: {text}"
    seen = [part for part in found if part["type"] != "text"]
    if seen:
        seen = [{"type": "text", "text": f"What the call {block.get('tool_use_id')} gave:"}, *seen]
    return text, seen


def _inside(content: Any, place: str) -> list[Json]:
    """The blocks in a block; none where it has text or nothing."""
    if content is None or isinstance(content, str):
        return []
    if not _is_blocks(content):
        raise wrong(place, "write text or a list of blocks")
    return list(content)


def _parts(block: Json, place: str) -> list[Json]:
    """A block of a user's message or of a result, as parts."""
    kind = block.get("type")
    if kind == "text":
        return [{"type": "text", "text": _text(block, place)}]
    if kind == "image":
        return [{"type": "image_url", "image_url": {"url": _image(block.get("source"), f"{place}.source")}}]
    if kind == "document":
        return _document(block, f"{place}.source")
    if kind == "search_result":
        lines = [str(block.get("title") or ""), str(block.get("source") or "")]
        lines += [_text(part, f"{place}.content") for part in _inside(block.get("content"), f"{place}.content")]
        return [{"type": "text", "text": "\n".join(line for line in lines if line)}]
    if kind == "tool_reference":
        return [{"type": "text", "text": f"The tool {block.get('tool_name')} can be called now."}]
    raise wrong(f"{place}.type", _NO_PLACE)


def _text(block: Json, place: str) -> str:
    text = block.get("text")
    if not isinstance(text, str):
        raise wrong(f"{place}.text", "write text")
    return text


def _image(source: Any, place: str) -> str:
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "url":
        return str(source.get("url"))
    if kind == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    raise wrong(f"{place}.type", "use base64 or url")


def _document(block: Json, place: str) -> list[Json]:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    about = [text for key in ("title", "context") if isinstance(text := block.get(key), str) and text]
    if source.get("type") == "base64":
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        title = block.get("title")
        file = {"filename": title if isinstance(title, str) and title else "document.pdf", "file_data": data}
        return [{"type": "file", "file": file}]
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return [{"type": "text", "text": "\n\n".join([*about, source["data"]])}]
    if source.get("type") == "content":
        content = source.get("content")
        given = [{"type": "text", "text": content}] if isinstance(content, str) else []
        given = given or _inside(content, f"{place}.content")
        heading = [{"type": "text", "text": "\n\n".join(about)}] if about else []
        return heading + [part for each in given for part in _parts(each, f"{place}.content")]
    raise wrong(f"{place}.type", "send the document itself, as base64 or text")


def _plain(content: Any, place: str) -> str:
    if isinstance(content, str):
        return content
    if not _is_blocks(content):
        raise wrong(place, "write text or a list of text blocks")
    texts = [
        _text(block, f"{place}.{number}")
        for number, block in enumerate(content)
        if block.get("type") not in TOOL_CHANGES
    ]
    return "\n\n".join(texts)


def _tools(body: Json) -> Json:
    tools = body.get("tools")
    if tools is not None and not _is_blocks(tools):
        raise wrong("tools", "write a list of objects")
    made = []
    _, since = since_summary(body.get("messages") or ())
    for place, tool in offered(tools or (), since):
        kind = tool.get("type") or "custom"
        # Every tool is declared here at once, so there is nothing to search for.
        if str(kind).startswith("tool_search_tool"):
            continue
        if kind != "custom":
            raise wrong(f"{place}.type", _UNKNOWN_TOOL)
        function: Json = {"name": tool.get("name"), "parameters": _schema(tool.get("input_schema"))}
        for key in ("description", "strict"):
            if tool.get(key) is not None:
                function[key] = tool[key]
        made.append({"type": "function", "function": function})
    return {"tools": made, **choice_of(body.get("tool_choice"))} if made else {}


def _schema(schema: Any) -> Json:
    return {"type": "object", "properties": {}, **schema} if isinstance(schema, Mapping) else {"type": "object"}


def choice_of(choice: Any) -> Json:
    """Which tools are to be called, in OpenAI's words."""
    if choice is None:
        return {}
    kind = choice.get("type") if isinstance(choice, dict) else None
    made: Json = {}
    if kind == "tool":
        made["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif isinstance(kind, str) and kind in _CHOICES:
        made["tool_choice"] = _CHOICES[kind]
    else:
        raise wrong("tool_choice.type", "use auto, any, tool or none")
    if choice.get("disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False
    return made


def _reasoning(body: Json) -> Json:
    """How much thought is asked for, by the word for it or by its budget."""
    thinking = body.get("thinking")
    effort = _effort_of_turn(body["messages"]) or _effort(body)
    if isinstance(effort, str) and effort in _EFFORTS:
        return {"reasoning_effort": _EFFORTS[effort]}
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and thinking and thinking.get("type") == "enabled":
        word = "low" if budget <= _LOW_BUDGET else "medium" if budget <= _MEDIUM_BUDGET else "high"
        return {"reasoning_effort": word}
    return {}


def _effort(said: Json) -> Any:
    output = said.get("output_config")
    return output.get("effort") if isinstance(output, dict) else None


def _effort_of_turn(messages: Sequence[Any]) -> Any:
    """What instructions say behind the last question; they hold for its turn alone."""
    for message in reversed(messages):
        if not isinstance(message, dict):
            continue
        if message.get("role") == "system" and _effort(message):
            return _effort(message)
        content = message.get("content")
        is_result = isinstance(content, list) and any(block.get("type") == "tool_result" for block in dicts(content))
        if message.get("role") == "user" and not is_result:
            return None
    return None


def _form(body: Json) -> Json:
    output = body.get("output_config")
    wanted = (output.get("format") if isinstance(output, dict) else None) or body.get("output_format")
    if not isinstance(wanted, dict):
        return {}
    if wanted.get("type") != "json_schema":
        raise wrong("output_config.format.type", "use json_schema")
    schema = {"name": "answer", "strict": True, "schema": wanted.get("schema")}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
