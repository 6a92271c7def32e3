"""Owns our own small protocol for agents, which the built-in one speaks: JSON objects, one a line (docs/runners.md)."""

from collections.abc import Iterable
from typing import Any

from holdfast.engines.runners.base import (
    Assignment,
    CanResume,
    RunnerEvent,
    Said,
    Thought,
    ToolEnded,
    ToolStarted,
)
from holdfast.engines.runners.protocols.conversation import AgentConversation
from holdfast.engines.runners.protocols.speech import JsonLines, plain, short_arguments, short_result

_MOST_TOKEN = 200
_MOST_NAME = 200


def start_message(assignment: Assignment) -> dict[str, Any]:
    """The first thing that such a program reads."""
    return {
        "type": "start",
        "prompt": assignment.prompt,
        "instructions": assignment.instructions,
        "model": assignment.model,
        "model_url": assignment.model_url,
        "model_key": assignment.model_key,
        "servers": {
            name: {"command": entry.command, "args": list(entry.args)} for name, entry in assignment.servers.items()
        },
        "resume": assignment.resume,
    }


class LineJsonConversation(AgentConversation):
    """An agent that speaks it."""

    def __init__(self, lines: JsonLines, assignment: Assignment) -> None:
        super().__init__(lines)
        self._is_busy = True
        self._sent = 0
        lines.write(start_message(assignment))

    def _begin(self, text: str) -> None:
        self._sent += 1
        self._lines.write({"type": "message", "text": text})

    def _say_while_busy(self, text: str) -> None:
        # It listens while it works.
        self._begin(text)

    def _stop_turn(self) -> None:
        self._lines.write({"type": "interrupt"})

    def _take(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        kind = message.get("type")
        if kind == "said":
            return (Said(plain(self._text(message, "text")), message.get("whole") is not False),)
        if kind == "thought":
            return (Thought(plain(self._text(message, "text"))),)
        if kind == "tool_started":
            arguments = short_arguments(message.get("arguments", {}))
            name = plain(self._text(message, "name"), _MOST_NAME)
            return (ToolStarted(self._call_id(message), name, arguments),)
        if kind == "tool_ended":
            text = short_result(message.get("text", ""))
            return (ToolEnded(self._call_id(message), message.get("ok") is True, text),)
        if kind == "can_resume":
            return (CanResume(plain(self._text(message, "token"), _MOST_TOKEN)),)
        if kind == "turn_over":
            return self._turn_over(message)
        # What a later version of the protocol adds is no reason to stop working.
        return ()

    def _turn_over(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        reason = message.get("reason")
        if reason not in ("done", "interrupted", "refused", "limit", "error"):
            raise self._lines.failure(
                f"broke its protocol: turn_over.reason is {plain(reason, 40)!r}, which is no reason"
            )
        heard = message.get("heard")
        if isinstance(heard, int) and heard < self._sent:
            # Our last words crossed with these, and are the beginning of its next turn.
            return ()
        return self._over(reason, message.get("text", ""))

    def _call_id(self, message: dict[str, Any]) -> str:
        return plain(self._text(message, "call_id"), _MOST_NAME)

    def _text(self, message: dict[str, Any], field: str) -> str:
        value = message.get(field)
        if not isinstance(value, str):
            raise self._lines.failure(f"broke its protocol: {message['type']}.{field} is not text")
        return value
