"""Background work: run once, retried, cancelled, in order, by any process, with finished steps kept."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from holdfast.core.errors import Invalid, UpstreamFailed
from holdfast.engines.events import EventBus
from holdfast.engines.jobs import JobEngine, JobFailed, JobRun
from holdfast.engines.jobs import store as job_store
from holdfast.engines.jobs import turns as job_turns
from holdfast.storage.database import Database, Tx
from tests.conftest import OpenDatabase
from tests.engines.jobs.engines import engine_on, enqueue, running, until


async def test_a_job_runs_and_its_result_is_kept(database: Database) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        return {"twice": run.payload["n"] * 2, "where": run.workspace_id}

    engine.handle("work", work)
    async with running(engine):
        job = await engine.wait(await enqueue(database, engine, workspace_id="ws_1"))
    assert (job.state, job.result, job.attempts) == ("succeeded", {"twice": 2, "where": "ws_1"}, 1)
    assert job.finished_at is not None and job.error is None


async def test_a_job_that_was_rolled_back_never_runs(database: Database) -> None:
    engine = await engine_on(database)

    def fails(tx: Tx) -> None:
        engine.enqueue(tx, "work", workspace_id="ws_1")
        raise Invalid("No.")

    with pytest.raises(Invalid):
        await database.write(fails)
    assert not (await engine.list("ws_1")).items


async def test_a_failing_job_is_tried_again_from_its_last_finished_step(database: Database) -> None:
    engine = await engine_on(database)
    ran: list[str] = []

    async def first() -> int:
        ran.append("first")
        return 41

    def second(tx: Tx) -> int:
        ran.append("second")
        return 1

    async def work(run: JobRun) -> object:
        total = await run.step("first", first) + await run.commit("second", second)
        ran.append(f"attempt {run.job.attempts}")
        if run.job.attempts < 3:
            raise UpstreamFailed("The other side is away.")
        return total

    engine.handle("work", work, backoff_seconds=0.01)
    async with running(engine):
        job = await engine.wait(await enqueue(database, engine))
    assert (job.state, job.result, job.attempts) == ("succeeded", 42, 3)
    assert ran == ["first", "second", "attempt 1", "attempt 2", "attempt 3"]


async def test_a_job_fails_after_its_last_attempt_without_telling_internals(database: Database) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        raise RuntimeError("postgresql://user:hunter2@host")

    engine.handle("work", work, backoff_seconds=0.01, max_attempts=2)
    async with running(engine):
        job = await engine.wait(await enqueue(database, engine))
    assert (job.state, job.attempts) == ("failed", 2)
    assert job.error is not None and "RuntimeError" in job.error and "hunter2" not in job.error


@pytest.mark.parametrize("problem", [JobFailed("Not this way."), Invalid("Not this way.")])
async def test_what_cannot_get_better_is_not_tried_again(database: Database, problem: Exception) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        raise problem

    engine.handle("work", work)
    async with running(engine):
        job = await engine.wait(await enqueue(database, engine))
    assert (job.state, job.attempts, job.error) == ("failed", 1, "Not this way.")


async def test_a_commit_step_that_fails_leaves_nothing(database: Database) -> None:
    engine = await engine_on(database)

    def half(tx: Tx) -> None:
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_half', 'x', 0)")
        raise JobFailed("Half way.")

    async def work(run: JobRun) -> object:
        return await run.commit("half", half)

    engine.handle("work", work)
    async with running(engine):
        job = await engine.wait(await enqueue(database, engine))
    assert job.state == "failed"
    assert await database.read(lambda tx: tx.one("SELECT 1 AS x FROM organization WHERE id = 'org_half'")) is None


async def test_a_queued_job_is_cancelled_at_once_and_a_running_one_soon(database: Database) -> None:
    engine = await engine_on(database)
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def work(run: JobRun) -> object:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return None

    engine.handle("work", work)
    later = await enqueue(database, engine, delay_seconds=3600)
    assert (await database.write(lambda tx: engine.cancel(tx, later))).state == "cancelled"
    async with running(engine):
        job_id = await enqueue(database, engine)
        async with asyncio.timeout(30):
            await started.wait()
        assert (await database.write(lambda tx: engine.cancel(tx, job_id))).state == "running"
        assert (await engine.wait(job_id)).state == "cancelled"
    assert cleaned.is_set()
    assert (await database.write(lambda tx: engine.cancel(tx, job_id))).state == "cancelled"


async def test_progress_is_seen_while_the_job_runs(database: Database) -> None:
    engine = await engine_on(database)
    go_on = asyncio.Event()

    async def work(run: JobRun) -> object:
        await run.progress(3, 10, "files")
        await go_on.wait()
        await run.progress(10, 10, "all files")
        return None

    engine.handle("work", work)
    async with running(engine):
        job_id = await enqueue(database, engine)

        async def shown() -> bool:
            job = await engine.get(job_id)
            return (job.done, job.total, job.message) == (3, 10, "files")

        await until(shown)
        go_on.set()
        job = await engine.wait(job_id)
    assert (job.done, job.message) == (10, "all files")


async def test_a_delayed_job_waits_for_its_time(database: Database) -> None:
    engine = await engine_on(database)
    ran: dict[str, bool] = {}

    async def work(run: JobRun) -> object:
        ran[run.job.id] = await database.read(job_store.now) >= run.job.run_at
        return None

    engine.handle("work", work)
    async with running(engine):
        later = await enqueue(database, engine, delay_seconds=0.3)
        much_later = await enqueue(database, engine, delay_seconds=3600)
        now = await enqueue(database, engine)
        await engine.wait(now)
        await engine.wait(later)
        assert (await engine.get(much_later)).state == "queued"
    assert ran == {now: True, later: True}


async def test_keyed_work_is_queued_once_and_runs_one_after_another(database: Database) -> None:
    engine = await engine_on(database)
    at_once, most = 0, 0
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work(run: JobRun) -> object:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        started.set()
        await go_on.wait()
        at_once -= 1
        return None

    engine.handle("work", work, concurrency=4)
    first = await enqueue(database, engine, key="same", workspace_id="ws_1")
    assert await enqueue(database, engine, key="same", workspace_id="ws_1") == first
    assert await enqueue(database, engine, key="same", workspace_id="ws_2") != first
    async with running(engine):
        async with asyncio.timeout(30):
            await started.wait()

        async def first_runs() -> bool:
            return (await engine.get(first)).state == "running"

        await until(first_runs)
        # The running one may have passed what is new by now, so this is a job of its own, but after it.
        second = await enqueue(database, engine, key="same", workspace_id="ws_1")
        assert second != first
        assert await enqueue(database, engine, key="same", workspace_id="ws_1") == second
        go_on.set()
        await engine.wait(second)
    assert most <= 2  # One in each of the two workspaces.


async def test_no_more_jobs_of_a_kind_run_at_once_than_allowed(database: Database) -> None:
    engine = await engine_on(database)
    at_once, most = 0, 0

    async def work(run: JobRun) -> object:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return None

    engine.handle("work", work, concurrency=2)
    ids = [await enqueue(database, engine) for _ in range(8)]
    async with running(engine):
        for job_id in ids:
            assert (await engine.wait(job_id)).state == "succeeded"
    assert most == 2


async def test_two_processes_share_the_work_and_run_no_job_twice(open_database: OpenDatabase) -> None:
    databases = [open_database(), open_database()]
    engines = [await engine_on(database) for database in databases]
    ran: list[str] = []

    async def work(run: JobRun) -> object:
        ran.append(run.job.id)
        await asyncio.sleep(0.005)
        return None

    for engine in engines:
        engine.handle("work", work)
    async with AsyncExitStack() as stack:
        for database in databases:
            stack.push_async_callback(database.close)
        ids = [await enqueue(databases[0], engines[0]) for _ in range(40)]
        async with running(*engines):
            for job_id in ids:
                assert (await engines[1].wait(job_id)).state == "succeeded"
    assert sorted(ran) == sorted(ids)


async def test_stopping_gives_a_running_job_back_to_the_queue(database: Database) -> None:
    first, second = await engine_on(database), await engine_on(database)
    started = asyncio.Event()
    steps: list[str] = []

    async def prepare() -> str:
        steps.append("prepared")
        return "ready"

    async def hangs(run: JobRun) -> object:
        await run.step("prepare", prepare)
        started.set()
        await asyncio.Event().wait()
        return None

    async def ends(run: JobRun) -> object:
        return await run.step("prepare", prepare)

    first.handle("work", hangs)
    second.handle("work", ends)
    async with running(first):
        job_id = await enqueue(database, first)
        async with asyncio.timeout(30):
            await started.wait()
    assert (await first.get(job_id)).state == "queued"
    async with running(second):
        job = await second.wait(job_id)
    assert (job.state, job.result, steps) == ("succeeded", "ready", ["prepared"])


async def test_who_lost_the_lease_leaves_no_trace(database: Database) -> None:
    engine = await engine_on(database)
    started, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(run: JobRun) -> object:
        if run.job.attempts > 1:
            return "second"
        started.set()
        try:
            await go_on.wait()
            await run.commit("late", lambda tx: 1)
        finally:
            ended.set()
        return "first"

    engine.handle("work", work, concurrency=2)
    thief = JobEngine(database, EventBus(database))
    async with running(engine):
        job_id = await enqueue(database, engine)
        async with asyncio.timeout(30):
            await started.wait()
        # As if this process had slept through its lease: another one claims the job.
        await database.write(
            lambda tx: (
                tx.execute("UPDATE job SET lease_until = 0"),
                job_turns.claim(tx, "work", "run_other", [], 600_000, 1),
            )
        )
        go_on.set()
        async with asyncio.timeout(30):
            await ended.wait()
    job = await thief.get(job_id)
    assert (job.state, job.attempts) == ("running", 2)
    assert await database.read(lambda tx: job_store.step(tx, job_id, "late")) is None


async def test_a_job_that_keeps_killing_its_process_is_given_up(database: Database) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        raise AssertionError("It must not be tried again.")

    engine.handle("work", work)
    job_id = await enqueue(database, engine, max_attempts=2)
    for _ in range(2):
        await database.write(lambda tx: job_turns.claim(tx, "work", "run_dead", [], -1, 1))
    async with running(engine):
        job = await engine.wait(job_id)
    assert job.state == "failed" and job.error is not None and "2 times" in job.error
