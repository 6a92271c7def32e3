"""Owns relaying: a client's request goes to the upstream, and the answer's bytes come back as they are."""

from collections.abc import Iterable, Iterator
from contextlib import aclosing

import orjson

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.core.text.sse import framed
from holdfast.engines.llm.assembly import Assembly
from holdfast.engines.llm.messages.plain import plain_completion
from holdfast.engines.llm.metering import Meter
from holdfast.engines.llm.model import Heard
from holdfast.engines.llm.remote.upstream import BegunAnswer, Relayed
from holdfast.engines.llm.remote.upstreams import Upstreams, WireRequest
from holdfast.features.usage.service import Usage
from holdfast.surfaces.http.endpoint.errors import as_told
from holdfast.surfaces.http.endpoint.pings import pinged
from holdfast.surfaces.http.endpoint.relay import Passed, TokensUsed, count_tokens, pass_answer
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.http.sse import EventWriter
from holdfast.surfaces.openai.errors import error_object
from holdfast.surfaces.openai.request import Json, OpenAiRequest

DONE = framed(b"[DONE]")
_MARK = "\ue000"
_MARK_JSON = orjson.dumps(_MARK)


class Passthrough:
    """Relays, and counts what was used."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def relay(
        self, request: OpenAiRequest, upstreams: Upstreams, path: str, body: Json, *, raw: bytes | None = None
    ) -> None:
        """Send the body on and answer with what comes back; the upstream is hung up on when the client goes.

        `raw` are the body's own bytes, for requests whose model is the client's to name.
        """
        request.unhurried()
        sent = dict(request.scope["headers"])
        passed: Passed | None = None
        try:
            async with while_connected(request.scope, request.receive):
                relayed = await upstreams.relay("POST", path, sent, body if raw is None else raw)
                passed = Passed() if relayed.status == 200 else None
                await _pass(request, relayed, passed)
        finally:
            # What was used before a client hung up, or the upstream broke off, was used all the same.
            if passed is not None and (used := _used(passed, body)) is not None:
                self.count(request, upstreams.name, used)

    async def chat(self, request: OpenAiRequest, upstreams: Upstreams, path: str, body: Json) -> None:
        """The same for a chat, which an upstream of Anthropic's wire may answer in translation."""
        request.unhurried()
        sent = dict(request.scope["headers"])
        heard: Passed | Meter | None = None
        model = upstreams.name
        try:
            async with while_connected(request.scope, request.receive):
                found = await upstreams.exchange(WireRequest("openai", path, body, lambda: body), sent)
                model = found.model
                if isinstance(found.answer, Relayed):
                    heard = Passed() if found.answer.status == 200 else None
                    await _pass(request, found.answer, heard)
                else:
                    heard = Meter(body)
                    await (_stream if body.get("stream") else _answer)(request, found.answer, heard, body)
        finally:
            if isinstance(heard, Meter):
                told = heard.tally()
                self.count(request, model, TokensUsed(told.input_tokens, told.output_tokens))
            elif heard is not None and (used := _used(heard, body)) is not None:
                self.count(request, model, used)

    def count(self, request: OpenAiRequest, model: str, tokens: TokensUsed) -> None:
        """Count what one call took."""
        count_tokens(self._usage, request, model, tokens)


async def _pass(request: OpenAiRequest, relayed: Relayed, passed: Passed | None) -> None:
    try:
        await pass_answer(request, relayed, _error_event, passed)
    finally:
        relayed.answer.close()


def _used(passed: Passed, body: Json) -> TokensUsed | None:
    """What an answer took, as far as it came: by the upstream's word, or else by the number of its events."""
    if passed.whole is not None:
        return told_usage(passed.whole)
    return streamed_usage(passed.tail) or TokensUsed(estimate(body), passed.events)


async def _answer(request: OpenAiRequest, opened: BegunAnswer, meter: Meter, body: Json) -> None:
    """A translated answer at once."""
    message = await opened.whole()
    completion = plain_completion(message) if message is not None and opened.kind == "anthropic" else None
    if completion is not None:
        meter.hear_usage(completion["usage"])
        await request.answer(completion)
        return
    whole = Assembly()
    async with aclosing(opened.chunks(message)) as chunks:
        async for chunk in chunks:
            meter.hear(chunk)
            whole.add(chunk)
    if whole.empty:
        raise UpstreamFailed("The upstream answered without any choice.")
    await request.answer(whole.completion())


async def _stream(request: OpenAiRequest, opened: BegunAnswer, meter: Meter, body: Json) -> None:
    """A translated answer as it comes."""
    writer = EventWriter(request.send, request.headers)
    options = body.get("stream_options")
    frames = _Frames(tells_usage=isinstance(options, dict) and bool(options.get("include_usage")))
    last = DONE
    try:
        async with aclosing(opened.batches()) as batches, pinged(writer):
            async for batch in batches:
                meter.hear_all(batch.heard)
                told = b"".join(frames.of(batch.heard))
                if batch.is_last:
                    await writer.end(told + DONE)
                    return
                if told:
                    await writer.write(told)
    except HoldfastError as problem:
        if not writer.is_started:
            raise
        last = _error_event(as_told(problem, request.scope))
    await writer.end(last)


class _Frames:
    """Chunks as events. Those that only add text are alike but for that, so that most of them is written once."""

    def __init__(self, *, tells_usage: bool) -> None:
        self._tells_usage = tells_usage
        self._before = self._behind = b""

    def of(self, batch: Iterable[Heard]) -> Iterator[bytes]:
        """The events of chunks; texts are told as theirs, stamped as the first one."""
        for chunk in batch:
            if isinstance(chunk, list):
                yield self._before
                yield (self._behind + self._before).join(map(orjson.dumps, chunk))
                yield self._behind
            elif chunk.get("choices") or self._tells_usage:
                yield framed(orjson.dumps(chunk))
                if not self._before:
                    alike = {**chunk, "choices": [{"index": 0, "delta": {"content": _MARK}, "finish_reason": None}]}
                    self._before, _, self._behind = framed(orjson.dumps(alike)).rpartition(_MARK_JSON)


def _error_event(problem: HoldfastError) -> bytes:
    return framed(orjson.dumps({"error": error_object(problem)}))


def told_usage(whole: bytes) -> TokensUsed | None:
    """The usage of a whole answer."""
    try:
        value = loads_strange(whole)
    except orjson.JSONDecodeError:
        return None
    return _tokens(value)


def streamed_usage(tail: bytes) -> TokensUsed | None:
    """The usage that the last events of a stream tell; None where the client did not ask for it."""
    if b'"usage"' not in tail:
        return None
    for line in reversed(tail.split(b"\n")):
        if line.startswith(b"data:") and b'"usage"' in line:
            found = told_usage(line[5:])
            if found is not None:
                return found
    return None


def estimate(body: Json) -> int:
    """About how many tokens a request has: four bytes each."""
    return len(orjson.dumps(body.get("messages") or body.get("input") or "")) // 4


def _tokens(value: object) -> TokensUsed | None:
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    given = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    made = usage.get("completion_tokens", usage.get("output_tokens", 0))
    if isinstance(given, bool) or not isinstance(given, int) or isinstance(made, bool) or not isinstance(made, int):
        return None
    return TokensUsed(max(0, given), max(0, made))
