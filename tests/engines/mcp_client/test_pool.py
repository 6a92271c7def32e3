"""Which servers are open: shared starts, reuse, idle ends, pauses after crashes, a bounded number, nothing left."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.engines.mcp_client.base import CallResult, Connection, ServerDescription, ServerFailed, TellProgress
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import hostile


class Plain:
    """A connection that remembers whether it is open."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.closed = False

    async def describe(self) -> ServerDescription:
        return ServerDescription({}, "", ())

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        return CallResult((), None, False)

    def logs(self) -> str:
        return f"last words of {self.name}"

    async def close(self) -> None:
        self.closed = True


class Opening:
    """Opens connections and counts them."""

    def __init__(self) -> None:
        self.made: list[Plain] = []
        self.gate: asyncio.Event | None = None
        self.problem: ServerFailed | None = None
        self.tried = 0

    async def __call__(self) -> Connection:
        self.tried += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.made.append(Plain(str(len(self.made))))
        return self.made[-1]


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def use(pool: ConnectionPool, key: str, opening: Opening) -> Connection:
    async with pool.connection(key, opening) as connection:
        return connection


async def test_concurrent_first_users_share_one_start_and_later_ones_reuse_it() -> None:
    pool, opening = ConnectionPool(), Opening()
    opening.gate = asyncio.Event()
    users = [asyncio.create_task(use(pool, "a", opening)) for _ in range(50)]
    await asyncio.sleep(0)
    opening.gate.set()
    assert len({id(connection) for connection in await asyncio.gather(*users)}) == 1
    await use(pool, "a", opening)
    assert opening.tried == 1
    await use(pool, "b", opening)
    assert await use(pool, "a", opening) is opening.made[0] and opening.tried == 2
    await pool.close()
    assert all(made.closed for made in opening.made)


async def test_the_first_user_giving_up_does_not_take_the_start_from_the_others() -> None:
    pool, opening = ConnectionPool(), Opening()
    opening.gate = asyncio.Event()
    first, second = (asyncio.create_task(use(pool, "a", opening)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    opening.gate.set()
    assert await second is opening.made[0] and opening.tried == 1
    await pool.close()


async def test_what_nobody_uses_is_stopped_and_what_somebody_uses_is_not() -> None:
    now = Time()
    pool, opening = ConnectionPool(idle_seconds=300, now=now), Opening()
    await use(pool, "idle", opening)
    async with pool.connection("busy", opening):
        now.now += 301
        await pool.stop_idle()
        assert [made.closed for made in opening.made] == [True, False]
    await use(pool, "idle", opening)
    assert opening.tried == 3
    await pool.close()


async def test_a_crash_is_followed_by_one_start_at_once_and_then_by_growing_pauses() -> None:
    now = Time()
    pool, opening = ConnectionPool(now=now), Opening()
    await use(pool, "a", opening)
    opening.made[-1].closed = True
    await use(pool, "a", opening)
    assert opening.tried == 2
    for pause in (1, 2, 4, 8):
        opening.made[-1].closed = True
        with pytest.raises(ServerFailed, match=f"started again in {pause} seconds"):
            await use(pool, "a", opening)
        now.now += pause
        await use(pool, "a", opening)
    now.now += 61
    opening.made[-1].closed = True
    await use(pool, "a", opening)
    await pool.close()


async def test_a_start_that_fails_is_told_to_all_and_not_repeated_at_once() -> None:
    now = Time()
    pool, opening = ConnectionPool(now=now), Opening()
    opening.problem = ServerFailed("x did not start. Its last words: no license key")
    answers = await asyncio.gather(*(use(pool, "a", opening) for _ in range(5)), return_exceptions=True)
    assert {str(answer) for answer in answers} == {"x did not start. Its last words: no license key"}
    assert opening.tried == 1
    with pytest.raises(ServerFailed, match=r"no license key It is started again in 1 seconds"):
        await use(pool, "a", opening)
    opening.problem = None
    now.now += 1
    await use(pool, "a", opening)
    assert opening.tried == 2
    await pool.close()


async def test_the_longest_idle_makes_room_and_busy_ones_do_not() -> None:
    now = Time()
    pool, opening = ConnectionPool(most=2, now=now), Opening()
    await use(pool, "a", opening)
    now.now += 1
    await use(pool, "b", opening)
    await use(pool, "c", opening)
    await asyncio.sleep(0)
    assert [made.closed for made in opening.made] == [True, False, False]
    async with pool.connection("b", opening), pool.connection("c", opening):
        with pytest.raises(RateLimited, match="All 2 servers"):
            await use(pool, "d", opening)
    await pool.close()


async def test_discarding_and_closing_leave_nothing_open_also_in_the_middle_of_a_start() -> None:
    pool, opening = ConnectionPool(), Opening()
    await use(pool, "a", opening)
    await pool.discard("a")
    await pool.discard("a")
    assert opening.made[0].closed
    opening.gate = asyncio.Event()
    starting = asyncio.create_task(use(pool, "b", opening))
    await asyncio.sleep(0)
    await pool.discard("b")
    with pytest.raises(ServerFailed, match="changed or removed"):
        await starting
    starting = asyncio.create_task(use(pool, "b", opening))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(ServerFailed, match="shutting down"):
        await starting
    with pytest.raises(ServerFailed, match="shutting down"):
        await use(pool, "c", opening)


@pytest.mark.slow
async def test_a_crash_fails_the_calls_in_flight_of_that_server_and_no_others() -> None:
    runtime, pool = ProcessRuntime(), ConnectionPool()

    async def call(key: str, mode: str, text: str) -> str:
        async with pool.connection(key, lambda: open_stdio(runtime, hostile(mode))) as connection:
            return str((await connection.call("echo", {"text": text})).content[0]["text"])

    crashing = [asyncio.create_task(call("crash", "exit", str(index))) for index in range(5)]
    fine = [asyncio.create_task(call("fine", "plain", str(index))) for index in range(5)]
    told = await asyncio.gather(*crashing, return_exceptions=True)
    assert all(isinstance(each, ServerFailed) and "the disk is on fire" in each.message for each in told), told
    assert await asyncio.gather(*fine) == [str(index) for index in range(5)]
    await pool.close()
    await runtime.close()


async def test_what_nobody_uses_is_started_anew_and_what_is_at_work_stays() -> None:
    pool, opening = ConnectionPool(), Opening()
    await use(pool, "a", opening)
    await pool.discard_unused("a")
    assert opening.made[0].closed
    async with pool.connection("a", opening) as connection:
        await pool.discard_unused("a")
        assert connection is opening.made[1] and not opening.made[1].closed
    await pool.discard_unused("never opened")
    await pool.close()
