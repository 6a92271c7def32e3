"""Owns how a conversation that a client sends is found again among the messages that are kept."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.text import jsontext
from holdfast.engines.llm.model import Json

ROOT = ""
_INSTRUCTIONS = ("system", "developer")


def conversation(messages: Any) -> tuple[list[Json], list[Json]]:
    """A body's messages as instructions of the client's program and what was said; only the latter is kept.

    Programs write the date and more into their instructions: kept, every turn would begin another branch.
    """
    if not isinstance(messages, list):
        raise Invalid("The request has no messages.", fields=[FieldError("messages", "write a list of messages")])
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            problem = "write an object with a role and content"
            raise Invalid("A message cannot be read.", fields=[FieldError(f"messages[{number}]", problem)])
    instructions = [message for message in messages if message["role"] in _INSTRUCTIONS]
    return instructions, [message for message in messages if message["role"] not in _INSTRUCTIONS]


def trails(spoken: Sequence[Json], start: str = ROOT) -> list[str]:
    """For each message a digest of it and of everything before it."""
    found: list[str] = []
    for message in spoken:
        start = trail_of(start, message)
        found.append(start)
    return found


def trail_of(before: str, message: Json) -> str:
    """The digest of a message that follows what `before` stands for.

    Only what clients send back alike counts: the role, the words, other parts, and tool calls.
    """
    said = [message["role"], text_of(message).strip(), _other_parts(message), calls_of(message)]
    return hashlib.sha256(before.encode() + jsontext.dumps([*said, message.get("tool_call_id") or ""])).hexdigest()


def text_of(message: Json) -> str:
    """The words of a message, of a text or of the text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))


def behind_last_words(messages: Sequence[Json]) -> list[Json]:
    """What a model said and did since the person's last words."""
    behind = 0
    for number, message in enumerate(messages, 1):
        if message["role"] == "user":
            behind = number
    return list(messages[behind:])


def last_words(spoken: Sequence[Json]) -> str:
    """What the person said last."""
    return next((text_of(message) for message in reversed(spoken) if message["role"] == "user"), "")


def _other_parts(message: Json) -> list[Any]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if not (isinstance(part, dict) and isinstance(part.get("text"), str))]


def calls_of(message: Json) -> list[list[Any]]:
    """The names and arguments of a message's calls; clients write the same arguments with other spaces."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [[each.get("name"), _arguments(each.get("arguments"))] for each in functions if isinstance(each, dict)]


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.dumps(json.loads(given or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return given
