"""Owns an answer of Anthropic's wire as chunks of Chat Completions, event by event."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.messages.words import THINKING_BLOCKS, chat_usage, dicts, finish_reason
from holdfast.engines.llm.model import Heard, Json


class ChatChunks:
    """Give it the events of one answer; `is_finished` once the last one came."""

    def __init__(self) -> None:
        self._stamp: Json = {}
        self._usage: Json = {}
        self._calls = 0
        self._thought: Json | None = None
        self.is_finished = False

    def hear_all(self, events: Iterable[Heard]) -> Iterator[Heard]:
        """The chunks of events that came together; those that only have text stay texts."""
        for event in events:
            if isinstance(event, dict):
                yield from self.hear(event)
            elif self._stamp:
                yield event
            else:
                yield from (self._chunk({"content": text}) for text in event)

    def hear(self, event: Json) -> Iterator[Json]:
        """The chunks that an event makes; UpstreamFailed where it tells of a failure."""
        kind = event.get("type")
        if kind == "message_start":
            message = _object(event.get("message"))
            yield from self._begin(message)
        elif kind == "content_block_start":
            yield from self._block(_object(event.get("content_block")))
        elif kind == "content_block_delta":
            yield from self._delta(_object(event.get("delta")))
        elif kind == "content_block_stop":
            yield from self._end_thought()
        elif kind == "message_delta":
            self._usage |= {key: value for key, value in _object(event.get("usage")).items() if value is not None}
            delta = _object(event.get("delta"))
            if delta.get("stop_reason"):
                yield self._finish(delta)
        elif kind == "message_stop":
            yield from self._end()
        elif kind == "error":
            error = _object(event.get("error"))
            raise UpstreamFailed(f"The upstream failed: {str(error.get('message') or 'no reason given')[:1_000]}")

    def whole(self, message: Json) -> Iterator[Json]:
        """The chunks of an answer that came at once."""
        if not isinstance(message.get("content"), list):
            raise UpstreamFailed("The upstream answered without any message.")
        yield from self._begin(message)
        for block in dicts(message["content"]):
            if block.get("type") in ("text", "thinking"):
                yield from self._block({"type": block["type"]})
                yield from self._delta({**block, "type": f"{block['type']}_delta"})
                if block.get("signature"):
                    yield from self._delta({"type": "signature_delta", "signature": block["signature"]})
            else:
                yield from self._block(block)
            yield from self._end_thought()
        yield self._finish(message)
        yield from self._end()

    def _end(self) -> Iterator[Json]:
        self.is_finished = True
        # Nothing told is not nothing used: whoever counts has to know.
        if self._usage:
            yield {**self._stamp, "choices": [], "usage": chat_usage(self._usage)}

    def _begin(self, message: Json) -> Iterator[Json]:
        self._stamp = {
            "id": str(message.get("id") or ""),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": str(message.get("model") or ""),
        }
        self._usage = dict(_object(message.get("usage")))
        yield self._chunk({"role": "assistant", "content": ""})

    def _block(self, block: Json) -> Iterator[Json]:
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            yield self._chunk({"content": str(block["text"])})
        elif kind == "thinking":
            self._thought = {"type": "thinking", "thinking": "", "signature": ""}
        elif kind == "redacted_thinking":
            yield self._chunk({THINKING_BLOCKS: [block]})
        elif kind == "tool_use":
            given = block.get("input")
            function = {"name": block.get("name"), "arguments": dumps(given).decode() if given else ""}
            call = {"index": self._calls, "id": block.get("id"), "type": "function", "function": function}
            self._calls += 1
            yield self._chunk({"tool_calls": [call]})

    def _delta(self, delta: Json) -> Iterator[Json]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield self._chunk({"content": str(delta.get("text") or "")})
        elif kind == "input_json_delta" and delta.get("partial_json") and self._calls:
            piece = {"index": self._calls - 1, "function": {"arguments": str(delta["partial_json"])}}
            yield self._chunk({"tool_calls": [piece]})
        elif kind == "thinking_delta" and self._thought is not None:
            self._thought["thinking"] += str(delta.get("thinking") or "")
            yield self._chunk({"reasoning_content": str(delta.get("thinking") or "")})
        elif kind == "signature_delta" and self._thought is not None:
            self._thought["signature"] += str(delta.get("signature") or "")

    def _end_thought(self) -> Iterator[Json]:
        thought, self._thought = self._thought, None
        if thought is not None and thought["signature"]:
            yield self._chunk({THINKING_BLOCKS: [thought]})

    def _finish(self, ended: Json) -> Json:
        choice: Json = {"index": 0, "delta": {}, "finish_reason": finish_reason(ended.get("stop_reason"))}
        if ended.get("stop_sequence"):
            # As vLLM tells it: OpenAI has no word for which of them it was.
            choice["stop_reason"] = ended["stop_sequence"]
        return {**self._stamp, "choices": [choice]}

    def _chunk(self, delta: Json) -> Json:
        return {**self._stamp, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def message_text(event: Json) -> str | None:
    """The text of an event that has nothing else to tell, as most of them."""
    if event.get("type") != "content_block_delta":
        return None
    delta = event.get("delta")
    text = delta.get("text") if isinstance(delta, dict) and delta.get("type") == "text_delta" else None
    return text if isinstance(text, str) else None


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
