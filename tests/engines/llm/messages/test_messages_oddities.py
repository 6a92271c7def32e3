"""Proves that no request makes a translation fail: whatever stands anywhere in it, it is said or refused."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.engines.llm.messages.chat_request import chat_body
from holdfast.engines.llm.messages.messages_request import messages_body

Json = dict[str, Any]
ODD: list[Any] = [None, 7, True, "", "x", [], [7], ["x"], [None], {}, {"a": 1}, [[]], [{}], {"type": []}, 1e300]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
CITED = {"type": "content", "content": [{"type": "text", "text": "x"}]}
FUNCTION = {"name": "t", "description": "d", "parameters": {"type": "object"}, "strict": True}
MESSAGES: Json = {
    "model": "m",
    "max_tokens": 99,
    "stream": True,
    "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}],
    "stop_sequences": ["X"],
    "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "tool_choice": {"type": "tool", "name": "t", "disable_parallel_tool_use": True},
    "tools": [{"name": "t", "input_schema": {"type": "object"}}, {"type": "tool_search_tool_bm25_20251119"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, IMAGE, {"type": "document", "source": CITED}]},
        {"role": "user", "content": [{"type": "search_result", "source": "s", "content": [{"type": "text"}]}]},
        {"role": "assistant", "content": [{"type": "compaction", "content": "Summed."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "h", "signature": "c"},
                {"type": "tool_use", "id": "a", "name": "t", "input": {"b": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [IMAGE]}]},
        {"role": "system", "content": "mid"},
    ],
}
CHAT: Json = {
    "model": "m",
    "max_completion_tokens": 9,
    "temperature": 1.2,
    "n": 1,
    "stop": ["a"],
    "user": "u",
    "reasoning_effort": "low",
    "parallel_tool_calls": False,
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "t"}}]}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "system", "content": "S"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "https://x"}}],
        },
        {"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:a;base64,b"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
            "thinking_blocks": [{"type": "thinking", "thinking": "h", "signature": "c"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ],
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in it."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.parametrize(
    ("body", "translate"), [(MESSAGES, chat_body), (CHAT, messages_body)], ids=["chat", "messages"]
)
def test_anything_anywhere_is_said_or_refused(body: Json, translate: Callable[[Json], Json]) -> None:
    translate(body)
    for *way, last in places(body):
        for odd in ODD:
            changed = copy.deepcopy(body)
            parent: Any = changed
            for key in way:
                parent = parent[key]
            parent[last] = odd
            try:
                assert isinstance(translate(changed), dict)
            except HoldfastError as refused:
                assert refused.fields, (way, last, odd, refused)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ["Hello"]},
        {"role": "user", "content": {"text": "Hello"}},
        {"role": "user", "content": None},
    ],
)
def test_words_that_are_written_wrongly_are_not_left_out(message: Json) -> None:
    for translate in (chat_body, messages_body):
        with pytest.raises(HoldfastError):
            translate({"messages": [message]})


@pytest.mark.parametrize("content", [7, {"type": "text", "text": "x"}, ["x"]])
def test_a_result_that_is_written_wrongly_is_not_left_out(content: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": content}
    with pytest.raises(HoldfastError) as refused:
        chat_body({"messages": [{"role": "user", "content": [block]}]})
    assert refused.value.fields[0].field == "messages.0.content.0.content"
