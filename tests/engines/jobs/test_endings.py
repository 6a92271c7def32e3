"""What is told of a job's end, and writes that leave no step but only happen while the job is ours."""

import asyncio

from holdfast.engines.jobs import Job, JobEngine, JobFailed, JobRun
from holdfast.engines.jobs import store as job_store
from holdfast.engines.jobs import turns as job_turns
from holdfast.storage.database import Database, Tx
from tests.engines.jobs.engines import engine_on, enqueue, running


def told_engine(engine: JobEngine) -> list[tuple[str, str]]:
    """Have an engine note each end of its jobs, seen from within the transaction that ends it."""
    told: list[tuple[str, str]] = []

    def ended(tx: Tx, job: Job) -> None:
        found = job_store.get(tx, job.id)
        assert found is not None and found.state == job.state
        told.append((job.id, job.state))

    async def work(run: JobRun) -> object:
        if run.payload["n"] == "fail":
            raise JobFailed("It cannot work.")
        return None

    engine.handle("work", work, ended=ended)
    return told


async def test_every_end_of_a_job_is_told_once(database: Database) -> None:
    engine = await engine_on(database)
    told = told_engine(engine)
    cancelled = await enqueue(database, engine, delay_seconds=3600)
    await database.write(lambda tx: engine.cancel(tx, cancelled))
    given_up = await enqueue(database, engine, max_attempts=1)
    await database.write(lambda tx: job_turns.claim(tx, "work", "run_dead", [], -1, 1))
    async with running(engine):
        done = await enqueue(database, engine)
        failed = await database.write(lambda tx: engine.enqueue(tx, "work", {"n": "fail"}))
        for job_id in (given_up, done, failed):
            await engine.wait(job_id)
    ends = {cancelled: "cancelled", given_up: "failed", done: "succeeded", failed: "failed"}
    assert dict(told) == ends and len(told) == len(ends)


async def test_a_write_happens_only_while_the_job_is_ours(database: Database) -> None:
    engine = await engine_on(database)
    started, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(run: JobRun) -> object:
        if run.job.attempts > 1:
            return "second"
        assert await run.write(lambda tx: _note(tx, "first")) == "first"
        started.set()
        try:
            await go_on.wait()
            await run.write(lambda tx: _note(tx, "late"))
        finally:
            ended.set()
        return "first"

    engine.handle("work", work)
    async with running(engine):
        await enqueue(database, engine)
        async with asyncio.timeout(30):
            await started.wait()
        await database.write(
            lambda tx: (
                tx.execute("UPDATE job SET lease_until = 0"),
                job_turns.claim(tx, "work", "run_other", [], 600_000, 1),
            )
        )
        go_on.set()
        async with asyncio.timeout(30):
            await ended.wait()
    noted = await database.read(lambda tx: tx.all("SELECT slug FROM workspace WHERE slug LIKE 'note-%'"))
    assert [row["slug"] for row in noted] == ["note-first"]
    assert await database.read(lambda tx: tx.all("SELECT name FROM job_step")) == []


def _note(tx: Tx, text: str) -> str:
    tx.execute(
        "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
        "VALUES (:id, 'proj_1', 'org_1', :slug, 'w', 0)",
        {"id": f"ws_{text}", "slug": f"note-{text}"},
    )
    return text
