"""What is known of jobs beside their work: their turns, their events, their list, and when they are forgotten."""

import asyncio

import pytest

from holdfast.engines.events import EventBus
from holdfast.engines.jobs import JobEngine, JobNotFound, JobRun
from holdfast.engines.jobs import store as job_store
from holdfast.storage.database import Database
from tests.engines.jobs.engines import engine_on, enqueue, running, until


async def test_periodic_work_is_queued_once_over_all_processes_and_again_after_each_turn(database: Database) -> None:
    engines = [await engine_on(database), await engine_on(database)]
    turns: list[str] = []

    async def work(run: JobRun) -> object:
        turns.append(run.job.id)
        return None

    for engine in engines:
        engine.handle("sweep", work, every_seconds=0.05)

    async def three() -> bool:
        return len(turns) >= 3

    async with running(*engines):
        await until(three)
    assert len(set(turns)) == len(turns)
    waiting = await database.read(lambda tx: tx.all("SELECT id FROM job WHERE state IN ('queued', 'running')"))
    assert len(waiting) == 1


async def test_events_tell_how_a_job_goes(database: Database) -> None:
    bus = EventBus(database)
    await engine_on(database)
    engine = JobEngine(database, bus)

    async def work(run: JobRun) -> object:
        return None

    engine.handle("work", work)
    async with running(engine), bus.subscribe(["job.*"], workspace_ids={"ws_1"}) as events:
        job_id = await enqueue(database, engine, workspace_id="ws_1")
        async with asyncio.timeout(30):
            heard = [await events.get() for _ in range(3)]
    assert [event.topic for event in heard] == ["job.queued", "job.running", "job.succeeded"]
    assert {event.payload["id"] for event in heard} == {job_id}


async def test_jobs_are_listed_for_one_workspace_only(database: Database) -> None:
    engine = await engine_on(database)
    ids = [await enqueue(database, engine, workspace_id="ws_1") for _ in range(3)]
    other = await enqueue(database, engine, workspace_id="ws_2")
    page = await engine.list("ws_1", limit=2)
    rest = await engine.list("ws_1", cursor=page.next_cursor)
    assert sorted(job.id for job in (*page.items, *rest.items)) == sorted(ids) and rest.next_cursor is None
    assert not (await engine.list("ws_1", state="failed")).items
    assert len((await engine.list("ws_1", kind="work", state="queued")).items) == 3
    with pytest.raises(JobNotFound):
        await engine.get(other, workspace_id="ws_1")
    with pytest.raises(JobNotFound):
        await database.write(lambda tx: engine.cancel(tx, other, workspace_id="ws_1"))


async def test_finished_jobs_are_forgotten_after_a_while_with_their_steps(database: Database) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        return await run.commit("only", lambda tx: 1)

    engine.handle("work", work)
    async with running(engine):
        job_id = await enqueue(database, engine)
        await engine.wait(job_id)
    assert await database.write(lambda tx: job_store.trim(tx, 2**62)) == 1
    assert await database.read(lambda tx: job_store.step(tx, job_id, "only")) is None


async def test_a_kind_has_one_handler(database: Database) -> None:
    engine = await engine_on(database)

    async def work(run: JobRun) -> object:
        return None

    engine.handle("work", work)
    with pytest.raises(ValueError, match="already"):
        engine.handle("work", work)
