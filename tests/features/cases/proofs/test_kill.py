"""Owns the proof that a runner killed at any point leaves nothing half-recorded, and that another finishes its work."""

import asyncio
import hashlib
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Runtime
from holdfast.features.cases.proofs import store
from holdfast.features.cases.proofs.model import ProofRun
from holdfast.features.repositories.model import NewRepository
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.code.git import GitRepo
from tests.support.features.audit import MASTER_KEY
from tests.support.features.cases import CaseStage, case_stage
from tests.support.services import background, build_services

pytestmark = pytest.mark.slow

KILLS = 6
PROOFS = 8
PRINTED = "x" * 5_000 + "\n"


def _address(database: Database) -> tuple[str, str]:
    if isinstance(database, SqliteDatabase):
        return "sqlite", str(database.path)
    assert isinstance(database, PostgresDatabase)
    return "postgresql", database.url


@pytest.mark.timeout(600)
async def test_runs_survive_kill_9_in_a_loop_and_each_is_whole_or_waiting(database: Database, tmp_path: Path) -> None:
    data = tmp_path / "data"
    at = await case_stage(database, SystemClock(), data)  # type: ignore[arg-type] # processes share no movable clock
    repo = GitRepo(tmp_path / "repo")
    repo.commit("begin", {"shout.sh": "head -c 5000 /dev/zero | tr '\\0' x; echo; sleep 0.2\n"})
    new = NewRepository(location=str(repo.path), slug="calc")
    added = await at.services.repositories.add(at.ada, at.workspace, new)
    async with background(at.services):
        await at.services.jobs.wait(str(added.job_id), timeout_seconds=120)
    case = await at.add(repository="calc")
    # Nobody runs anything here: what is queued waits for the others.
    ids = [(await at.prove(case.id, command="sh shout.sh", claim=str(number))).proof.id for number in range(PROOFS)]
    chance = random.Random(11)
    for _ in range(KILLS):
        await _killed_after(database, data, at, ids, chance.uniform(0.0, 0.6))
        for run in await _runs(at, ids):
            _check_whole(run)
    settings = Settings(data_dir=data, secrets_master_key=MASTER_KEY)
    last = build_services(settings, database, SystemClock(), WordEmbedder())
    async with background(last):
        for run in await _runs(at, ids):
            await last.jobs.wait(str(run.job_id), timeout_seconds=120)
    await last[Runtime].close()
    await last.git.close()
    runs = await _runs(at, ids)
    assert [run.outcome for run in runs] == ["passed"] * PROOFS
    assert not list((data / "proofs").iterdir())
    await at.services.git.close()


async def _killed_after(database: Database, data: Path, at: CaseStage, ids: list[str], seconds: float) -> None:
    """Have another process run proofs, and kill it with -9 a moment after it has begun one."""
    before = {run.id: run.outcome for run in await _runs(at, ids)}
    command = [sys.executable, "-m", "tests.features.cases.proofs.doomed", *_address(database), str(data)]
    process = subprocess.Popen(command)
    try:
        async with asyncio.timeout(90):
            while all(run.outcome == before[run.id] for run in await _runs(at, ids)):
                if all(run.outcome == "passed" for run in await _runs(at, ids)):
                    return
                assert process.poll() is None
                await asyncio.sleep(0.02)
        # Anywhere within: how long this takes decides only where the blow falls.
        await asyncio.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def _runs(at: CaseStage, ids: list[str]) -> list[ProofRun]:
    found = await at.services.database.read(lambda tx: store.runs(tx, ids))
    assert all(len(runs) == 1 for runs in found.values())
    return [runs[0] for runs in found.values()]


def _check_whole(run: ProofRun) -> None:
    if run.outcome in ("queued", "running"):
        assert (run.ended_at, run.output, run.output_digest) == (None, "", "")
    else:
        assert (run.outcome, run.output, run.exit_code) == ("passed", PRINTED, 0)
        assert run.output_digest == hashlib.sha256(PRINTED.encode()).hexdigest()
        assert run.ended_at is not None and run.environment["network"] == "none"
