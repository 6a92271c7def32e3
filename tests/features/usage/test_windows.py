"""Windows: so many a minute and not one more, over all processes, on a clock that may be wrong."""

import asyncio

import pytest

from holdfast.features.usage.model import Limit
from holdfast.features.usage.window import LastMinute, Windows
from holdfast.storage.database import Database, StorageFailed
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock

pytestmark = pytest.mark.contract("KS-7")

LIMIT = Limit(5, 60)


async def test_two_processes_give_out_no_more_than_the_limit_together(database: Database) -> None:
    clock = MovableClock()
    servers = [Windows(database, clock), Windows(database, clock)]
    taken = await asyncio.gather(*(servers[n % 2].take("k", LIMIT) for n in range(20)))
    assert sum(each.allowed for each in taken) == 5
    assert sorted(each.remaining for each in taken if each.allowed) == [0, 1, 2, 3, 4]
    assert {each.reset_at for each in taken} == {clock.now() + 60_000}
    assert (await servers[0].take("other", LIMIT)).allowed


async def test_a_window_ends_for_all_at_once(database: Database) -> None:
    clock = MovableClock()
    windows, began = Windows(database, clock), clock.now()
    for seconds in range(0, 50, 10):
        clock.millis = began + seconds * 1000
        assert (await windows.take("k", LIMIT)).allowed
    clock.millis = began + 59_999
    refused = await windows.take("k", LIMIT)
    assert not refused.allowed and refused.headers()["Retry-After"] == "1"
    clock.millis = began + 60_000
    again = await windows.take("k", LIMIT)
    assert (again.allowed, again.remaining, again.reset_at) == (True, 4, began + 120_000)


async def test_a_clock_that_lags_gains_nothing_and_one_that_was_set_back_begins_anew(database: Database) -> None:
    clock = MovableClock()
    windows = Windows(database, clock)
    for _ in range(5):
        await windows.take("k", LIMIT)
    clock.advance(seconds=-3)
    assert not (await windows.take("k", LIMIT)).allowed
    clock.advance(seconds=-3600)
    fresh = await windows.take("k", LIMIT)
    assert fresh.allowed and fresh.reset_at == clock.now() + 60_000


async def test_a_smaller_limit_holds_at_once(sqlite_database: SqliteDatabase) -> None:
    windows = Windows(sqlite_database, MovableClock())
    await windows.take("k", LIMIT)
    smaller = Limit(2, 60)
    taken = [(await windows.take("k", smaller)).allowed for _ in range(3)]
    assert taken == [True, True, False]


@pytest.mark.parametrize("kind", [Windows, LastMinute])
async def test_without_the_store_each_process_limits_by_itself(
    kind: type[Windows | LastMinute], sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(work: object) -> None:
        raise StorageFailed("The disk is full.")

    clock = MovableClock()
    windows = kind(sqlite_database, clock)
    monkeypatch.setattr(sqlite_database, "write", full)
    taken = [(await windows.take("k", LIMIT)).allowed for _ in range(7)]
    assert taken == [True] * 5 + [False] * 2
    clock.advance(seconds=60)
    assert (await windows.take("k", LIMIT)).remaining == 4


async def test_the_last_minute_counts_from_wherever_it_is_looked_at(database: Database) -> None:
    clock = MovableClock()
    servers = [LastMinute(database, clock), LastMinute(database, clock)]
    allowed: list[int] = []
    for step in range(120):
        taken = await asyncio.gather(*(server.take("k", LIMIT) for server in servers))
        allowed += [clock.now() for each in taken if each.allowed]
        if not all(each.allowed for each in taken):
            # Whoever waits as long as told is let in.
            clock.advance(seconds=next(each.retry_after_seconds for each in taken if not each.allowed))
            assert (await servers[step % 2].take("k", LIMIT)).allowed
            allowed.append(clock.now())
        clock.advance(seconds=3)
    assert max(sum(1 for at in allowed if begin <= at < begin + 60_000) for begin in allowed) == 5
    assert (await servers[0].take("other", LIMIT)).remaining == 4


async def test_a_clock_set_back_does_not_close_the_last_minute_for_ever(database: Database) -> None:
    clock = MovableClock()
    last = LastMinute(database, clock)
    for _ in range(5):
        assert (await last.take("k", LIMIT)).allowed
    clock.advance(days=-1)
    assert (await last.take("k", LIMIT)).allowed
