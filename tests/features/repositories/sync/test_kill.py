"""Owns the proof that a killed server loses nothing of a sync: the next goes on, and rows, index and git agree."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.features.repositories.model import NewRepository
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

pytestmark = pytest.mark.slow

COMMITS = 1_500
FILES = 40


def _address(database: Database) -> tuple[str, str]:
    if isinstance(database, SqliteDatabase):
        return "sqlite", str(database.path)
    assert isinstance(database, PostgresDatabase)
    return "postgresql", database.url


async def _count(here: RepositoryWorld, table: str) -> int:
    row = await here.services.database.read(lambda tx: tx.one(f"SELECT COUNT(*) AS n FROM {table}"))
    return int(row["n"]) if row else 0


async def _killed_at(here: RepositoryWorld, data_dir: Path, table: str, least: int) -> None:
    """Have another process sync until a table has so many rows, then kill it with -9."""
    where = (*_address(here.services.database), str(data_dir))
    process = subprocess.Popen([sys.executable, "-m", "tests.features.repositories.sync.doomed", *where])
    try:
        async with asyncio.timeout(120):
            while await _count(here, table) < least:
                assert process.poll() is None
                await asyncio.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.contract("KS-2")
async def test_a_sync_goes_on_after_kill_9_and_reads_nothing_twice(
    database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    repo = GitRepo(tmp_path / "project")
    repo.grow(COMMITS, files=FILES)
    async with repository_world(database, clock, tmp_path / "data", working=False) as here:
        repositories = here.services.repositories
        added = await repositories.add(here.principal, here.workspace_id, NewRepository(str(repo.path)))
        for table, least in (("repository_commit", 1), ("repository_commit", COMMITS // 2), ("repository_file", 1)):
            await _killed_at(here, tmp_path / "data", table, least)
        kept = await database.read(
            lambda tx: tx.all("SELECT number, id, change FROM search_entry WHERE collection <> ''")
        )
        assert await here.services.search.check() == []

        running = asyncio.create_task(here.services.jobs.run())
        job = await here.services.jobs.wait(str(added.job_id), timeout_seconds=120)
        await here.services.jobs.stop()
        await running

        repository, sync = await here.get("project"), await here.last_sync("project")
        rows = await database.read(lambda tx: tx.all("SELECT sha FROM repository_commit"))
        entries = await database.read(
            lambda tx: tx.all("SELECT number, id, change FROM search_entry WHERE collection <> ''")
        )
        assert (job.state, repository.state, repository.head) == ("succeeded", "ready", repo.head)
        assert {row["sha"] for row in rows} == set(repo.run("rev-list", "HEAD").split())
        assert (
            (repository.commits, repository.files)
            == (COMMITS, FILES)
            == (len(rows), await _count(here, "repository_file"))
        )
        assert (sync.status, sync.commits_added, sync.files_changed) == ("COMPLETED", COMMITS, FILES)
        # What was written before the kill was not written again, so it would not be embedded again.
        assert {tuple(row.values()) for row in map(dict, kept)} <= {tuple(row.values()) for row in map(dict, entries)}
        assert await here.services.search.check() == []
