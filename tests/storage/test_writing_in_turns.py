"""Several processes on one embedded store: one writes at a time, one owns the background work, none stops for good."""

import asyncio
import errno
import fcntl
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.database import StorageFailed, Tx
from holdfast.storage.lock import Ownership, WriteTurn
from holdfast.storage.sqlite import SqliteDatabase

WRITES = 60


async def test_two_that_write_at_once_lose_nothing_and_see_each_other_at_once(tmp_path: Path) -> None:
    stores = [SqliteDatabase(tmp_path / "one.db", changes_seconds=0) for _ in range(2)]

    def make(tx: Tx) -> None:
        tx.execute("CREATE TABLE counter (number INTEGER NOT NULL)")
        tx.execute("INSERT INTO counter VALUES (0)")

    def count(tx: Tx) -> int:
        row = tx.one("SELECT number FROM counter")
        assert row is not None
        tx.execute("UPDATE counter SET number = :number", {"number": row["number"] + 1})
        return int(row["number"]) + 1

    await stores[0].write(make)

    async def writing(store: SqliteDatabase, other: SqliteDatabase) -> list[int]:
        numbers = []
        for _ in range(WRITES):
            before = other.changes()
            numbers.append(await store.write(count))
            assert other.changes() != before
        return numbers

    found = await asyncio.gather(writing(stores[0], stores[1]), writing(stores[1], stores[0]))
    assert sorted([*found[0], *found[1]]) == list(range(1, 2 * WRITES + 1))
    # Neither had to wait until the other was through with everything.
    assert min(found[0]) <= WRITES and min(found[1]) <= WRITES
    for store in stores:
        await store.close()


async def test_who_waits_too_long_for_its_turn_goes_on_to_sqlites_own_lock(tmp_path: Path) -> None:
    held, waiting = WriteTurn(tmp_path, 10), WriteTurn(tmp_path, 0.05)
    with held.taken(), waiting.taken():
        pass
    with held.taken():
        pass
    held.close()
    waiting.close()


async def test_a_lock_that_the_system_refuses_fails_one_write_and_not_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteDatabase(tmp_path / "one.db")
    real, refusing = fcntl.flock, True

    def flock(file: int, how: int) -> Any:
        if refusing and how != fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, "No locks available")
        return real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageFailed, match="No locks available"):
        await store.write(lambda tx: tx.execute("CREATE TABLE one (id INTEGER)"))
    refusing = False
    await store.write(lambda tx: tx.execute("CREATE TABLE one (id INTEGER)"))
    await store.close()


async def test_background_work_has_one_owner_and_another_when_it_is_gone(tmp_path: Path) -> None:
    one, other = Ownership(tmp_path), Ownership(tmp_path)
    assert await one.won() and one.held
    waiting = asyncio.create_task(other.won())
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done and not other.held
    one.release()
    assert await asyncio.wait_for(waiting, 30) and other.held
    third = Ownership(tmp_path)
    waiting = asyncio.create_task(third.won())
    third.withdraw()
    assert not await asyncio.wait_for(waiting, 30)
    other.release()
    third.release()
