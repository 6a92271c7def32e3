"""Owns an answer as the events of Anthropic's wire, made from chunks of Chat Completions, in the documented order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.core.ids import new_uuid
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.assembly import NAMELESS, Assembly, GrowingCall
from holdfast.engines.llm.messages.words import (
    GIVEN,
    THINKING_BLOCKS,
    dicts,
    messages_usage,
    stop_reason,
    tool_use_id,
)
from holdfast.engines.llm.model import Heard, Json

_SPEECH = frozenset({"role", "content"})
_NOTHING = "null"


@dataclass(frozen=True, slots=True)
class TextDeltas:
    """The `content_block_delta` events of texts in a row, which is what most of an answer is."""

    index: int
    texts: Sequence[str]


class MessageEvents:
    """Give it chunks; it gives events. One block is open at a time, as Anthropic has it.

    The first call streams; further ones wait for the end, because upstreams may write several at once.
    """

    def __init__(self, model: str, input_tokens: int, *, shows_thinking: bool) -> None:
        """`input_tokens` is told until the upstream tells its own count."""
        self._model = model
        self._estimate = max(1, input_tokens)
        self._shows_thinking = shows_thinking
        self._answer = Assembly()
        self._stop_sequence: str | None = None
        self._index = -1
        self._open = ""
        self._call: GrowingCall | None = None
        self._told = 0
        self._ids: set[str] = set()
        self._late: list[str] = []
        self._blank = ""
        self._characters = 0
        self._is_heard = False
        self._ran: Json = {}
        self.usage: Json = {}
        """What it took, in Anthropic's words, once it is over."""

    def begin(self) -> Iterator[Json]:
        """The opening."""
        usage = {
            "input_tokens": self._estimate,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        }
        message: Json = {
            "id": f"msg_{new_uuid().hex}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        yield {"type": "message_start", "message": message}
        yield {"type": "ping"}

    def hear_all(self, chunks: Iterable[Heard]) -> Iterator[Json | TextDeltas]:
        """The events of chunks that came together."""
        for chunk in chunks:
            if isinstance(chunk, dict):
                yield from self.hear(chunk)
            else:
                self._is_heard = True
                yield from self._say_all(chunk)

    def hear(self, chunk: Json) -> Iterator[Json]:
        """The events that a chunk makes."""
        self._answer.add(chunk)
        for choice in dicts(chunk.get("choices"))[:1]:
            if isinstance(choice.get("stop_reason"), str):
                self._stop_sequence = choice["stop_reason"]
            delta = choice.get("delta") or choice.get("message")
            if not isinstance(delta, dict):
                continue
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(thought, str) and thought and self._shows_thinking:
                yield from self._think(thought)
            for block in dicts(delta.get(THINKING_BLOCKS)):
                yield from self._sign(block)
            yield from self._say(_text(delta.get("content") or delta.get("refusal")))
        for call in self._answer.grown:
            yield from self._grow(call)

    def blocks(self, blocks: Iterable[Json]) -> Iterator[Json]:
        """Whole blocks: of what ran here."""
        for block in blocks:
            if block["type"] == "server_tool_use":
                name = f"{block['name']}_requests"
                self._ran[name] = self._ran.get(name, 0) + 1
            yield from self._close()
            if "input" in block:
                # Clients put the input together from its pieces, as Anthropic streams it.
                yield from self._start("whole", {**block, "input": {}})
                yield self._delta({"type": "input_json_delta", "partial_json": dumps(block["input"]).decode()})
            else:
                yield from self._start("whole", block)
            yield from self._close()

    def finish(self, usage: Json | None = None) -> Iterator[Json]:
        """The end; `usage` over all rounds where there were several."""
        if self._answer.empty and not self._is_heard:
            raise UpstreamFailed("The upstream answered without any choice.")
        for call in self._answer.growing:
            if call is not self._call:
                yield from self._start_call(call)
            yield from self._grow(call, is_over=True)
        yield from self._close()
        late, self._late = "".join(self._late), []
        self._call = None
        yield from self._say(late)
        yield from self._close()
        told = messages_usage(usage or self._answer.usage)
        if not any(told[name] for name in GIVEN):
            told["input_tokens"] = self._estimate
        told["output_tokens"] = told["output_tokens"] or max(1, self._characters // 4)
        if self._ran:
            told["server_tool_use"] = {"web_search_requests": 0, "web_fetch_requests": 0, **self._ran}
        self.usage = told
        reason = stop_reason(self._answer.finish_reason)
        # A call that the limit cut is not one to make.
        if self._answer.growing and reason != "max_tokens":
            reason = "tool_use"
        elif self._stop_sequence is not None and reason == "end_turn":
            reason = "stop_sequence"
        sequence = self._stop_sequence if reason == "stop_sequence" else None
        yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": told}
        yield {"type": "message_stop"}

    def _say_all(self, texts: list[str]) -> Iterator[Json | TextDeltas]:
        for number, text in enumerate(texts):
            if self._open == "text" and self._call is None:
                more = [text for text in texts[number:] if text]
                self._characters += sum(map(len, more))
                if more:
                    yield TextDeltas(self._index, more)
                return
            yield from self._say(text)

    def _say(self, text: str) -> Iterator[Json]:
        if not text:
            return
        self._characters += len(text)
        if self._call is not None:
            self._late.append(text)
            return
        if self._open != "text":
            # Anthropic refuses a block of blanks in a history, and some models write one before each call.
            text = self._blank + text
            if text.isspace():
                self._blank = text
                return
            self._blank = ""
            yield from self._close()
            yield from self._start("text", {"type": "text", "text": ""})
        yield self._delta({"type": "text_delta", "text": text})

    def _think(self, text: str) -> Iterator[Json]:
        if self._call is not None:
            return
        self._characters += len(text)
        if self._open != "thinking":
            yield from self._close()
            yield from self._start("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": text})

    def _sign(self, block: Json) -> Iterator[Json]:
        """A signed thought of an Anthropic model, whose text came before."""
        if self._call is not None:
            return
        if block.get("type") == "redacted_thinking":
            yield from self.blocks([block])
        elif self._open == "thinking" and block.get("signature"):
            yield self._delta({"type": "signature_delta", "signature": str(block["signature"])})
            yield from self._close()

    def _grow(self, call: GrowingCall, *, is_over: bool = False) -> Iterator[Json]:
        if self._call is None:
            if not call.function.text("name"):
                return
            yield from self._start_call(call)
        if call is not self._call:
            return
        piece, told = call.function.news("arguments", self._told)
        if not self._told and _NOTHING.startswith(piece.strip()) and not (is_over and piece.strip() != _NOTHING):
            # Some models write that for a call without arguments, where Anthropic's clients expect an object.
            return
        self._told = told
        if piece:
            self._characters += len(piece)
            yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def _start_call(self, call: GrowingCall) -> Iterator[Json]:
        yield from self._close()
        self._call, self._told = call, 0
        name = call.function.text("name") or NAMELESS
        id = tool_use_id(call.id)
        while id in self._ids:
            id += "_"
        self._ids.add(id)
        yield from self._start("tool_use", {"type": "tool_use", "id": id, "name": name, "input": {}})

    def _start(self, kind: str, block: Json) -> Iterator[Json]:
        self._index += 1
        self._open = kind
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> Iterator[Json]:
        if self._open:
            self._open = ""
            yield {"type": "content_block_stop", "index": self._index}


def whole_message(events: Sequence[Json | TextDeltas]) -> Json:
    """The message that events tell."""
    message: Json = {}
    texts: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, TextDeltas):
            message["content"][event.index]["text"] += "".join(event.texts)
            continue
        kind = event["type"]
        if kind == "message_start":
            message = {**event["message"], "content": []}
        elif kind == "content_block_start":
            message["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                texts.setdefault(event["index"], []).append(delta["partial_json"])
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] = {**message["usage"], **event["usage"]}
    cut: set[int] = set()
    for index, pieces in texts.items():
        given = _object("".join(pieces))
        if given is not None:
            message["content"][index]["input"] = given
        elif message["stop_reason"] == "max_tokens":
            cut.add(index)
        else:
            raise UpstreamFailed("The model called a tool with arguments that are not a JSON object.")
    if cut:
        message["content"] = [block for index, block in enumerate(message["content"]) if index not in cut]
    return message


def _object(text: str) -> Json | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def chunk_text(chunk: Json) -> str | None:
    """The text of a chunk that has nothing else to tell, as most of them."""
    choices = chunk.get("choices")
    if chunk.get("usage") is not None or not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = choices[0]
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or choice.get("finish_reason") or choice.get("stop_reason") or choice.get("index"):
        return None
    text = delta.get("content")
    return text if isinstance(text, str) and not delta.keys() - _SPEECH else None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in dicts(content))
    return content if isinstance(content, str) else ""
