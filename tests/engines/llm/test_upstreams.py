"""Several upstreams: who is asked, who is asked again, who is left alone, and what a client hears when all fail."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.engines.llm.remote import upstream
from holdfast.engines.llm.remote.connection import Timeouts, UpstreamConnections
from holdfast.engines.llm.remote.upstream import Upstream, UpstreamRefused, UpstreamSpec
from holdfast.engines.llm.remote.upstreams import Upstreams
from holdfast.engines.llm.remote.wire import UpstreamCut, UpstreamTimeout, UpstreamUnreachable
from tests.fakes.llm.model import KEY, FakeModel, Turn, model, says
from tests.support.access.credentials import credential

BODY: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}
BUSY = Turn(status=503, body={"error": {"message": "overloaded"}})


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class World:
    def __init__(self, connections: UpstreamConnections, fakes: list[FakeModel]) -> None:
        self.time = Time()
        self.first, self.second = fakes
        self._connections = connections

    def both(self, first: Timeouts | None = None, second: Timeouts | None = None) -> Upstreams:
        specs = [
            UpstreamSpec(
                self.second.url, "second", credential(KEY, self.second.url), priority=2, timeouts=second or Timeouts()
            ),
            UpstreamSpec(
                self.first.url, "first", credential(KEY, self.first.url), priority=1, timeouts=first or Timeouts()
            ),
        ]
        return self._made(specs)

    def one(self) -> Upstreams:
        return self._made([UpstreamSpec(self.first.url, "first", credential(KEY, self.first.url))])

    def _made(self, specs: list[UpstreamSpec]) -> Upstreams:
        upstreams = [Upstream(spec, self._connections) for spec in specs]
        return Upstreams(upstreams, now=self.time.now, sleep=self.time.sleep, jitter=lambda: 0.5)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    connections = UpstreamConnections()
    async with model() as first, model() as second:
        first.otherwise, second.otherwise = says("first"), says("second")
        yield World(connections, [first, second])
        await connections.aclose()


async def text_of(asked: Upstreams) -> str:
    return "".join(
        [choice["delta"].get("content") or "" async for chunk in asked.stream(BODY) for choice in chunk["choices"]]
    )


async def relay(asked: Upstreams) -> tuple[int, bytes]:
    answer = await asked.relay("POST", "/chat/completions", {}, {**BODY, "stream": True})
    return answer.status, b"".join([piece async for piece in answer.body])


async def test_the_lowest_priority_number_is_asked_with_its_own_model(world: World) -> None:
    asked = world.both()
    assert (await text_of(asked), asked.name) == ("first", "first")
    assert world.first.requests[0]["model"] == "first"
    assert world.second.requests == []


@pytest.mark.parametrize(
    "turn",
    [
        BUSY,
        Turn(status=429),
        Turn(status=401),
        Turn(raw=b""),
        Turn(raw=b"nonsense\r\n\r\n"),
        Turn(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"),
    ],
)
async def test_before_the_first_byte_the_next_upstream_takes_over(world: World, turn: Turn) -> None:
    world.first.script = [turn]
    asked = world.both()
    assert await text_of(asked) == "second"
    world.first.script = [turn]
    assert (await relay(world.both()))[0] == 200
    assert [request["model"] for request in world.second.requests] == ["second", "second"]
    assert world.time.slept == []


async def test_a_silent_upstream_is_left_for_the_next_and_not_waited_for_twice(world: World) -> None:
    world.first.otherwise = Turn(silent=True)
    short = Timeouts(first_byte_seconds=0.5)
    assert await text_of(world.both(short)) == "second"
    world.second.otherwise = Turn(silent=True)
    with pytest.raises(UpstreamTimeout):
        await text_of(world.both(short, short))
    assert len(world.first.requests) <= 2


async def test_a_resting_upstream_is_asked_last_and_again_when_rested(world: World) -> None:
    world.first.script = [BUSY]
    asked = world.both()
    assert [await text_of(asked), await text_of(asked)] == ["second", "second"]
    assert len(world.first.requests) == 1
    assert asked.health[0][1].failures == 1
    world.time.at += 5
    assert await text_of(asked) == "first"
    assert asked.health[0][1].failures == 0


async def test_a_single_upstream_is_asked_again_behind_growing_pauses(world: World) -> None:
    world.first.script = [BUSY, BUSY]
    assert await text_of(world.one()) == "first"
    assert world.time.slept == [0.25, 0.5]


async def test_a_short_retry_after_is_waited_for(world: World) -> None:
    world.first.script = [Turn(status=429, headers={"retry-after": "3"})]
    assert await text_of(world.one()) == "first"
    assert world.time.slept == [3.0]


async def test_a_long_retry_after_is_told_to_the_client_at_once(world: World) -> None:
    world.first.script = [Turn(status=429, headers={"retry-after": "40"}, body={"error": {"message": "slow"}})]
    asked = world.one()
    with pytest.raises(UpstreamRefused) as refused:
        await relay(asked)
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "40"})
    world.time.at += 10
    with pytest.raises(RateLimited) as limited:
        await text_of(asked)
    assert limited.value.headers == {"Retry-After": "30"}
    assert len(world.first.requests) == 1
    assert world.time.slept == []


async def test_a_sleep_that_ends_early_costs_no_attempt(world: World) -> None:
    async def a_moment_less(seconds: float) -> None:
        world.time.slept.append(seconds)
        world.time.at += seconds - 0.001

    world.time.sleep = a_moment_less  # type: ignore[method-assign]
    world.first.script = [Turn(status=429, headers={"retry-after": "3"})] * 2
    assert await text_of(world.one()) == "first"
    assert (len(world.first.requests), world.time.slept) == (3, [3.0, 3.0])


async def test_who_comes_while_an_upstream_must_not_be_asked_waits_and_keeps_every_attempt(world: World) -> None:
    world.first.script = [Turn(status=429, headers={"retry-after": "40"})]
    asked = world.one()
    with pytest.raises(UpstreamRefused):
        await text_of(asked)
    world.time.at += 35
    world.first.script = [BUSY, BUSY]
    assert await text_of(asked) == "first"
    assert (len(world.first.requests), world.time.slept) == (4, [5.0, 0.25, 0.5])


async def test_all_waits_of_a_request_together_are_bounded(world: World) -> None:
    world.first.otherwise = Turn(status=429, headers={"retry-after": "6"})
    with pytest.raises(UpstreamRefused) as refused:
        await text_of(world.one())
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "6"})
    assert (len(world.first.requests), world.time.slept) == (2, [6.0])


@pytest.mark.parametrize("said", ["1", "9.5", "40", "86400", "1000000000"])
@pytest.mark.parametrize("others", [[], [BUSY], [BUSY, BUSY], [Turn(status=429, headers={"retry-after": "1"})]])
async def test_one_upstreams_429_never_keeps_another_from_answering(
    world: World, said: str, others: list[Turn]
) -> None:
    world.first.otherwise = Turn(status=429, headers={"retry-after": said})
    world.second.script = list(others)
    asked = world.both()
    assert await text_of(asked) == "second"
    waits = sum(world.time.slept)
    assert waits <= 1.0
    assert [(await relay(asked))[0], await text_of(asked)] == [200, "second"]
    assert sum(world.time.slept) == waits, "nobody waits while an upstream is well"


@pytest.mark.parametrize("silent", [True, False], ids=["stalled", "closed"])
async def test_a_refusal_whose_words_do_not_come_is_a_refusal_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(upstream, "ERROR_BODY_SECONDS", 0.05)
    head = b"HTTP/1.1 429 Busy\r\ncontent-type: application/json\r\ncontent-length: 99\r\nretry-after: 40\r\n\r\n{"
    world.first.otherwise = Turn(raw=head, silent=silent)
    assert await text_of(world.both()) == "second"
    with pytest.raises(UpstreamRefused) as refused:
        await text_of(world.one())
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "40"})


async def test_an_upstream_that_names_an_hour_is_asked_again_after_a_minute(world: World) -> None:
    world.first.script = [Turn(status=429, headers={"retry-after": "3600"})]
    asked = world.one()
    with pytest.raises(UpstreamRefused) as refused:
        await text_of(asked)
    assert refused.value.headers == {"Retry-After": "3600"}
    with pytest.raises(RateLimited) as limited:
        await text_of(asked)
    assert limited.value.headers == {"Retry-After": "60"}
    world.time.at += 60
    assert await text_of(asked) == "first"
    assert world.time.slept == []


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"retry-after": "2.2"}, "3"),
        ({"retry-after-ms": "11500", "retry-after": "40"}, "12"),
        ({"date": "Wed, 18 Nov 2026 07:00:00 GMT", "retry-after": "Wed, 18 Nov 2026 07:00:42 GMT"}, "42"),
        ({"date": "Wed, 18 Nov 2026 07:00:00 GMT", "retry-after": "Wed, 18 Nov 2026 06:59:00 GMT"}, "1"),
        ({"retry-after": "inf"}, "86400"),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Nov 2026 07:00:42 GMT"}, None),
    ],
)
async def test_a_retry_after_is_read_however_it_is_written(
    world: World, headers: dict[str, str], told: str | None
) -> None:
    world.first.otherwise = Turn(status=429, headers=headers)
    with pytest.raises(UpstreamRefused) as refused:
        await text_of(world.one())
    assert refused.value.headers.get("Retry-After") == told


async def test_when_all_fail_the_last_problem_is_told(world: World) -> None:
    world.first.otherwise = world.second.otherwise = BUSY
    with pytest.raises(UpstreamRefused, match="503: overloaded"):
        await text_of(world.both())
    assert len(world.first.requests) == len(world.second.requests) == 3


async def test_a_request_that_is_wrong_is_not_sent_elsewhere(world: World) -> None:
    world.first.script = [Turn(status=400, body={"error": {"message": "context too long"}})] * 2
    asked = world.both()
    with pytest.raises(UpstreamRefused, match="context too long") as caught:
        await text_of(asked)
    assert caught.value.status == 400
    assert (await relay(asked))[0] == 400
    assert world.second.requests == []


async def test_after_the_first_byte_nothing_is_sent_twice(world: World) -> None:
    world.first.script = [says("a b c", cut_after=2), says("a b c", cut_after=2)]
    asked = world.both()
    with pytest.raises(UpstreamCut):
        await text_of(asked)
    with pytest.raises(UpstreamCut):
        await relay(asked)
    assert world.second.requests == []


async def test_cancelling_during_a_pause_ends_it(world: World) -> None:
    world.first.otherwise = BUSY
    paused = asyncio.Event()

    async def forever(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    connections = UpstreamConnections()
    asked = Upstreams(
        [Upstream(UpstreamSpec(world.first.url, "first", credential(KEY, world.first.url)), connections)], sleep=forever
    )
    task = asyncio.create_task(text_of(asked))
    await asyncio.wait_for(paused.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await connections.aclose()


async def test_nobody_there_is_unreachable() -> None:
    async with model() as fake:
        url = fake.url
    connections = UpstreamConnections()
    time = Time()
    asked = Upstreams([Upstream(UpstreamSpec(url, "gone"), connections)], now=time.now, sleep=time.sleep)
    with pytest.raises(UpstreamUnreachable):
        await text_of(asked)
    assert len(time.slept) == 2
