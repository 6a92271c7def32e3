"""Owns several answers to one question while tools are in play: each is a turn of its own, told as a choice."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from holdfast.engines.llm.assembly import add_usage, tally_of
from holdfast.engines.llm.model import ChunkEvent, Done, Json, LoopEvent, SideEvent

MAX_ANSWERS = 8
_AHEAD = 64

Events = AsyncGenerator[LoopEvent, None]


@dataclass(frozen=True, slots=True)
class _ChoiceEvent:
    """An event of one of the turns; None when it is over."""

    choice: int
    event: LoopEvent | None
    problem: Exception | None = None


async def several(turns: Sequence[Events], *, wants_usage: bool) -> Events:
    """The turns side by side, as one: usage and the end come when all are done, and where one fails all do."""
    queue: asyncio.Queue[_ChoiceEvent] = asyncio.Queue(_AHEAD)
    tasks = [asyncio.create_task(_pump(turn, choice, queue)) for choice, turn in enumerate(turns)]
    answers: dict[int, Done] = {}
    stamp: Json = {}
    running = len(tasks)
    try:
        while running:
            heard = await queue.get()
            if heard.problem is not None:
                raise heard.problem
            if heard.event is None:
                running -= 1
            elif isinstance(heard.event, Done):
                answers[heard.choice] = heard.event
            elif not isinstance(heard.event, ChunkEvent):
                yield _numbered(heard.event, heard.choice)
            elif heard.event.chunk.get("choices"):
                stamp = {key: value for key, value in heard.event.chunk.items() if key not in ("choices", "usage")}
                yield ChunkEvent(_placed(heard.event.chunk, heard.choice))
        done = _together([answers[choice] for choice in sorted(answers)])
        if wants_usage:
            yield ChunkEvent({**stamp, "choices": [], "usage": done.usage})
        yield done
    finally:
        for task in tasks:
            task.cancel()
        # Whatever the turns hold open (upstreams, running tools) is let go before this one ends.
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(turn: Events, choice: int, queue: "asyncio.Queue[_ChoiceEvent]") -> None:
    try:
        async with aclosing(turn):
            async for event in turn:
                await queue.put(_ChoiceEvent(choice, event))
    except Exception as problem:
        await queue.put(_ChoiceEvent(choice, None, problem))
    else:
        await queue.put(_ChoiceEvent(choice, None))


def _placed(chunk: Json, choice: int) -> Json:
    return {**chunk, "choices": [{**each, "index": choice} for each in chunk["choices"]]}


def _numbered(event: LoopEvent, choice: int) -> LoopEvent:
    """Events of our own say which choice they are about."""
    return SideEvent({**event.data, "choice_index": choice}) if isinstance(event, SideEvent) else event


def _together(answers: Sequence[Done]) -> Done:
    usage: Json = {}
    for answer in answers:
        usage = add_usage(usage, answer.usage)
    return replace(
        answers[0],
        tally=tally_of(usage),
        rounds=sum(answer.rounds for answer in answers),
        sources=sum(answer.sources for answer in answers),
        elapsed_ms=max(answer.elapsed_ms for answer in answers),
        usage=usage,
        answers=tuple(answers),
    )
