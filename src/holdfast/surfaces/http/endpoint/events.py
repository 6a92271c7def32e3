"""Owns waiting for the events of an answer: who makes them, and a queue that can be left and taken up again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.core.principal import Principal
from holdfast.engines.llm.model import Json, LoopEvent
from holdfast.features.endpoints.models import Connected

_AHEAD = 64

T = TypeVar("T")


class TurnTaker(Protocol):
    """Takes a turn: the model behind an endpoint, with the tools that the request opted in to."""

    def turn(
        self,
        principal: Principal,
        project_id: str,
        workspace_id: str | None,
        endpoint: Connected,
        body: Json,
        chat_id: str | None,
    ) -> AsyncIterator[LoopEvent]:
        """The events, `Done` last. What is wrong with the request is raised before the first."""
        ...


@dataclass(frozen=True, slots=True)
class End:
    """The events are over, one way or the other."""

    problem: Exception | None = None


@asynccontextmanager
async def pumped(events: AsyncIterator[T]) -> AsyncIterator["asyncio.Queue[T | End]"]:
    """The events from a task of their own, so that waiting for the next one can be given up and taken up again."""
    queue: asyncio.Queue[T | End] = asyncio.Queue(_AHEAD)

    async def pump() -> None:
        try:
            async for event in events:
                await queue.put(event)
        except Exception as problem:
            await queue.put(End(problem))
        else:
            await queue.put(End())
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    task = asyncio.create_task(pump())
    try:
        yield queue
    finally:
        task.cancel()
        # Whatever the events hold open (an upstream, running tools) is let go before the request ends.
        await asyncio.gather(task, return_exceptions=True)
