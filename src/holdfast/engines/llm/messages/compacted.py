"""Owns where a compacted conversation begins: Anthropic's servers read nothing before the last summary in it."""

from collections.abc import Sequence
from typing import Any

from holdfast.engines.llm.messages.words import dicts


def since_summary(messages: Sequence[Any]) -> tuple[str | None, list[tuple[int, Any]]]:
    """The last summary, and what was said since, each message with its place in the whole."""
    numbered = list(enumerate(messages))
    for number, message in reversed(numbered):
        content = message.get("content") if isinstance(message, dict) else None
        for place, block in reversed(list(enumerate(dicts(content)))):
            text = block.get("content")
            # One without content tells of a compaction that failed, and stands for nothing.
            if block.get("type") == "compaction" and isinstance(text, str) and text:
                # Blocks keep their places, by which a refusal names them.
                kept = {**message, "content": [*[block] * (place + 1), *dicts(content)[place + 1 :]]}
                return text, [(number, kept), *numbered[number + 1 :]]
    return None, numbered
