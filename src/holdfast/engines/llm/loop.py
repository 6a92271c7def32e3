"""Owns the agentic loop: ask the model, run the calls that are ours, ask again, until it answers or calls others."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from holdfast.core.errors import FieldError, Invalid, UpstreamFailed
from holdfast.core.tools.alias import TOOL_CALL
from holdfast.engines.llm.assembly import AskedCall, Assembly, add_usage, tally_of
from holdfast.engines.llm.calls import Finished, Marker, failure, parse_arguments, run_calls
from holdfast.engines.llm.client_chunks import ClientChunks
from holdfast.engines.llm.handing import Handing
from holdfast.engines.llm.model import (
    CallEvent,
    ChunkEvent,
    Done,
    Json,
    LanguageModel,
    LoopEvent,
    LoopRequest,
    LoopTool,
    SideEvent,
)
from holdfast.engines.llm.several import MAX_ANSWERS, several

# Remarks before a call ("Now I'll read the page.") are shorter, answers longer: until it is clear which of them
# a round after research is, its text waits, so that `x_research.complete` comes once and before the answer.
HELD_CHARACTERS = 120
LAST_ROUND = "[No more tool calls are possible in this turn. Answer now with what you have.]"
ONE_QUESTION = "One question at a time: ask this one after the answer."
CLIENT_FIRST = "The client runs its own tools of this round now. Ask the person when their results are there."
NO_ANSWER = "The model asked for more tool calls than this turn allows and gave no answer."


class Loop:
    """Provider-neutral. One instance serves every turn; a turn's state lives in its iterator."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now

    async def run(self, model: LanguageModel, request: LoopRequest) -> AsyncGenerator[LoopEvent, None]:
        """The events of one turn, `Done` last. Closing the iterator hangs up upstream and cancels running tools."""
        count = answers_wanted(request.body) if request.tools else 1
        if count > 1:
            single = replace(request, body={key: value for key, value in request.body.items() if key != "n"})
            turns = [_Turn(model, single, self._now).events() for _ in range(count)]
            running = several(turns, wants_usage=_wants_usage(request.body))
        else:
            running = _Turn(model, request, self._now).events()
        async with aclosing(running) as events:
            async for event in events:
                yield event


class _Turn:
    def __init__(self, model: LanguageModel, request: LoopRequest, now: Callable[[], float]) -> None:
        self._model = model
        self._request = request
        self._now = now
        self._began = now()
        body = request.body
        self._theirs = _client_tools(body)
        names = _names(self._theirs)
        # A client's tool of the same name wins: it was asked for by name.
        self._ours = {tool.name: tool for tool in request.tools if tool.name not in names}
        self._their_names = names
        self._messages: list[Json] = list(body.get("messages") or ())
        self._added_from = len(self._messages)
        self._base = {key: value for key, value in body.items() if key not in _LOOPED and not key.startswith("x_")}
        self._tool_choice = body.get("tool_choice")
        self._whole = _wants_json(body)
        self._voice = ClientChunks(whole=self._whole)
        self._marker = Marker()
        self._usage: Json = {}
        self._rounds = 0
        self._sources = 0
        self._untold_research = False
        self._held: list[Json] = []
        self._answer = Assembly()
        self._handing = Handing(names)

    async def events(self) -> AsyncGenerator[LoopEvent, None]:
        if not self._ours:
            async with aclosing(self._pass_on()) as events:
                async for event in events:
                    yield event
            return
        while True:
            last = self._rounds >= self._request.max_rounds
            async with aclosing(self._ask(last)) as asked:
                async for event in asked:
                    yield event
            calls = self._answer.calls
            theirs = [call for call in calls if call.name in self._their_names]
            # Told to call nothing, some models call all the same: what they call is not run.
            forbidden = last or (self._rounds == 0 and self._tool_choice == "none")
            if len(theirs) == len(calls) or forbidden:
                for event in self._end(theirs, abandoned=len(calls) > len(theirs)):
                    yield event
                return
            for event in self._release(final=False):
                yield event
            pauses: list[Finished] = []
            async with aclosing(self._run(calls, pauses)) as ran:
                async for event in ran:
                    yield event
            if theirs:
                # Ours ran beside them; what they gave is there when the client comes back with its results.
                for event in self._end(theirs, beside=True):
                    yield event
                return
            if pauses:
                for event in self._end_paused(pauses[0]):
                    yield event
                return

    # Asking the model.

    async def _ask(self, last: bool) -> AsyncGenerator[LoopEvent, None]:
        self._answer = Assembly()
        self._handing = Handing(self._their_names)
        self._voice.begin_round()
        self._held = []
        holding = self._untold_research or self._whole
        waiting = 0
        async with _closing(self._model.stream(self._body(last))) as chunks:
            async for chunk in chunks:
                self._answer.add(chunk)
                heard, characters = self._voice.hear(chunk)
                if heard is not None and holding and (characters or self._held):
                    self._held.append(heard)
                    waiting += characters
                    if waiting > HELD_CHARACTERS and not self._whole:
                        holding = False
                        for event in self._release(final=True):
                            yield event
                elif heard is not None:
                    for said in self._voice.say(heard):
                        yield ChunkEvent(said)
                for piece in self._handing.hear(self._answer):
                    # With a call of the client's the turn ends: nothing is left that its text should wait for.
                    holding = False
                    for event in self._hand(piece):
                        yield event
        if self._answer.empty:
            raise UpstreamFailed("The upstream answered without any choice.")
        self._usage = add_usage(self._usage, self._answer.usage)

    def _body(self, last: bool) -> Json:
        body = {**self._base, "messages": self._messages}
        if last and self._theirs:
            body["tools"] = self._theirs
            if self._rounds == 0 and self._tool_choice is not None:
                body["tool_choice"] = self._tool_choice
            return body
        body["tools"] = [*self._theirs, *(_declared(tool) for tool in self._ours.values())]
        if last:
            body["tool_choice"] = "none"
        elif self._rounds == 0 and self._tool_choice is not None:
            # Only the first round is bound by it: "required" would never end.
            body["tool_choice"] = self._tool_choice
        return body

    def _release(self, *, final: bool) -> Iterator[LoopEvent]:
        """Let held text go: behind the end of research when it is the answer, as a remark when calls follow."""
        if final:
            yield from self._tell_research()
        if final or not self._whole:
            for chunk in self._held:
                for said in self._voice.say(chunk):
                    yield ChunkEvent(said)
        self._held = []

    def _hand(self, piece: Json) -> Iterator[LoopEvent]:
        yield from self._release(final=True)
        yield ChunkEvent(self._voice.hand(piece))

    def _tell_research(self) -> Iterator[LoopEvent]:
        if not self._untold_research:
            return
        self._untold_research = False
        tally = tally_of(self._usage)
        yield SideEvent(
            {
                "type": "x_research.complete",
                "elapsed_ms": self._elapsed(),
                "input_tokens": tally.input_tokens,
                "output_tokens": tally.output_tokens,
                "iterations": self._rounds,
                "sources": self._sources,
            }
        )

    # Running calls.

    async def _run(self, calls: list[AskedCall], pauses: list[Finished]) -> AsyncGenerator[LoopEvent, None]:
        mine = [call for call in calls if call.name not in self._their_names]
        pending = {call.id for call in calls if call.name in self._their_names}
        for call in mine:
            begin = _begin(self._ours.get(call.name), call)
            if begin is not None:
                yield SideEvent(begin)
        texts: dict[str, str] = {}
        async with aclosing(run_calls(self._request, self._ours, mine)) as running:
            async for finished in running:
                call, outcome = finished.call, finished.outcome
                if outcome.pause is not None and (pauses or pending):
                    finished = Finished(call, failure(CLIENT_FIRST if pending else ONE_QUESTION), True)
                    outcome = finished.outcome
                elif outcome.pause is not None:
                    pauses.append(finished)
                else:
                    self._sources += outcome.sources
                texts[call.id] = self._text(finished)
                for event in self._tell(finished):
                    yield event
        self._rounds += 1
        self._remember(calls, texts, pending | {pause.call.id for pause in pauses})

    def _text(self, finished: Finished) -> str:
        text = finished.outcome.text
        return self._marker.mark(finished.call.name, text) if finished.outcome.untrusted else text

    def _tell(self, finished: Finished) -> Iterator[LoopEvent]:
        call, outcome = finished.call, finished.outcome
        for data in outcome.events:
            yield SideEvent(data)
        tool = self._ours.get(call.name)
        if tool is not None and tool.research:
            self._untold_research = True
            yield SideEvent({"type": "x_research.result", "name": call.name, "tool_call_id": call.id})
        yield CallEvent(call.id, call.name, call.arguments, outcome, finished.failed)

    def _remember(self, calls: list[AskedCall], texts: dict[str, str], pending: set[str]) -> None:
        """Add a round to what the model sees; results that are pending come with a later request."""
        self._messages.append(_readable(self._answer.message))
        told = [call for call in calls if call.id not in pending]
        last = told[-1].id if told and not pending and self._rounds >= self._request.max_rounds else None
        for call in told:
            text = f"{texts[call.id]}\n\n{LAST_ROUND}" if call.id == last else texts[call.id]
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    # Ending.

    def _end(self, theirs: list[AskedCall], *, abandoned: bool = False, beside: bool = False) -> Iterator[LoopEvent]:
        """Close with an answer, or with the client's calls; `beside` says that ours of the same round ran."""
        yield from self._release(final=True)
        reason = self._answer.finish_reason or "stop"
        message = {key: value for key, value in self._answer.message.items() if key != "tool_calls"}
        if theirs:
            reason = "tool_calls"
            ids = {call.id for call in theirs}
            message["tool_calls"] = [call for call in self._answer.message["tool_calls"] if call["id"] in ids]
            for piece in self._handing.finish(self._answer):
                yield from self._hand(piece)
            if not beside:
                self._messages.append(_readable(message))
        elif abandoned and not self._voice.content:
            for chunk in self._voice.add(NO_ANSWER):
                yield ChunkEvent(chunk)
        if not theirs and reason in ("tool_calls", "function_call"):
            reason = "stop"
        yield from self._close({**message, "content": self._voice.content or None}, reason)

    def _end_paused(self, waiting: Finished) -> Iterator[LoopEvent]:
        yield from self._tell_research()
        assert waiting.outcome.pause is not None
        # Whoever shows nothing but the text has to find the question there.
        for chunk in self._voice.add_paragraph(waiting.outcome.pause.text):
            yield ChunkEvent(chunk)
        yield SideEvent(
            {
                "type": "x_ask_user.pending_state",
                "correlation_id": waiting.outcome.pause.correlation_id,
                "content": self._voice.content,
                "state": "awaiting_user",
            }
        )
        message = {"role": "assistant", "content": self._voice.content or None}
        yield from self._close(message, "stop", waiting)

    def _close(self, message: Json, reason: str, waiting: Finished | None = None) -> Iterator[LoopEvent]:
        for chunk in self._voice.end(reason, self._usage if _wants_usage(self._request.body) else None):
            yield ChunkEvent(chunk)
        yield self._done(message, reason, waiting)

    def _done(self, message: Json, reason: str, waiting: Finished | None = None) -> Done:
        return Done(
            message,
            reason,
            tally_of(self._usage),
            self._rounds,
            self._sources,
            self._elapsed(),
            pause=waiting.outcome.pause if waiting else None,
            pending_call_id=waiting.call.id if waiting else None,
            added=tuple(self._messages[self._added_from :]),
            usage=self._usage,
        )

    def _elapsed(self) -> int:
        return round((self._now() - self._began) * 1000)

    # With no tool of ours every chunk goes on as it comes.

    async def _pass_on(self) -> AsyncGenerator[LoopEvent, None]:
        body = {**self._base, "messages": self._messages}
        if self._request.body.get("tools"):
            body |= {
                name: self._request.body[name] for name in ("tools", "tool_choice") if self._request.body.get(name)
            }
        wants_usage = _wants_usage(self._request.body)
        async with _closing(self._model.stream(body)) as chunks:
            async for chunk in chunks:
                self._answer.add(chunk)
                if chunk.get("choices") or wants_usage or "usage" not in chunk:
                    yield ChunkEvent(chunk)
        if self._answer.empty:
            raise UpstreamFailed("The upstream answered without any choice.")
        self._usage = self._answer.usage
        yield self._done(self._answer.message, self._answer.finish_reason or "stop")


def answers_wanted(body: Json) -> int:
    """How many answers a request wants, where each takes a turn of its own; Invalid for too many."""
    count = body.get("n")
    if count is None:
        return 1
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_ANSWERS:
        problem = f"use a whole number from 1 to {MAX_ANSWERS} while server-side tools are in play"
        raise Invalid("So many answers can't be given.", fields=[FieldError("n", problem)])
    return count


# Set by the loop for each round, or meant for us and not for a model.
_LOOPED = frozenset({"messages", "tools", "tool_choice", "web_search_options"})


@asynccontextmanager
async def _closing(chunks: AsyncIterator[Json]) -> AsyncIterator[AsyncIterator[Json]]:
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _client_tools(body: Json) -> list[Json]:
    tools = body.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _names(tools: list[Json]) -> set[str]:
    functions = [tool.get("function") for tool in tools]
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return {name for name in names if isinstance(name, str)}


def _declared(tool: LoopTool) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _begin(tool: LoopTool | None, call: AskedCall) -> Json | None:
    if tool is None or tool.event is None:
        return None
    begin: Json = {"type": tool.event, "name": call.name, "arguments": call.arguments}
    if tool.event == TOOL_CALL:
        begin |= {"tool_name": call.name, "message": f"Running {call.name}"}
    return begin


def _readable(message: Json) -> Json:
    """The message with arguments that are JSON: upstreams parse the history, and would refuse every later round."""
    calls = [
        {**call, "function": {**call["function"], "arguments": "{}"}}
        if isinstance(parse_arguments(call["function"]["arguments"]), str) or not call["function"]["arguments"]
        else call
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _wants_usage(body: Json) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def _wants_json(body: Json) -> bool:
    wanted: Any = body.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")
