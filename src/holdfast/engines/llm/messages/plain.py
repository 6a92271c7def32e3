"""Owns answers that came whole and are only text, said in the other wire's words at once, as their events would be."""

import time
from collections.abc import Callable
from typing import Any

from holdfast.core.ids import new_uuid
from holdfast.engines.llm.messages.words import GIVEN, chat_usage, finish_reason, messages_usage, stop_reason
from holdfast.engines.llm.model import Json

_SPOKEN = frozenset({"role", "content"})
_LONGEST = 1_000_000
"""A longer answer is told by its events, which bound it."""


def plain_message(completion: Json, model: str, input_tokens: Callable[[], int]) -> Json | None:
    """A completion as a message; None where it has anything but text. `input_tokens` is asked where none are told."""
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    if not isinstance(choice, dict) or choice.get("index") or "delta" in choice or choice.get("stop_reason"):
        return None
    text = _spoken(choice.get("message"))
    usage = completion.get("usage")
    if text is None or not isinstance(usage, dict) or not usage:
        return None
    told = messages_usage(usage)
    if not any(told[name] for name in GIVEN):
        told["input_tokens"] = max(1, input_tokens())
    told["output_tokens"] = told["output_tokens"] or max(1, len(text) // 4)
    finish = choice.get("finish_reason")
    return {
        "id": f"msg_{new_uuid().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop_reason(finish if isinstance(finish, str) else None),
        "stop_sequence": None,
        "usage": told,
    }


def plain_completion(message: Json) -> Json | None:
    """A message as a completion; None where it has anything but text."""
    blocks, usage = message.get("content"), message.get("usage")
    if not isinstance(blocks, list) or not isinstance(usage, dict) or not usage or message.get("stop_sequence"):
        return None
    texts = []
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str) or block.get("signature"):
            return None
        texts.append(text)
    said = "".join(texts)
    if len(said) > _LONGEST:
        return None
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said},
        "logprobs": None,
        "finish_reason": finish_reason(message.get("stop_reason")),
    }
    return {
        "id": str(message.get("id") or ""),
        "created": int(time.time()),
        "model": str(message.get("model") or ""),
        "object": "chat.completion",
        "choices": [choice],
        "usage": chat_usage(usage),
    }


def _spoken(message: Any) -> str | None:
    """The text of a message that has nothing else to tell."""
    if not isinstance(message, dict) or any(value for key, value in message.items() if key not in _SPOKEN):
        return None
    text = message.get("content")
    return text if isinstance(text, str) and len(text) <= _LONGEST and text.strip() else None
