"""Owns what every conversation with an agent has in common: turns, what waits for the next one, and the end."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Literal

from holdfast.engines.runners.base import RunnerEvent, TurnOver
from holdfast.engines.runners.protocols.speech import JsonLines, plain

START_SECONDS = 180.0
"""How long an agent may take to greet us; the slowest needs five seconds on an idle machine."""


Reason = Literal["done", "interrupted", "refused", "limit", "error"]


class AgentConversation(ABC):
    """One agent at work. Everything is read in one place, `events`; so whoever does not read, holds the agent back."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._is_busy = False
        self._waiting: deque[str] = deque()
        self._early: deque[RunnerEvent] = deque()

    async def events(self) -> AsyncIterator[RunnerEvent]:
        """What it tells, until its process ends."""
        while self._early:
            yield self._early.popleft()
        while (message := await self._lines.read()) is not None:
            for event in self._take(message):
                yield event
        ending = await self._lines.ended()
        # Stopped by us, or at the end of its work, it owes nobody an answer.
        if self._is_busy and ending.how != "stopped":
            raise self._lines.failure(f"ended in the middle of its work. {ending.said.removesuffix('.')}")

    async def send(self, text: str) -> None:
        """Say something to it."""
        if self._is_busy:
            self._say_while_busy(text)
        else:
            self.begin(text)

    async def interrupt(self) -> None:
        """Ask it to stop what it does."""
        if self._is_busy:
            self._stop_turn()

    def begin(self, text: str) -> None:
        """Begin a turn."""
        self._is_busy = True
        self._begin(text)

    async def _answer_to(self, is_answer: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Read until an answer that is needed before the first turn; everything else is taken as it comes."""
        while not is_answer(message := await first_answer(self._lines, what)):
            self._early.extend(self._take(message))
        return message

    def _over(self, reason: Reason, text: object) -> Iterable[TurnOver]:
        """A turn's end: the next message's turn begins where one waits, and then nobody needs to hear of it."""
        self._is_busy = False
        if self._waiting:
            self.begin(self._waiting.popleft())
            return ()
        return (TurnOver(reason, plain(text)),)

    def _say_while_busy(self, text: str) -> None:
        """Most listen only between turns."""
        self._waiting.append(text)

    @abstractmethod
    def _begin(self, text: str) -> None:
        """Say the first thing of a turn."""

    @abstractmethod
    def _stop_turn(self) -> None:
        """Ask for the turn's end."""

    @abstractmethod
    def _take(self, message: dict[str, Any]) -> Iterable[RunnerEvent]:
        """What a message tells; answers what it asks."""


async def first_answer(lines: JsonLines, what: str) -> dict[str, Any]:
    """The next message of an agent that has to say something now; RunnerFailed where it does not."""
    try:
        async with asyncio.timeout(START_SECONDS):
            message = await lines.read()
    except TimeoutError:
        raise lines.failure(f"did not answer {what} within {START_SECONDS:g} seconds") from None
    if message is None:
        ending = await lines.ended()
        raise lines.failure(f"ended before it answered {what}. {ending.said.removesuffix('.')}")
    return message
