"""Transactions behave the same on both stores."""

import asyncio
import logging
from functools import partial

import pytest

from holdfast.storage.database import Database, Tx
from holdfast.storage.sqlite import SqliteDatabase


def _create(tx: Tx) -> None:
    tx.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")


def _put(tx: Tx, id: int, text: str = "") -> None:
    tx.execute("INSERT INTO note (id, text) VALUES (:id, :text)", {"id": id, "text": text})


def _ids(tx: Tx) -> list[int]:
    return [row["id"] for row in tx.all("SELECT id FROM note ORDER BY id")]


@pytest.fixture
async def notes(database: Database) -> Database:
    await database.write(_create)
    return database


async def test_what_was_written_is_read_back(notes: Database) -> None:
    await notes.write(lambda tx: _put(tx, 1, "100% kept"))
    row = await notes.read(lambda tx: tx.one("SELECT text FROM note WHERE id = :id", {"id": 1}))
    assert row is not None and row["text"] == "100% kept"
    glanced = await notes.glance(lambda tx: tx.one("SELECT text FROM note WHERE id = :id", {"id": 2}))
    assert glanced is None


async def test_many_rows_and_changed_counts(notes: Database) -> None:
    await notes.write(
        lambda tx: tx.many("INSERT INTO note VALUES (:id, :text)", [{"id": i, "text": ""} for i in range(9)])
    )
    assert await notes.write(lambda tx: tx.execute("DELETE FROM note WHERE id < :id", {"id": 4})) == 4
    assert await notes.read(_ids) == [4, 5, 6, 7, 8]


async def test_one_failing_work_does_not_lose_its_neighbours(notes: Database) -> None:
    def work(tx: Tx, id: int) -> int:
        _put(tx, id)
        if id % 7 == 0:
            raise LookupError(id)
        if id % 11 == 0:
            tx.execute("INSERT INTO note (id) VALUES (:id)", {"id": id})
        return id

    # All are handed over before the writer can commit one, so many share a commit.
    outcomes = await asyncio.gather(
        *(notes.write(partial(work, id=id)) for id in range(1, 201)),
        return_exceptions=True,
    )
    kept = [id for id in range(1, 201) if id % 7 and id % 11]
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == kept
    assert all(isinstance(outcomes[id - 1], LookupError) for id in range(7, 201, 7))
    assert await notes.read(_ids) == kept


async def test_nothing_of_a_failed_work_stays(notes: Database) -> None:
    def work(tx: Tx) -> None:
        _put(tx, 1)
        _put(tx, 2)
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await notes.write(work)
    assert await notes.read(_ids) == []


async def test_a_work_that_runs_off_an_iterator_fails_alone(notes: Database) -> None:
    def work(tx: Tx) -> None:
        next(iter(()))

    with pytest.raises(RuntimeError, match="iterator"):
        await asyncio.wait_for(notes.write(work), 20)
    await notes.write(lambda tx: _put(tx, 1))
    assert await notes.read(_ids) == [1]


async def test_callbacks_come_after_the_commit_and_never_after_a_rollback(notes: Database) -> None:
    heard: list[str] = []

    def kept(tx: Tx) -> None:
        _put(tx, 1)
        tx.after_commit(lambda: heard.append("kept"))
        assert not heard

    def dropped(tx: Tx) -> None:
        tx.after_commit(lambda: heard.append("dropped"))
        raise LookupError

    await notes.write(kept)
    with pytest.raises(LookupError):
        await notes.write(dropped)
    assert heard == ["kept"]


async def test_a_failing_callback_is_logged_and_writing_goes_on(
    notes: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("nobody listens")

    def work(tx: Tx) -> str:
        tx.after_commit(fail)
        return "written"

    with caplog.at_level(logging.ERROR):
        assert await notes.write(work) == "written"
        await notes.write(lambda tx: _put(tx, 1))
    assert "nobody listens" in caplog.text
    assert await notes.read(_ids) == [1]


async def test_one_read_sees_one_moment(notes: Database) -> None:
    await notes.write(lambda tx: _put(tx, 1))
    loop = asyncio.get_running_loop()

    def twice(tx: Tx) -> tuple[list[int], list[int]]:
        before = _ids(tx)
        asyncio.run_coroutine_threadsafe(notes.write(lambda tx: _put(tx, 2)), loop).result(20)
        return before, _ids(tx)

    assert await notes.read(twice) == ([1], [1])
    assert await notes.read(_ids) == [1, 2]


async def test_a_read_cannot_write(notes: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)read.?only|not writable"):
        await notes.read(lambda tx: _put(tx, 1))
    assert await notes.read(_ids) == []


async def test_writers_of_one_row_take_turns(notes: Database) -> None:
    await notes.write(lambda tx: _put(tx, 1, "0"))

    def increase(tx: Tx) -> None:
        row = tx.one("UPDATE note SET id = id WHERE id = 1 RETURNING text")
        assert row is not None
        tx.execute("UPDATE note SET text = :text WHERE id = 1", {"text": str(int(row["text"]) + 1)})

    await asyncio.gather(*(notes.write(increase) for _ in range(100)))
    row = await notes.read(lambda tx: tx.one("SELECT text FROM note"))
    assert row is not None and row["text"] == "100"


async def test_what_was_accepted_before_closing_is_finished(sqlite_database: SqliteDatabase) -> None:
    await sqlite_database.write(_create)
    writes = [asyncio.ensure_future(sqlite_database.write(partial(_put, id=id))) for id in range(300)]
    await asyncio.sleep(0)
    await sqlite_database.close()
    await asyncio.gather(*writes)
    again = SqliteDatabase(sqlite_database.path)
    assert await again.read(_ids) == list(range(300))
    await again.close()


async def test_a_broken_rule_is_not_mistaken_for_a_full_disk(sqlite_database: SqliteDatabase) -> None:
    await sqlite_database.write(lambda tx: tx.execute("CREATE TABLE disk_is_full (is_locked TEXT UNIQUE)"))
    await sqlite_database.write(lambda tx: tx.execute("INSERT INTO disk_is_full VALUES ('x')"))
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        await sqlite_database.write(lambda tx: tx.execute("INSERT INTO disk_is_full VALUES ('x')"))
