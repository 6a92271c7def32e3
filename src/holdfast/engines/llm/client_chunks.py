"""Owns what a client hears of a turn: one stream of chunks out of many rounds, with one id and one end."""

import time
from collections.abc import Iterator
from typing import Any

from holdfast.core.ids import new_uuid
from holdfast.engines.llm.model import Json

_NOT_REPEATED = ("usage", "choices")


class ClientChunks:
    """Stamps chunks alike, says the role once, and keeps tool calls, finish reasons and usage for the loop."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._stamp: Json = {}
        self._spoke = False
        self._content: list[str] = []
        self._round_spoke = False

    @property
    def content(self) -> str:
        """All text that the client got."""
        return "".join(self._content)

    def begin_round(self) -> None:
        self._round_spoke = False

    def hear(self, chunk: Json) -> tuple[Json | None, int]:
        """What of a model's chunk is for the client now, and how many characters of content it has."""
        if not self._stamp:
            self._stamp = _stamp(chunk)
        choices, characters = [], 0
        for choice in _dicts(chunk.get("choices")):
            delta = choice.get("delta") or choice.get("message")
            said = delta.items() if isinstance(delta, dict) else ()
            plain = ((key, _text(value) if key == "content" else value) for key, value in said)
            heard = {key: value for key, value in plain if self._is_for_client(key, value)}
            if not heard and not choice.get("logprobs"):
                continue
            characters += len(heard.get("content", ""))
            kept = {key: value for key, value in choice.items() if key not in ("message", "finish_reason")}
            choices.append({**kept, "delta": heard, "finish_reason": None})
        if not choices:
            return None, 0
        rest = {key: value for key, value in chunk.items() if key not in _NOT_REPEATED}
        return {**rest, **self._stamp, "choices": choices}, characters

    def say(self, chunk: Json) -> Iterator[Json]:
        """A heard chunk as it goes out; text of a later round begins a paragraph of its own."""
        for choice in chunk["choices"]:
            text = choice["delta"].get("content")
            if not text:
                continue
            if self._content and not self._round_spoke and not self._whole:
                self._content.append("\n\n")
                yield self.chunk({"content": "\n\n"})
            self._round_spoke = True
            self._content.append(text)
        if not self._spoke:
            self._spoke = True
            for choice in chunk["choices"]:
                choice["delta"].setdefault("role", "assistant")
        yield chunk

    def add(self, text: str) -> Iterator[Json]:
        """Text of our own."""
        self._content.append(text)
        yield self.chunk({"content": text})

    def add_paragraph(self, text: str) -> Iterator[Json]:
        """The same behind what was said, unless that has it already."""
        if text and text not in self.content:
            yield from self.add(f"\n\n{text}" if self._content else text)

    def hand(self, call: Json) -> Json:
        """A piece of a call that is the client's to make."""
        return self.chunk({"tool_calls": [call]})

    def end(self, finish_reason: str, usage: Json | None) -> Iterator[Json]:
        """The last chunks."""
        yield self.chunk({}, finish_reason)
        if usage is not None:
            yield {**self._stamp, "choices": [], "usage": usage}

    def chunk(self, delta: Json, finish_reason: str | None = None) -> Json:
        if not self._spoke:
            self._spoke = True
            delta = {"role": "assistant", **delta}
        return {**self._stamp, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    def _is_for_client(self, key: str, value: Any) -> bool:
        if key == "tool_calls" or value is None or value == "":
            return False
        return key != "role"


def _stamp(chunk: Json) -> Json:
    """What every chunk of the turn has alike; clients refuse an id or a moment of another type."""
    kinds = {"id": str, "created": int, "model": str}
    told = {key: chunk[key] for key, kind in kinds.items() if isinstance(chunk.get(key), kind)}
    made = {"id": f"chatcmpl-{new_uuid().hex}", "created": int(time.time()), "model": ""}
    return {**made, **told, "object": "chat.completion.chunk"}


def _text(content: Any) -> str:
    """Content as text: some upstreams send it in parts, which clients of streams don't know."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in _dicts(content))
    return content if isinstance(content, str) else ""


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
