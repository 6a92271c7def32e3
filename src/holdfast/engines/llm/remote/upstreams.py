"""Owns several upstreams behind one name: the order they are asked in, their health, retries and fallback."""

import asyncio
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core.errors import HoldfastError, RateLimited, UpstreamFailed
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.llm.remote.names import ToolNames
from holdfast.engines.llm.remote.upstream import (
    BegunAnswer,
    Kind,
    Relayed,
    Upstream,
    UpstreamRefused,
    is_for_others,
    refusal,
    relayed,
)
from holdfast.engines.llm.remote.wire import UpstreamCut, UpstreamTimeout, UpstreamUnreachable

PASSES = 3
LONGEST_WAIT_SECONDS = 10.0
"""How long one request waits between its passes, all waits together."""
_FIRST_BACKOFF_SECONDS = 0.25
_FIRST_REST_SECONDS = 2.0
_LONGEST_REST_SECONDS = 60.0

T = TypeVar("T")


@dataclass(slots=True)
class Health:
    """How an upstream did lately. While it rests it is asked last; before `not_before` it is not asked at all."""

    failures: int = 0
    rests_until: float = 0.0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A client's request in its own wire, and how it is said in chat."""

    kind: Kind
    path: str
    body: Json
    chat: Callable[[], Json]
    """Its Chat Completions body, for upstreams of the other wire; Invalid where it cannot be said so."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """Which model answers, and what came of it."""

    model: str
    answer: Relayed | BegunAnswer


class Upstreams:
    """A Model over several upstreams, the lowest priority number first.

    Until the first byte of an answer a failed request goes to the next upstream, and after all failed once more
    to each, behind a pause with jitter. A Retry-After is obeyed for up to a minute: whoever names an hour is asked
    again before, as limits are raised meanwhile. After the first byte nothing is sent twice.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        passes: int = PASSES,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not upstreams:
            raise ValueError("An endpoint needs an upstream.")
        self._upstreams = sorted(upstreams, key=lambda each: each.spec.priority)
        self._health = {id(each): Health() for each in self._upstreams}
        self._has_failed = False
        """Whether any has failed since it last answered. Mostly none has: then nobody's health need be looked at."""
        self._passes = passes
        self._now = now
        self._sleep = sleep
        self._jitter = jitter

    @property
    def name(self) -> str:
        """The model that is asked first."""
        return self._upstreams[0].name

    @property
    def health(self) -> list[tuple[Upstream, Health]]:
        """Each upstream and how it does, in the order of priority."""
        return [(each, self._health[id(each)]) for each in self._upstreams]

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        """The chunks of the first upstream that answers."""

        async def ask(upstream: Upstream) -> BegunAnswer:
            return await upstream.open_chat(body)

        opened = await self._first(ask)
        async with aclosing(opened.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def relay(
        self, method: str, path: str, headers: Mapping[bytes, bytes], body: Json | bytes | None = None
    ) -> Relayed:
        """The bytes of the first upstream that answers, whatever else it says; UpstreamFailed when none does."""

        async def ask(upstream: Upstream) -> Relayed:
            return await _relay(upstream, method, path, headers, body)

        return await self._first(ask)

    async def exchange(self, request: WireRequest, headers: Mapping[bytes, bytes]) -> WireAnswer:
        """The first answer: bytes from an upstream that speaks the client's wire, else chunks to translate."""

        async def ask(upstream: Upstream) -> WireAnswer:
            if upstream.spec.kind != request.kind:
                whole = not request.body.get("stream")
                return WireAnswer(upstream.name, await upstream.open_chat(request.chat(), whole=whole))
            relayed = await _relay(upstream, "POST", request.path, headers, request.body)
            if relayed.status == 200 and _is_odd(relayed.answer, streamed=bool(request.body.get("stream"))):
                # The client would take nothing out of it; what is read is told as it asked.
                return WireAnswer(upstream.name, BegunAnswer(relayed.answer, ToolNames(()), request.kind))
            return WireAnswer(upstream.name, relayed)

        return await self._first(ask)

    def speak(self, kind: Kind) -> bool:
        """Whether every upstream speaks this wire."""
        return all(each.spec.kind == kind for each in self._upstreams)

    async def _first(self, ask: Callable[[Upstream], Awaitable[T]]) -> T:
        problem: HoldfastError | None = None
        hopeless: set[int] = set()
        waited = 0.0
        for attempt in range(self._passes):
            now, wait = self._now(), self._pause(attempt, hopeless)
            if waited + wait > LONGEST_WAIT_SECONDS:
                break
            if wait > 0:
                await self._sleep(wait)
                # A sleep may end a moment early, and whoever it was for must not be passed over then.
                now, waited = max(self._now(), now + wait), waited + wait
            for upstream in self._order(hopeless, now):
                try:
                    found = await ask(upstream)
                except UpstreamFailed as failed:
                    if isinstance(failed, UpstreamRefused) and not failed.elsewhere:
                        raise
                    problem = failed
                    self._failed(upstream, failed)
                    if not _is_worth_repeating(failed):
                        hopeless.add(id(upstream))
                else:
                    if self._health[id(upstream)].failures:
                        self._health[id(upstream)] = Health()
                        self._has_failed = any(health.failures for health in self._health.values())
                    return found
            if len(hopeless) == len(self._upstreams):
                break
        raise problem or self._busy()

    def _busy(self) -> RateLimited:
        """Every upstream told us to wait, and longer than a client would."""
        seconds = max(1, math.ceil(min(health.not_before for health in self._health.values()) - self._now()))
        message = f"Every upstream asked for patience. Try again in {seconds} seconds."
        return RateLimited(message, headers={"Retry-After": str(seconds)})

    def _order(self, hopeless: Collection[int], now: float) -> list[Upstream]:
        """Who may be asked now: the rested before the resting, each by priority."""
        if not hopeless and not self._has_failed:
            return self._upstreams
        allowed = [
            each for each in self._upstreams if id(each) not in hopeless and self._health[id(each)].not_before <= now
        ]
        return sorted(allowed, key=lambda each: self._health[id(each)].rests_until > now)

    def _pause(self, attempt: int, hopeless: Collection[int]) -> float:
        """Nothing before the first pass, backoff with jitter before others; at least until somebody may be asked."""
        if not attempt and not self._has_failed:
            return 0.0
        backoff: float = _FIRST_BACKOFF_SECONDS * 2 ** (attempt - 1) * (0.5 + self._jitter()) if attempt else 0.0
        soonest = min(health.not_before for key, health in self._health.items() if key not in hopeless) - self._now()
        return max(backoff, soonest)

    def _failed(self, upstream: Upstream, problem: UpstreamFailed) -> None:
        self._has_failed = True
        health = self._health[id(upstream)]
        health.failures += 1
        now = self._now()
        rest = min(_LONGEST_REST_SECONDS, _FIRST_REST_SECONDS * 2 ** (health.failures - 1))
        health.rests_until = now + rest
        if isinstance(problem, UpstreamRefused) and problem.retry_after is not None:
            health.not_before = now + min(problem.retry_after, _LONGEST_REST_SECONDS)


async def _relay(
    upstream: Upstream, method: str, path: str, headers: Mapping[bytes, bytes], body: Json | bytes | None
) -> Relayed:
    answer = await upstream.open(method, path, headers, body)
    if is_for_others(answer.status):
        raise await refusal(answer)
    await answer.ready()
    if answer.status in (200, 204):
        answer.check()
    return relayed(answer)


def _is_odd(answer: UpstreamAnswer, *, streamed: bool) -> bool:
    """Whether an answer came at once that was to stream, or the other way round, or may be a failure in disguise."""
    return (answer.is_object if streamed else answer.is_events) or answer.may_be_failure


def _is_worth_repeating(problem: UpstreamFailed) -> bool:
    """A refused credential stays refused, and who let us wait for minutes is not waited for twice."""
    if isinstance(problem, UpstreamRefused):
        return problem.retryable
    return isinstance(problem, (UpstreamUnreachable, UpstreamCut)) and not isinstance(problem, UpstreamTimeout)
