"""The limiter: exact over callers and processes, cheap where there is plenty, unmoved by clocks that jump."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit, Taken
from holdfast.features.usage.store import SPARE_PART
from holdfast.storage.database import Database, StorageFailed
from tests.conftest import OpenDatabase
from tests.support.clock import MovableClock

MINUTE = Limit(60, 60)


class Time:
    """A wall clock that may jump and a steady one that does not."""

    def __init__(self) -> None:
        self.wall = MovableClock()
        self.steady_seconds = 1000.0

    def limiter(self, database: Database) -> Limiter:
        return Limiter(database, self.wall, lambda: self.steady_seconds)

    def pass_seconds(self, seconds: float) -> None:
        self.wall.advance(seconds=seconds)
        self.steady_seconds += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def two(open_database: OpenDatabase) -> AsyncIterator[tuple[Database, Database]]:
    databases = open_database(), open_database()
    yield databases
    for database in databases:
        await database.close()


async def allowed(limiter: Limiter, limit: Limit, times: int, key: str = "key_1") -> int:
    return sum([(await limiter.take(key, limit)).allowed for _ in range(times)])


@pytest.mark.contract("KS-7")
async def test_fifty_callers_at_once_get_exactly_the_limit(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    taken = await asyncio.gather(*(limiter.take("key_1", Limit(20, 60)) for _ in range(50)))
    assert sum(answer.allowed for answer in taken) == 20


@pytest.mark.parametrize("count", [1, 7, 60, 599])
async def test_fifty_callers_in_two_processes_get_exactly_the_limit(
    two: tuple[Database, Database], time: Time, count: int
) -> None:
    limiters = [time.limiter(database) for database in two]
    each = count // 25 + 2
    got = await asyncio.gather(*(allowed(limiters[n % 2], Limit(count, 60), each) for n in range(50)))
    assert sum(got) == count


async def test_a_large_limit_is_never_exceeded_and_missed_by_no_more_than_is_spare(
    two: tuple[Database, Database], time: Time
) -> None:
    count = 6400
    limiters = [time.limiter(database) for database in two]
    got = await asyncio.gather(*(allowed(limiters[n % 2], Limit(count, 60), 200) for n in range(50)))
    assert count - 2 * count // SPARE_PART <= sum(got) <= count
    # What one process holds to spare is back in the bucket after a second.
    for limiter in limiters:
        await limiter.give_back(everything=True)
    time.steady_seconds += 1
    rest = sum([await allowed(limiter, Limit(count, 60), 2 * count // SPARE_PART) for limiter in limiters])
    assert sum(got) + rest == count


async def test_a_busy_key_asks_the_store_about_once_a_second(sqlite_database: Database, time: Time) -> None:
    leases = 0

    class Counting(Limiter):
        async def _lease(self, held: Any, want: Any) -> Any:
            nonlocal leases
            leases += 1
            return await super()._lease(held, want)

    limiter = Counting(sqlite_database, time.wall, lambda: time.steady_seconds)
    limit = Limit(10_000_000, 60)
    asked = []
    for _ in range(4):
        before = leases
        for _ in range(200):
            taken = await asyncio.gather(*(limiter.take("key_1", limit) for _ in range(10)))
            assert all(one.allowed for one in taken)
            time.pass_seconds(0.005)
        asked.append(leases - before)
    # It finds out in the first second how much is used, in doubling steps.
    assert asked[0] <= 12 and max(asked[1:]) <= 2


async def test_tokens_come_back_with_time_and_no_faster(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 70) == 60
    time.pass_seconds(10)
    assert await allowed(limiter, MINUTE, 20) == 10
    for _ in range(20):
        time.pass_seconds(0.5)
        await limiter.take("key_1", MINUTE)
    time.pass_seconds(3600)
    assert await allowed(limiter, MINUTE, 70) == 60


async def test_one_key_does_not_use_up_anothers_limit(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 61, "key_1") == 60
    assert await allowed(limiter, MINUTE, 1, "key_2") == 1


@pytest.mark.contract("KS-7")
async def test_a_refusal_says_when_to_come_back(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    first = await limiter.take("key_1", MINUTE)
    assert (first.remaining, first.limit, first.retry_after_seconds) == (59, 60, 0)
    assert "Retry-After" not in first.headers()
    first.check()
    await allowed(limiter, MINUTE, 59)
    refused = await limiter.take("key_1", MINUTE)
    assert not refused.allowed and refused.remaining == 0
    seconds = time.wall.now() // 1000
    assert refused.headers() == {
        "Retry-After": "1",
        "X-RateLimit-Limit": "60",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(seconds + 60),
    }
    with pytest.raises(RateLimited) as caught:
        refused.check("tool calls")
    assert caught.value.headers["Retry-After"] == "1" and "60" in caught.value.message
    # Whoever heeds it gets through.
    time.pass_seconds(refused.retry_after_seconds)
    assert (await limiter.take("key_1", MINUTE)).allowed


async def test_a_clock_set_back_gives_nothing_free_and_locks_nobody_out(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 61) == 60
    time.wall.advance(days=-1)
    time.steady_seconds += 1
    assert await allowed(limiter, MINUTE, 5) == 0
    time.pass_seconds(5)
    assert await allowed(limiter, MINUTE, 10) == 5


async def test_a_clock_set_forward_and_back_gives_nothing_free(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 61) == 60
    for days in (1, -1, 1, -1):
        time.wall.advance(days=days)
        time.steady_seconds += 0.25
        assert await allowed(limiter, MINUTE, 3) == 0
    time.pass_seconds(5)
    assert 4 <= await allowed(limiter, MINUTE, 10) <= 6


async def test_a_process_that_starts_after_a_jump_gets_one_full_bucket_at_most(database: Database, time: Time) -> None:
    await allowed(time.limiter(database), MINUTE, 61)
    time.wall.advance(days=1)
    late = time.limiter(database)
    assert await allowed(late, MINUTE, 100) == 60
    time.wall.advance(days=-1)
    time.steady_seconds += 1
    assert await allowed(late, MINUTE, 5) == 0
    time.pass_seconds(3)
    assert await allowed(late, MINUTE, 5) == 3


async def test_replicas_with_different_clocks_give_no_more_than_the_limit(
    two: tuple[Database, Database], time: Time
) -> None:
    behind = MovableClock(time.wall.now() - 800)
    limiters = [time.limiter(two[0]), Limiter(two[1], behind, lambda: time.steady_seconds)]
    got = await allowed(limiters[0], MINUTE, 61)
    for _ in range(40):
        time.pass_seconds(0.25)
        behind.advance(seconds=0.25)
        for limiter in limiters:
            got += await allowed(limiter, MINUTE, 1)
    assert 60 + 8 <= got <= 60 + 11


async def test_a_busy_caller_asks_the_store_ever_less(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    asked = 0
    write = database.write

    async def counted(work: object) -> object:
        nonlocal asked
        asked += 1
        return await write(work)  # type: ignore[arg-type]

    database.write = counted  # type: ignore[method-assign, assignment]
    assert await allowed(limiter, Limit(1_000_000, 60), 10_000) == 10_000
    assert asked < 40


async def test_several_are_taken_at_once_or_not_at_all(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert (await limiter.take("key_1", MINUTE, 50)).allowed
    assert not (await limiter.take("key_1", MINUTE, 11)).allowed
    assert (await limiter.take("key_1", MINUTE, 10)).allowed
    assert not (await limiter.take("key_1", MINUTE)).allowed


async def test_a_limit_that_was_changed_holds_at_once(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 10) == 10
    assert await allowed(limiter, Limit(5, 60), 10) == 5


async def test_a_caller_that_goes_away_takes_nobody_along(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    calls = [asyncio.create_task(limiter.take("key_1", Limit(3, 60))) for _ in range(4)]
    await asyncio.sleep(0)
    calls[0].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert [answer.allowed for answer in answers[1:] if isinstance(answer, Taken)].count(True) == 3


async def test_a_store_that_takes_no_writes_leaves_each_process_to_limit_itself(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    assert await allowed(limiter, MINUTE, 10) == 10
    write, database.write = database.write, _fails  # type: ignore[method-assign, assignment]
    assert await allowed(limiter, MINUTE, 60) == 50
    time.pass_seconds(2)
    assert await allowed(limiter, MINUTE, 10) == 2
    assert await allowed(limiter, MINUTE, 70, "another") == 60
    database.write = write  # type: ignore[method-assign]
    time.pass_seconds(3600)
    assert await allowed(limiter, MINUTE, 70) == 60


async def _fails(work: object) -> object:
    raise StorageFailed("The store is away.")


async def test_full_buckets_are_forgotten_and_begin_full(database: Database, time: Time) -> None:
    limiter = time.limiter(database)
    await allowed(limiter, MINUTE, 30)
    time.pass_seconds(2 * 3600)
    running = asyncio.create_task(limiter.run())

    async def rows() -> int:
        found = await database.read(lambda tx: tx.one("SELECT COUNT(*) AS n FROM limit_bucket"))
        return int(found["n"]) if found else 0

    async with asyncio.timeout(30):
        while await rows():
            await asyncio.sleep(0.01)
    await limiter.stop()
    await running
    assert await allowed(limiter, MINUTE, 61) == 60


@pytest.mark.parametrize(("count", "seconds"), [(0, 60), (1, 0), (1, -1)])
def test_a_limit_of_nothing_is_refused(count: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Limit(count, seconds)
