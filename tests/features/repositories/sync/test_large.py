"""Owns the proof that a long history is read in a bounded number of small transactions, and found."""

import resource
from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import repository_world

COMMITS = 10_000
MEGABYTE = 1024


@pytest.mark.slow
async def test_ten_thousand_commits_are_read_without_growing(
    database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    repo = GitRepo(tmp_path / "project")
    repo.grow(COMMITS)
    async with repository_world(database, clock, tmp_path / "data") as here:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        repository = await here.add(repo)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

        assert (repository.state, repository.commits, repository.head) == ("ready", COMMITS, repo.head)
        assert grown < 150 * MEGABYTE
        steps = await database.read(lambda tx: tx.all("SELECT name FROM job_step"))
        assert steps == []
        found = await here.hits("value 4321 was needed", "commit")
        assert found[0].title.endswith("for the 4321th time")
