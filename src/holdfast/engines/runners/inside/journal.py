"""Owns the conversation as it is kept: every message on a line of a file in the agent's home, from which it goes on."""

import json
import os
import re
from typing import Any

Message = dict[str, Any]

_TOKEN = re.compile(r"[0-9a-f]{16}")
_FOLDER = ".holdfast"
_MOST_CHARACTERS = 600_000
"""Beyond this the oldest results of tools are left out of what the model reads; models end somewhere above."""
_LEFT_OUT = "(This result was left out because the conversation is long. Call the tool again if it is needed.)"
BROKEN_OFF = "This call was broken off before it ended; nobody knows how far it came."


class Journal:
    """The messages of one conversation, without the instructions, which are given anew each time."""

    def __init__(self, home: str, token: str | None) -> None:
        if token is not None and _TOKEN.fullmatch(token) is None:
            raise SystemExit(f"resume: {token[:40]!r} is not the name of a conversation of this agent")
        self.token = token or os.urandom(8).hex()
        folder = os.path.join(home, _FOLDER)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{self.token}.jsonl")
        self.messages: list[Message] = _read(path) if token is not None else []
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = sum(_characters(message) for message in self.messages)
        # A crash leaves half a line, and calls without results; no model takes such a history.
        os.write(self._file, b"\n")
        self.answer_open_calls()

    def add(self, message: Message) -> None:
        """Keep a message; it is in the file before anything is done with it."""
        os.write(self._file, json.dumps(message).encode() + b"\n")
        self.messages.append(message)
        self._size += _characters(message)

    def answer_open_calls(self) -> None:
        """Say of every call that has no result that it was broken off."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message["role"] == "tool":
                answered.add(message["tool_call_id"])
                continue
            # Only the last calls can be open; some models give the same names to calls of different turns.
            for call in message.get("tool_calls") or ():
                if call["id"] not in answered:
                    self.add({"role": "tool", "tool_call_id": call["id"], "content": BROKEN_OFF})
            return

    def readable(self) -> list[Message]:
        """The messages as a model is sent them."""
        left_out = 0
        messages: list[Message] = []
        for message in self.messages:
            if message["role"] == "tool" and self._size - left_out > _MOST_CHARACTERS:
                left_out += _characters(message)
                message = {**message, "content": _LEFT_OUT}
            messages.append(message)
        return messages


def _read(path: str) -> list[Message]:
    messages: list[Message] = []
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    messages.append(json.loads(line))
                except ValueError:
                    # Empty, or the half line of a crash.
                    continue
    except FileNotFoundError:
        raise SystemExit("resume: the journal of that conversation is gone from the agent's home") from None
    return messages


def _characters(message: Message) -> int:
    return len(message.get("content") or "") + sum(
        len(call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    )
