"""Owns the words that both wires have for the same thing: reasons to stop, counts of tokens, ids, equal fields."""

import re
from typing import Any

from holdfast.engines.llm.model import Json

THINKING_BLOCKS = "thinking_blocks"
"""Where an assistant's message in Chat Completions keeps thoughts of an Anthropic model, with their signatures."""
PASSED = ("max_tokens", "temperature", "top_p")
"""What is called the same and means the same."""
GIVEN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""What Anthropic counts of a request, each apart from the others."""

_MOST = 2**53
"""What every client reads as a whole number."""
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def finish_reason(stop_reason: Any) -> str:
    """Why a model stopped, in OpenAI's words."""
    return _FINISH.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"


def stop_reason(finish: Any) -> str:
    """The same in Anthropic's."""
    return _STOP.get(finish, "end_turn") if isinstance(finish, str) else "end_turn"


def chat_usage(usage: Json) -> Json:
    """Anthropic's counts as OpenAI's, where what was cached is part of the prompt."""
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    prompt = count(usage.get("input_tokens")) + read + written
    completion = count(usage.get("output_tokens"))
    made: Json = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    if thought := _detail(usage, "output_tokens_details", "thinking_tokens"):
        made["completion_tokens_details"] = {"reasoning_tokens": thought}
    return {**made, "cache_creation_input_tokens": written} if written else made


def messages_usage(usage: Json) -> Json:
    """OpenAI's counts as Anthropic's, where what was cached is counted beside."""
    read = _detail(usage, "prompt_tokens_details", "cached_tokens")
    written = count(usage.get("cache_creation_input_tokens"))
    thought = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    told: Json = {
        "input_tokens": max(0, count(usage.get("prompt_tokens")) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": count(usage.get("completion_tokens")),
    }
    return {**told, "output_tokens_details": {"thinking_tokens": thought}} if thought else told


def _detail(usage: Json, name: str, part: str) -> int:
    details = usage.get(name)
    return count(details.get(part)) if isinstance(details, dict) else 0


def tool_use_id(id: Any) -> str:
    """A call's id as Anthropic takes it: some upstreams write dots and colons."""
    return _NOT_IN_IDS.sub("_", str(id or ""))


def count(value: Any) -> int:
    """A count that somebody else told."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(min(max(0, value), _MOST)) if is_number else 0


def dicts(value: Any) -> list[Json]:
    """The objects of a list that somebody else wrote."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
