"""Owns reading an upstream's answer as chunks of Chat Completions, whichever wire it speaks."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import loads_mended
from holdfast.engines.llm.messages.chat_chunks import ChatChunks
from holdfast.engines.llm.messages.words import dicts
from holdfast.engines.llm.model import Heard, Json
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.llm.remote.names import ToolNames, restore
from holdfast.engines.llm.remote.sse import Events, LineTooLong
from holdfast.engines.llm.remote.texts import Texts
from holdfast.engines.llm.remote.wire import UpstreamCut

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Of one answer that is read here, streamed or whole; what is relayed only passes through."""
_DONE = b"[DONE]"


class AnswerTooLong(UpstreamFailed):
    """The upstream goes on past everything a model says."""

    code = "upstream_too_long"

    def __init__(self) -> None:
        super().__init__(f"The upstream's answer has more than {MAX_ANSWER_BYTES // 1024**2} MB; it was broken off.")


@dataclass(frozen=True, slots=True)
class Batch:
    """What came together."""

    heard: list[Heard]
    is_last: bool = False
    """Whether the answer is known to be over; an upstream may also just stop."""


async def whole_answer(answer: UpstreamAnswer) -> Json | None:
    """An answer that came at once; None where it streams."""
    if not answer.is_object:
        return None
    try:
        whole = await answer.whole(MAX_ANSWER_BYTES + 1)
    finally:
        answer.close()
    if len(whole) > MAX_ANSWER_BYTES:
        raise AnswerTooLong
    return _parse(whole)


async def chat_batches(
    answer: UpstreamAnswer, names: ToolNames, texts: Texts, whole: Json | None = None
) -> AsyncGenerator[Batch, None]:
    """The chunks of an answer as they came, or of one that is known whole; UpstreamCut when it ends unfinished."""
    try:
        if whole is None:
            whole = await whole_answer(answer)
        if whole is not None:
            yield Batch([restore(_as_chunk(whole), names)], is_last=True)
            return
        finished = False
        stream = _Stream(answer, texts)
        while piece := await stream.read():
            made, problem = _until_failure(stream.hear(piece))
            finished = finished or any(isinstance(each, dict) and _is_last(each) for each in made)
            if made or stream.is_over:
                yield Batch(_restored(made, names), stream.is_over)
            if problem is not None:
                raise problem
            if stream.is_over:
                return
        made = list(stream.flush())
        if made:
            yield Batch(_restored(made, names))
        if not (finished or stream.is_over or any(isinstance(each, dict) and _is_last(each) for each in made)):
            raise stream.cut()
    finally:
        answer.close()


async def messages_batches(
    answer: UpstreamAnswer, names: ToolNames, texts: Texts, whole: Json | None = None
) -> AsyncGenerator[Batch, None]:
    """The same of an answer of Anthropic's wire."""
    heard = ChatChunks()
    try:
        if whole is None:
            whole = await whole_answer(answer)
        if whole is not None:
            yield Batch([restore(chunk, names) for chunk in heard.whole(whole)], is_last=True)
            return
        stream = _Stream(answer, texts)
        while piece := await stream.read():
            made, problem = _until_failure(heard.hear_all(stream.hear(piece)))
            if made:
                yield Batch(_restored(made, names), heard.is_finished)
            if problem is not None:
                raise problem
            if heard.is_finished:
                return
        made = list(heard.hear_all(stream.flush()))
        if made:
            yield Batch(_restored(made, names), heard.is_finished)
        if not heard.is_finished:
            raise stream.cut()
    finally:
        answer.close()


class _Stream:
    """A stream of events while it is read; whatever follows a `[DONE]` is left out."""

    def __init__(self, answer: UpstreamAnswer, texts: Texts) -> None:
        self._answer = answer
        self._texts = texts
        self._events = Events(texts)
        self._size = 0
        self._is_begun = False
        self.is_over = False

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        piece = await self._answer.read()
        self._size += len(piece)
        if self._size > MAX_ANSWER_BYTES:
            raise AnswerTooLong
        return piece

    def hear(self, piece: bytes) -> Iterator[Heard]:
        """The events that bytes finished; UpstreamFailed where they make no sense, or tell of a failure."""
        try:
            yield from self._parsed(self._events.feed(piece))
        except LineTooLong:
            raise UpstreamFailed("The upstream sent an event that is too long.") from None

    def flush(self) -> Iterator[Heard]:
        """The event that the end of the stream finished."""
        yield from self._parsed(self._events.flush())

    def cut(self) -> UpstreamFailed:
        """Why an answer that ended is none."""
        kind = (self._answer.header(b"content-type") or b"nothing that it names").decode("latin-1")[:100]
        if not self._is_begun and "event-stream" not in kind.lower():
            return UpstreamFailed(f"The upstream answered with {kind}, which is no answer of a model.")
        return UpstreamCut("The upstream's stream ended before its answer was finished.")

    def _parsed(self, events: Iterable[bytes | list[str]]) -> Iterator[Heard]:
        for data in events:
            self._is_begun = True
            if isinstance(data, list):
                yield data
                continue
            if data.strip() == _DONE:
                self.is_over = True
                return
            event = _parse(data)
            text = self._texts.learn(self._events.framing, data, event)
            yield event if text is None else [text]


def error_text(body: Any) -> str:
    """What an upstream says of a failure, whatever its shape."""
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    return text[:1_000] if isinstance(text, str) else ""


def _restored(heard: list[Heard], names: ToolNames) -> list[Heard]:
    if not names:
        return heard
    return [restore(each, names) if isinstance(each, dict) else each for each in heard]


def _until_failure(chunks: Iterator[Heard]) -> tuple[list[Heard], UpstreamFailed | None]:
    """What came before a failure is told before it."""
    made: list[Heard] = []
    try:
        # Not `list`: of what it had gathered nothing would be left.
        for chunk in chunks:
            made.append(chunk)
    except UpstreamFailed as problem:
        return made, problem
    return made, None


def _parse(data: bytes) -> Json:
    try:
        chunk = loads_mended(data)
    except orjson.JSONDecodeError:
        raise UpstreamFailed("The upstream sent something that is not JSON.") from None
    if not isinstance(chunk, dict):
        raise UpstreamFailed("The upstream sent a chunk that is not an object.")
    if chunk.get("error"):
        raise UpstreamFailed(f"The upstream failed: {error_text(chunk) or 'no reason given'}")
    return chunk


def _is_last(chunk: Json) -> bool:
    return any(isinstance(choice.get("finish_reason"), str) for choice in dicts(chunk.get("choices")))


def _as_chunk(completion: Json) -> Json:
    """A whole answer as one chunk: some upstreams do not stream."""
    choices = completion.get("choices")
    turned = [
        {**{key: value for key, value in choice.items() if key != "message"}, "delta": choice.get("message") or {}}
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, dict)
    ]
    return {**completion, "object": "chat.completion.chunk", "choices": turned}
