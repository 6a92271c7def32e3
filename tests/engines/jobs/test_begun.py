"""Jobs that their maker runs from the first moment on: never queued, begun with the commit, ended like any other."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast.engines.jobs import JobEngine, JobRun
from holdfast.engines.jobs import store as job_store
from holdfast.engines.jobs.model import Handler
from holdfast.storage.database import Database, Tx
from tests.engines.jobs.engines import engine_on, enqueue, running, until


async def nothing(run: JobRun) -> object:
    return None


async def begun(database: Database, engine: JobEngine, handler: Handler, over: "asyncio.Event | None" = None) -> str:
    told = over or asyncio.Event()

    def work(tx: Tx) -> str:
        return engine.begin(tx, "work", {"n": 1}, handler, workspace_id="ws_1", over=told.set)

    with engine.slot("work") as free:
        assert free
        return await database.write(work)


async def states(database: Database) -> list[str]:
    rows = await database.read(lambda tx: tx.all("SELECT topic FROM event WHERE topic LIKE 'job.%' ORDER BY number"))
    return [str(row["topic"]) for row in rows]


async def test_a_begun_job_runs_without_having_been_queued(database: Database) -> None:
    engine = await engine_on(database)
    engine.handle("work", nothing)
    over = asyncio.Event()

    async def work(run: JobRun) -> object:
        return {"n": run.payload["n"]}

    async with running(engine):
        await until(lambda: _takes(engine))
        job = await engine.wait(await begun(database, engine, work, over))
        async with asyncio.timeout(30):
            await over.wait()
    assert (job.state, job.result, job.attempts) == ("succeeded", {"n": 1}, 1)
    assert await states(database) == ["job.running", "job.succeeded"]


async def test_what_a_handler_leaves_for_the_end_is_one_transaction_with_it(database: Database) -> None:
    engine = await engine_on(database)
    engine.handle("work", nothing)
    seen: list[str] = []

    def note(tx: Tx) -> None:
        rows = tx.all("SELECT state FROM job")
        seen.append(str(rows[0]["state"]))
        tx.execute("UPDATE organization SET name = 'left at the end'")

    async def work(run: JobRun) -> object:
        run.at_end(note)
        return None

    async def fails(run: JobRun) -> object:
        run.at_end(note)
        raise asyncio.CancelledError

    async with running(engine):
        await until(lambda: _takes(engine))
        await engine.wait(await begun(database, engine, work))
        await begun(database, engine, fails)
    assert seen == ["succeeded"]
    row = await database.read(lambda tx: tx.one("SELECT name FROM organization"))
    assert row is not None and row["name"] == "left at the end"


async def test_a_job_whose_transaction_was_rolled_back_never_begins(database: Database) -> None:
    engine = await engine_on(database)
    engine.handle("work", nothing)
    ran: list[str] = []

    async def work(run: JobRun) -> object:
        ran.append(run.job.id)
        return None

    def refused(tx: Tx) -> None:
        engine.begin(tx, "work", {}, work, workspace_id="ws_1", over=lambda: None)
        raise ValueError("no")

    async with running(engine):
        await until(lambda: _takes(engine))
        with pytest.raises(ValueError):
            await database.write(refused)
        job = await engine.wait(await begun(database, engine, work))
    assert ran == [job.id]


async def test_a_caller_who_is_cancelled_does_not_stop_what_was_committed(database: Database) -> None:
    engine = await engine_on(database)
    engine.handle("work", nothing)
    ran = asyncio.Event()

    async def work(run: JobRun) -> object:
        ran.set()
        return None

    inside, cancelled = threading.Event(), threading.Event()

    def ask(tx: Tx) -> str:
        inside.set()
        assert cancelled.wait(30)
        return engine.begin(tx, "work", {}, work, workspace_id="ws_1", over=lambda: None)

    async with running(engine):
        await until(lambda: _takes(engine))
        asking = asyncio.create_task(database.write(ask))
        assert await asyncio.to_thread(inside.wait, 30)
        asking.cancel()
        cancelled.set()
        async with asyncio.timeout(30):
            await ran.wait()


async def test_a_begun_job_is_cancelled_like_any_other(database: Database) -> None:
    engine = await engine_on(database)
    engine.handle("work", nothing)
    started = asyncio.Event()

    async def work(run: JobRun) -> object:
        started.set()
        await asyncio.Event().wait()
        return None

    async with running(engine):
        await until(lambda: _takes(engine))
        job_id = await begun(database, engine, work)
        await started.wait()
        await database.write(lambda tx: engine.cancel(tx, job_id))
        assert (await engine.wait(job_id)).state == "cancelled"


async def test_what_a_dead_process_had_begun_is_taken_over(database: Database) -> None:
    dead, living = await engine_on(database), await engine_on(database)
    attempts: list[int] = []

    async def takes_over(run: JobRun) -> object:
        attempts.append(run.job.attempts)
        return None

    living.handle("work", takes_over)
    dead.handle("work", nothing)
    # As a process leaves it that was killed in the middle: it holds a lease that nobody prolongs.
    values: dict[str, Any] = {
        "id": "job_left",
        "kind": "work",
        "workspace_id": "ws_1",
        "payload": "{}",
        "max_attempts": 5,
        "owner": "run_dead",
        "now": 0,
    }
    await database.write(lambda tx: job_store.insert_running(tx, {**values, "until": job_store.now(tx) - 1}))
    async with running(living):
        assert (await living.wait("job_left")).state == "succeeded"
    assert attempts == [2]


async def test_no_slot_is_given_where_no_jobs_run_where_all_are_taken_or_where_others_wait(database: Database) -> None:
    engine = await engine_on(database)
    go_on = asyncio.Event()

    async def work(run: JobRun) -> object:
        await go_on.wait()
        return None

    engine.handle("work", work, concurrency=3, reserved=1)
    with engine.slot("work") as free:
        assert not free
    async with running(engine):
        await until(lambda: _takes(engine))
        with engine.slot("work") as first, engine.slot("work") as second, engine.slot("work") as third:
            assert (first, second, third) == (True, True, False)
        jobs = [await begun(database, engine, work) for _ in range(2)]
        with engine.slot("work") as free:
            assert not free
        # Others take what is left, and one of them waits for whoever ends first.
        jobs += [await enqueue(database, engine, workspace_id="ws_2") for _ in range(2)]
        await until(lambda: _ran(database, 3))
        go_on.set()
        for job_id in jobs:
            assert (await engine.wait(job_id)).state == "succeeded"
        await until(lambda: _takes(engine))


async def _takes(engine: JobEngine) -> bool:
    with engine.slot("work") as free:
        return free


async def _ran(database: Database, number: int) -> bool:
    rows = await database.read(lambda tx: tx.all("SELECT id FROM job WHERE state = 'running'"))
    return len(rows) == number
