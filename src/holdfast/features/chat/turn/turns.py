"""Owns a turn: write down what was said, offer tools, run the loop or Deep Think, write down what came of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.core.errors import FieldError, HoldfastError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.metering import Metered
from holdfast.engines.llm.model import (
    CallEvent,
    ChunkEvent,
    Done,
    Json,
    LanguageModel,
    LoopEvent,
    LoopRequest,
    SideEvent,
    Tally,
)
from holdfast.features.chat.model import EndedTurn, Opened, Served
from holdfast.features.chat.turn.continuation import Continuations
from holdfast.features.chat.turn.record import TurnRecord
from holdfast.features.chat.turn.reminders import Reminders, with_reminders
from holdfast.features.chat.turn.selection import DEEP_THINK, MAX_ROUNDS, ToolOptions, tool_options, upstream_body
from holdfast.features.chat.turn.tools import ChatTools, TurnPlace
from holdfast.features.chat.turn.trail import conversation
from holdfast.features.usage.service import Usage
from holdfast.features.workspaces.service import Workspaces

RESULT_CHARACTERS = 4_000
"""How much of a call's result is kept with the message."""


class DeepThinking(Protocol):
    """Researches in depth instead of one loop; the same events, `Done` last."""

    def __call__(self, place: TurnPlace, model: LanguageModel, request: LoopRequest) -> AsyncIterator[LoopEvent]: ...


@dataclass(slots=True)
class _Heard:
    """What a turn's events told so far."""

    content: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    research: Json = field(default_factory=dict)
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """A turn whose model is about to be asked."""

    opened: Opened | None
    memories: Sequence[Json]
    """What the model is reminded of."""
    messages: list[Json]
    """What it sees."""
    said: Sequence[Json]
    """The conversation as the client has it."""


class ChatTurns:
    """Takes turns for the OpenAI surface, in a chat or without one."""

    def __init__(
        self,
        record: TurnRecord,
        tools: ChatTools,
        reminders: Reminders,
        workspaces: Workspaces,
        usage: Usage,
        loop: Loop,
        continuations: Continuations,
        *,
        deep_think: DeepThinking | None = None,
        max_rounds: int = MAX_ROUNDS,
    ) -> None:
        self._record = record
        self._tools = tools
        self._reminders = reminders
        self._workspaces = workspaces
        self._usage = usage
        self._loop = loop
        self._continuations = continuations
        self._deep_think = deep_think
        self._max_rounds = max_rounds

    async def turn(
        self,
        principal: Principal,
        project_id: str,
        workspace_id: str | None,
        endpoint: Served,
        body: Json,
        chat_id: str | None = None,
    ) -> AsyncGenerator[LoopEvent, None]:
        """The events of one turn: chunks and `x_…` events as they come, `x_chat.metadata`, then `Done`.

        What is wrong with the request is raised before the first event. Closing the iterator hangs up, and what was
        said until then is kept as interrupted.
        """
        principal.require("inference")
        options = tool_options(body, max_rounds=self._max_rounds)
        if options.deep_think:
            DEEP_THINK.check(principal)
        if options.deep_think and body.get("n") not in (None, 1):
            problem = "leave it out: a research has one report"
            raise Invalid("Only one answer can be researched in depth.", fields=[FieldError("n", problem)])
        if options.deep_think and self._deep_think is None:
            problem = "leave it out; plain research works"
            raise Invalid(
                "Deep Think is not available on this server.",
                fields=[FieldError("web_search_options.x_deep_think", problem)],
            )
        place = TurnPlace(principal, project_id, await self._workspace(principal, project_id, workspace_id), chat_id)
        offered = await self._tools.choose(place, options, endpoint.disabled_tools)
        begun = await self._open(place, endpoint, body)
        request = LoopRequest(
            {**upstream_body(body), "messages": begun.messages}, offered.tools, options.max_rounds, offered.turn_away
        )
        heard = _Heard()
        model = Metered(endpoint.model)
        tells = begun.opened is not None or bool(offered.tools)
        ended = False
        try:
            async with aclosing(self._run(place, model, request, options)) as events:
                async for event in events:
                    _hear(heard, event)
                    if isinstance(event, Done):
                        ended = True
                        # A research that goes on tells the tokens of its beginning too, which were counted then.
                        spent = model.tally if options.deep_think else event.tally
                        closing = self._close(place, endpoint, begun, heard, spent)
                        # Shielded, here and below: whoever hangs up must not take along what was said.
                        metadata = await asyncio.shield(closing)
                        if tells:
                            yield SideEvent(metadata)
                    elif tells and isinstance(event, ChunkEvent) and "usage" in event.chunk:
                        # Told once, with the metadata: some clients add up every usage that they see.
                        if event.chunk.get("choices"):
                            yield ChunkEvent({key: value for key, value in event.chunk.items() if key != "usage"})
                        continue
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            if not ended:
                await asyncio.shield(self._close(place, endpoint, begun, heard, model.tally))
            raise
        except HoldfastError:
            if not ended:
                self._log(place, endpoint, model.tally)
            raise

    async def _workspace(self, principal: Principal, project_id: str, workspace_id: str | None) -> str:
        if workspace_id is not None:
            found = await self._workspaces.get(principal, workspace_id)
            if found.project_id != project_id:
                raise NotFound("workspace", workspace_id)
            return found.id
        page = await self._workspaces.list(principal, project_id=project_id, limit=1)
        if not page.items:
            raise Invalid("The project has no workspace that this credential sees; make one first.")
        return page.items[0].id

    async def _open(self, place: TurnPlace, endpoint: Served, body: Json) -> "_Begun":
        """Keep what is new of the request, and find out what the model is to see."""
        if place.chat_id is None:
            conversation(body.get("messages"))
            said: list[Json] = body["messages"]
            return _Begun(None, [], await self._continuations.restore(place, said), said)
        opened = await self._record.open(place.principal, place.workspace_id, place.chat_id, endpoint.name, body)
        if opened.resumed is not None:
            return _Begun(opened, [], opened.messages, opened.said)
        memories = await self._reminders.about(place.principal, place.workspace_id, opened.asked, place.chat_id)
        messages = await self._continuations.restore(place, opened.messages)
        return _Begun(opened, memories, with_reminders(messages, memories), opened.said)

    async def _run(
        self, place: TurnPlace, model: LanguageModel, request: LoopRequest, options: ToolOptions
    ) -> AsyncGenerator[LoopEvent, None]:
        if options.deep_think and self._deep_think is not None:
            events = self._deep_think(place, model, request)
        else:
            events = self._loop.run(model, request)
        try:
            async for event in events:
                yield event
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _close(
        self,
        place: TurnPlace,
        endpoint: Served,
        begun: "_Begun",
        heard: _Heard,
        spent: Tally,
    ) -> Json:
        """Count what was spent and keep what the turn was; what its stream ends with."""
        done, opened, memories = heard.done, begun.opened, begun.memories
        tally = done.tally if done else Tally()
        cost = endpoint.cost(tally)
        self._log(place, endpoint, spent)
        answers: Sequence[Done] = () if done is None else done.answers or (done,)
        for answer in answers:
            await self._continuations.keep(place, begun.said, answer, () if opened is None else opened.unseen)
        metadata: Json = {"type": "x_chat.metadata", "usage": _usage(heard, tally, cost)}
        if opened is None:
            return metadata
        ids = [await self._keep(place, endpoint, opened, begun, heard, answer) for answer in answers or (None,)]
        # Answers in the same words are one branch.
        kept = list(dict.fromkeys(ids))
        return {
            **metadata,
            "chat_id": opened.chat.id,
            "message_id": kept[0],
            **({"message_ids": kept} if len(kept) > 1 else {}),
            "parent_id": opened.parent_id,
            "memories": list(memories),
        }

    async def _keep(
        self, place: TurnPlace, endpoint: Served, opened: Opened, begun: "_Begun", heard: _Heard, done: Done | None
    ) -> str:
        """Keep an answer below what was asked, or what was said of it until the client hung up. Its id."""
        tally = done.tally if done else Tally()
        # Of several answers the first one has the calls: they are told as they end, not by whom they were asked for.
        is_first = heard.done is None or done is (heard.done.answers or (heard.done,))[0]
        answered = EndedTurn(
            message=done.message if done else {"role": "assistant", "content": "".join(heard.content)},
            state="interrupted" if done is None else "waiting" if done.pause else "complete",
            model=endpoint.model.name,
            finish_reason=done.finish_reason if done else "",
            calls=heard.calls if is_first else (),
            memories=begun.memories,
            tally=tally,
            cost=endpoint.cost(tally),
        )
        return await self._record.close(place.principal, opened, answered, done, begun.messages)

    def _log(self, place: TurnPlace, endpoint: Served, tally: Tally) -> None:
        self._usage.log(
            place.principal,
            source="chat",
            operation="chat.completions",
            model=endpoint.model.name,
            tokens_in=tally.input_tokens,
            tokens_out=tally.output_tokens,
            cost=endpoint.cost(tally),
            workspace_id=place.workspace_id,
            project_id=place.project_id,
        )


def _hear(heard: _Heard, event: LoopEvent) -> None:
    if isinstance(event, ChunkEvent):
        for choice in event.chunk.get("choices") or ():
            text = (choice.get("delta") or {}).get("content")
            if isinstance(text, str) and not choice.get("index"):
                heard.content.append(text)
    elif isinstance(event, CallEvent):
        result = event.outcome.text
        heard.calls.append(
            {
                "id": event.call_id,
                "name": event.name,
                "arguments": event.arguments,
                "failed": event.failed,
                "result": result[:RESULT_CHARACTERS],
                "truncated": len(result) > RESULT_CHARACTERS,
            }
        )
    elif isinstance(event, SideEvent):
        if event.data.get("type") == "x_research.complete":
            heard.research = event.data
    else:
        heard.done = event


def _usage(heard: _Heard, tally: Tally, cost: float) -> Json:
    """The turn's one usage: what OpenAI's clients read in the upstream's own fields, and ours."""
    research = heard.research
    told = heard.done.usage if heard.done else {}
    return {
        **told,
        "prompt_tokens": tally.input_tokens,
        "completion_tokens": tally.output_tokens,
        "total_tokens": told.get("total_tokens") or tally.total,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "cost": cost,
        "research": {
            "input_tokens": research.get("input_tokens", 0),
            "output_tokens": research.get("output_tokens", 0),
            "iterations": research.get("iterations", 0),
            "sources": research.get("sources", 0),
            "elapsed_ms": research.get("elapsed_ms", 0),
            "tool_calls": len(heard.calls),
        },
    }
