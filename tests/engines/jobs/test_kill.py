"""Jobs outlive the process that runs them: kill -9 at any moment, and no finished step runs twice."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.support.stores.doomed import STEPS, job_engine, open_store


async def start(what: str, store: str, address: str, file: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.stores.doomed",
        what,
        store,
        address,
        str(file),
        cwd=Path(__file__).parents[3],
    )


async def kill(process: asyncio.subprocess.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()


async def finished_steps(database: Database) -> set[str]:
    return {str(row["name"]) for row in await database.read(lambda tx: tx.all("SELECT name FROM job_step"))}


async def until_steps(database: Database, count: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(90):
        while len(await finished_steps(database)) < count:
            assert process.returncode is None
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_killed_jobs_finished_steps_never_run_again(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = str(request.getfixturevalue("sqlite_path" if store == "sqlite" else "postgres_url"))
    lines = tmp_path / "lines"
    lines.touch()
    database = open_store(store, address)
    engine = job_engine(database, lines)
    job_id = await database.write(lambda tx: engine.enqueue(tx, "work"))
    before: list[int] = []
    for count in (3, 20, 41):
        process = await start("jobs", store, address, lines)
        await until_steps(database, count, process)
        await kill(process)
        kept = {int(name.split()[1]) for name in await finished_steps(database) if name.startswith("line ")}
        written = [int(line) for line in lines.read_text().split()]
        # What this process wrote was not finished before it.
        assert not set(written[len(before) :]) & set(before) - {max(before, default=-1)}
        assert kept <= set(written)
        before = written
    running = asyncio.create_task(engine.run())
    job = await engine.wait(job_id, timeout_seconds=90)
    await engine.stop()
    await running
    assert (job.state, job.result) == ("succeeded", "done")
    times = Counter(int(line) for line in lines.read_text().split())
    # A step that the kill interrupted may have left its line twice; no other has.
    assert set(times) == set(range(STEPS)) and sum(times.values()) <= STEPS + 3
    rows = await database.read(lambda tx: tx.all("SELECT tokens_in FROM usage_log"))
    assert sorted(int(row["tokens_in"]) for row in rows) == list(range(STEPS))
    await database.close()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_living_process_takes_over_from_a_killed_one(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = str(request.getfixturevalue("sqlite_path" if store == "sqlite" else "postgres_url"))
    lines = tmp_path / "lines"
    database = open_store(store, address)
    engine = job_engine(database, lines)
    job_id = await database.write(lambda tx: engine.enqueue(tx, "work"))
    process = await start("jobs", store, address, lines)
    await until_steps(database, 2, process)
    running = asyncio.create_task(engine.run())
    await until_steps(database, 6, process)
    await kill(process)
    job = await engine.wait(job_id, timeout_seconds=90)
    await engine.stop()
    await running
    assert job.state == "succeeded"
    rows = await database.read(lambda tx: tx.all("SELECT tokens_in FROM usage_log"))
    assert sorted(int(row["tokens_in"]) for row in rows) == list(range(STEPS))
    await database.close()
