"""Owns reading an upstream's answer as chunks of Chat Completions, whichever wire it speaks."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.engines.llm.messages.chat_chunks import ChatChunks
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.llm.remote.names import ToolNames, restore
from holdfast.engines.llm.remote.sse import Events, LineTooLong
from holdfast.engines.llm.remote.wire import UpstreamCut

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Of one answer that is read here, streamed or whole; what is relayed only passes through."""
_DONE = b"[DONE]"
# Not in a text: there its quotation marks would be escaped.
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')


class AnswerTooLong(UpstreamFailed):
    """The upstream goes on past everything a model says."""

    code = "upstream_too_long"

    def __init__(self) -> None:
        super().__init__(f"The upstream's answer has more than {MAX_ANSWER_BYTES // 1024**2} MB; it was broken off.")


async def chat_batches(answer: UpstreamAnswer, names: ToolNames) -> AsyncGenerator[list[Json], None]:
    """The chunks of an answer, streamed or whole, as they came; UpstreamCut when it ends before it is finished."""
    try:
        if _is_whole(answer):
            yield [restore(_as_chunk(await _whole(answer)), names)]
            return
        finished = False
        async for batch in _events(answer):
            is_over = batch[-1].strip() == _DONE
            finished = finished or any(map(_FINISHED.search, batch))
            made, problem = _until_failure(map(_parse, batch[:-1] if is_over else batch))
            if made:
                yield [restore(chunk, names) for chunk in made] if names else made
            if problem is not None:
                raise problem
            if is_over:
                return
        if not finished:
            raise UpstreamCut("The upstream's stream ended before its answer was finished.")
    finally:
        answer.close()


async def messages_batches(answer: UpstreamAnswer, names: ToolNames) -> AsyncGenerator[list[Json], None]:
    """The same of an answer of Anthropic's wire."""
    heard = ChatChunks()
    try:
        if _is_whole(answer):
            yield [restore(chunk, names) for chunk in heard.whole(await _whole(answer))]
            return
        async for batch in _events(answer):
            made, problem = _until_failure(heard.hear_all(map(_parse, batch)))
            if made:
                yield [restore(chunk, names) for chunk in made] if names else made
            if problem is not None:
                raise problem
            if heard.is_finished:
                return
        raise UpstreamCut("The upstream's stream ended before its answer was finished.")
    finally:
        answer.close()


def error_text(body: Any) -> str:
    """What an upstream says of a failure, whatever its shape."""
    error = body.get("error") if isinstance(body, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    return text[:1_000] if isinstance(text, str) else ""


def _until_failure(chunks: Iterator[Json]) -> tuple[list[Json], UpstreamFailed | None]:
    """What came before a failure is told before it."""
    made: list[Json] = []
    try:
        # Not `list`: of what it had gathered nothing would be left.
        for chunk in chunks:
            made.append(chunk)
    except UpstreamFailed as problem:
        return made, problem
    return made, None


def _is_whole(answer: UpstreamAnswer) -> bool:
    return (answer.header(b"content-type") or b"").startswith(b"application/json")


async def _whole(answer: UpstreamAnswer) -> Json:
    whole = await answer.whole(MAX_ANSWER_BYTES + 1)
    if len(whole) > MAX_ANSWER_BYTES:
        raise AnswerTooLong
    return _parse(whole)


async def _events(answer: UpstreamAnswer) -> AsyncIterator[list[bytes]]:
    """The data of events, those together that came together; whatever follows a `[DONE]` is left out."""
    events, size = Events(), 0
    try:
        while piece := await answer.read():
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise AnswerTooLong
            batch = []
            for data in events.feed(piece):
                batch.append(data)
                if data.strip() == _DONE:
                    break
            if batch:
                yield batch
    except LineTooLong:
        raise UpstreamFailed("The upstream sent an event that is too long.") from None
    for data in events.flush():
        yield [data]


def _parse(data: bytes) -> Json:
    try:
        chunk = loads_strange(data)
    except orjson.JSONDecodeError:
        raise UpstreamFailed("The upstream sent something that is not JSON.") from None
    if not isinstance(chunk, dict):
        raise UpstreamFailed("The upstream sent a chunk that is not an object.")
    if chunk.get("error"):
        raise UpstreamFailed(f"The upstream failed: {error_text(chunk) or 'no reason given'}")
    return chunk


def _as_chunk(completion: Json) -> Json:
    """A whole answer as one chunk: some upstreams do not stream."""
    choices = completion.get("choices")
    turned = [
        {**{key: value for key, value in choice.items() if key != "message"}, "delta": choice.get("message") or {}}
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, dict)
    ]
    return {**completion, "object": "chat.completion.chunk", "choices": turned}
