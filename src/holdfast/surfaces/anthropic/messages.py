"""Owns `/messages`: relayed untouched, translated, or a turn of the loop, by who answers and what runs here."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from itertools import chain

import orjson

from holdfast.core.errors import HoldfastError
from holdfast.core.text.jsontext import dumps, loads_strange
from holdfast.core.text.sse import PING_SECONDS, framed
from holdfast.engines.llm.messages.message_events import MessageEvents, TextDeltas, whole_message
from holdfast.engines.llm.messages.plain import plain_message
from holdfast.engines.llm.messages.words import GIVEN, count, dicts
from holdfast.engines.llm.metering import Meter
from holdfast.engines.llm.model import CallEvent, ChunkEvent, Done, Json, LoopEvent
from holdfast.engines.llm.remote.upstream import BegunAnswer, Relayed
from holdfast.engines.llm.remote.upstreams import Upstreams, WireAnswer, WireRequest
from holdfast.features.usage.service import Usage
from holdfast.surfaces.anthropic.asked import Asked, asked
from holdfast.surfaces.anthropic.blocks import blocks_of
from holdfast.surfaces.anthropic.errors import error_object
from holdfast.surfaces.http.endpoint.errors import as_told
from holdfast.surfaces.http.endpoint.events import End, TurnTaker, pumped
from holdfast.surfaces.http.endpoint.pings import pinged
from holdfast.surfaces.http.endpoint.relay import Passed, TokensUsed, count_tokens, pass_answer
from holdfast.surfaces.http.endpoint.request import EndpointRequest
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.http.sse import EventWriter

PATH = "/messages"
COUNT_PATH = "/messages/count_tokens"
_TEXT_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":'
)
PING = framed(b'{"type": "ping"}', event="ping")


class Messages:
    """Decides who answers."""

    def __init__(self, usage: Usage, turns: TurnTaker) -> None:
        self._usage = usage
        self._turns = turns

    async def create(self, request: EndpointRequest) -> None:
        """One answer, streamed or whole."""
        wanted = asked(request.scope, await request.json())
        request.unhurried()
        upstreams = request.connected.upstreams
        if upstreams is None or wanted.runs_here:
            await self._turn(request, wanted)
            return
        async with while_connected(request.scope, request.receive):
            await self._exchange(request, upstreams, wanted)

    async def count(self, request: EndpointRequest) -> None:
        """How many tokens a request has: as the upstream counts them, or about four bytes each."""
        wanted = asked(request.scope, await request.json())
        upstreams = request.connected.upstreams
        if upstreams is not None and upstreams.speak("anthropic"):
            async with while_connected(request.scope, request.receive):
                sent = dict(request.scope["headers"])
                relayed = await upstreams.relay("POST", _with_query(request, COUNT_PATH), sent, wanted.body)
                await _pass(request, relayed)
            return
        await request.answer({"input_tokens": estimate(wanted.body)})

    async def _exchange(self, request: EndpointRequest, upstreams: Upstreams, wanted: Asked) -> None:
        sent = dict(request.scope["headers"])
        asking = WireRequest("anthropic", _with_query(request, PATH), wanted.body, wanted.chat)
        found = await upstreams.exchange(asking, sent)
        if isinstance(found.answer, Relayed):
            passed = Passed()
            try:
                await _pass(request, found.answer, passed)
            finally:
                # What was used before a client hung up, or the upstream broke off, was used all the same.
                if found.answer.status == 200:
                    count_tokens(self._usage, request, found.model, _used(passed, wanted.body))
            return
        meter = Meter(wanted.body)
        try:
            await _translated(request, wanted, meter, found)
        finally:
            used = meter.tally()
            count_tokens(self._usage, request, found.model, TokensUsed(used.input_tokens, used.output_tokens))

    async def _turn(self, request: EndpointRequest, wanted: Asked) -> None:
        """The turn counts and keeps what it takes by itself."""
        events = self._turns.turn(
            request.principal,
            request.project_id,
            request.workspace_id,
            request.connected,
            wanted.turn(),
            wanted.chat_id,
        )
        told = _Telling(request, wanted, request.connected.model_name)
        async with while_connected(request.scope, request.receive), pumped(events) as queue:
            problem = await _told_all(told, queue)
            if problem is not None:
                await told.fail(as_told(problem, request.scope))


async def _translated(request: EndpointRequest, wanted: Asked, meter: Meter, found: WireAnswer) -> None:
    """Tell an answer of the other wire: at once where that is asked for and it is only text, else by its events."""
    answer = found.answer
    assert isinstance(answer, BegunAnswer)
    whole = None
    if not wanted.body.get("stream"):
        whole = await answer.whole()
        model = _model_name(wanted, found.model)
        message = plain_message(whole, model, lambda: estimate(wanted.body)) if whole is not None else None
        if whole is not None and message is not None:
            meter.hear_usage(whole["usage"])
            await request.answer(message)
            return
    told = _Telling(request, wanted, found.model)
    try:
        await _tell(told, meter, answer, whole)
    except HoldfastError as problem:
        await told.fail(problem)


async def _tell(told: "_Telling", meter: Meter, answer: BegunAnswer, whole: Json | None) -> None:
    """The events of an answer as it comes, or of one that is known whole."""
    async with aclosing(answer.batches(whole)) as batches, pinged(told):
        async for batch in batches:
            meter.hear_all(batch.heard)
            events = told.events.hear_all(batch.heard)
            if batch.is_last:
                await told.end(events)
                return
            await told.tell(events)
    await told.end()


async def _told_all(told: "_Telling", queue: "asyncio.Queue[LoopEvent | End]") -> Exception | None:
    """Tell events until they are over; what went wrong."""
    done: Done | None = None
    while True:
        try:
            async with asyncio.timeout(PING_SECONDS):
                event = await queue.get()
        except TimeoutError:
            await told.ping()
            continue
        try:
            if isinstance(event, ChunkEvent):
                await told.tell(told.events.hear(event.chunk))
            elif isinstance(event, CallEvent):
                await told.tell(told.events.blocks(blocks_of(event)))
            elif isinstance(event, Done):
                done = event
            elif isinstance(event, End):
                if event.problem is None:
                    await told.end(usage=done.usage if done else None)
                return event.problem
        except HoldfastError as problem:
            return problem


class _Telling:
    """An answer on its way to the client: events as they come, or all of it at the end."""

    def __init__(self, request: EndpointRequest, wanted: Asked, model: str) -> None:
        self._request = request
        self._streams = bool(wanted.body.get("stream"))
        self._writer = EventWriter(request.send, request.headers)
        self._kept: list[Json | TextDeltas] = []
        shows = _shows_thinking(wanted.body.get("thinking"))
        self.events = MessageEvents(_model_name(wanted, model), estimate(wanted.body), shows_thinking=shows)
        self._is_begun = False

    async def tell(self, events: Iterable[Json | TextDeltas], *, is_last: bool = False) -> None:
        """Some more of it."""
        told: list[Json | TextDeltas] = [] if self._is_begun else list(self.events.begin())
        self._is_begun = True
        told += events
        if not self._streams:
            self._kept += told
        elif told:
            await self._writer.write(b"".join(map(_framed, told)), is_last=is_last)

    @property
    def spoke_at(self) -> float:
        """The loop's time of the last write."""
        return self._writer.spoke_at

    async def ping(self) -> None:
        """Keep a quiet stream open."""
        if self._streams:
            await self.tell(())
            await self._writer.write(PING)

    async def end(self, events: Iterable[Json | TextDeltas] = (), usage: Json | None = None) -> None:
        """The last of it."""
        await self.tell(chain(events, self.events.finish(usage)), is_last=True)
        if not self._streams:
            await self._request.answer(whole_message(self._kept))

    async def fail(self, problem: HoldfastError) -> None:
        """Raise what can still be answered; tell the rest in the stream."""
        if not self._writer.is_started:
            raise problem
        await self._writer.end(_error_event(problem))


def _shows_thinking(thinking: object) -> bool:
    """Whether the client wants to see thoughts, and not only that the model thinks."""
    if not isinstance(thinking, dict) or thinking.get("type") not in ("enabled", "adaptive", "between_tools"):
        return False
    return thinking.get("display") != "omitted"


def _model_name(wanted: Asked, model: str) -> str:
    """What an answer calls its model: by the client's own name for it."""
    named = wanted.body.get("model")
    return named if isinstance(named, str) and named else model


async def _pass(request: EndpointRequest, relayed: Relayed, passed: Passed | None = None) -> None:
    try:
        await pass_answer(request, relayed, _error_event, passed)
    finally:
        relayed.answer.close()


def _framed(event: Json | TextDeltas) -> bytes:
    if not isinstance(event, TextDeltas):
        return framed(orjson.dumps(event), event=event["type"])
    before = _TEXT_DELTA % event.index
    between = b"}}\n\n" + before
    return before + between.join(map(orjson.dumps, event.texts)) + b"}}\n\n"


def _error_event(problem: HoldfastError) -> bytes:
    return framed(orjson.dumps(error_object(problem)), event="error")


def _with_query(request: EndpointRequest, path: str) -> str:
    """The path with `?beta=true` where the client said so; no other query travels on."""
    return f"{path}?beta=true" if b"beta=true" in request.scope["query_string"].split(b"&") else path


def estimate(body: Json) -> int:
    """About how many tokens a request has: four bytes each."""
    return sum(len(dumps(body[key])) for key in ("system", "messages", "tools") if body.get(key)) // 4 + 1


def _used(passed: Passed, body: Json) -> TokensUsed:
    """What a relayed answer took: told whole, or at a stream's beginning and end."""
    if passed.whole is not None:
        return _tokens(_object(passed.whole).get("usage")) or TokensUsed(0, 0)
    ended = _told_usage(passed.tail) if b'"message_delta"' in passed.tail else {}
    used = _tokens(_told_usage(passed.head) | ended) or TokensUsed(estimate(body), passed.events)
    # Of an answer that did not end its beginning tells what was asked, and of what was said one token.
    return used if ended else TokensUsed(used.input, max(used.output, passed.events))


def _told_usage(part: bytes) -> Json:
    """What the events in a part of a stream say, the later over the earlier."""
    usage: Json = {}
    at = part.find(b'"usage"')
    while at >= 0:
        begin, end = part.rfind(b"\n", 0, at) + 1, part.find(b"\n", at)
        line = part[begin : end if end >= 0 else len(part)]
        event = _object(line[5:]) if line.startswith(b"data:") else {}
        told = event.get("usage") or (event.get("message") or {}).get("usage")
        usage |= {key: value for key, value in told.items() if value is not None} if isinstance(told, dict) else {}
        at = part.find(b'"usage"', begin + len(line))
    return usage


def _tokens(usage: object) -> TokensUsed | None:
    if not isinstance(usage, dict) or not usage:
        return None
    # What a compaction took is told apart, and is in none of the other counts.
    told = [usage, *(each for each in dicts(usage.get("iterations")) if each.get("type") == "compaction")]
    return TokensUsed(
        sum(count(each.get(key)) for each in told for key in GIVEN),
        sum(count(each.get("output_tokens")) for each in told),
    )


def _object(data: bytes) -> Json:
    try:
        value = loads_strange(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
