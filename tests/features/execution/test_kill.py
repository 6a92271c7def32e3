"""Owns the proof that a server killed at any moment runs no call twice and loses none that it acknowledged."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.service import Execution
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.features.execution.doomed import services_on
from tests.support.execution.counting import enrolled
from tests.support.services import background, first_start

KILLS = int(os.environ.get("EXECUTION_KILLS", "3"))
"""How often; `EXECUTION_KILLS=200` for a long look."""


def _address(database: Database) -> tuple[str, str]:
    if isinstance(database, SqliteDatabase):
        return "sqlite", str(database.path)
    assert isinstance(database, PostgresDatabase)
    return "postgresql", database.url


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.contract("XM-14")
async def test_killed_at_any_moment_no_call_runs_twice_and_none_is_lost(database: Database, tmp_path: Path) -> None:
    services = services_on(database, tmp_path)
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    await enrolled(services, owner, start.workspace_id)
    await services[ToolPins].set(owner, start.workspace_id, "demo", "count", ToolChange(policy="auto"))
    for turn in range(KILLS):
        before = len(_lines(tmp_path / "acknowledged"))
        given = (str(tmp_path), start.organization_id, start.workspace_id, start.owner_id, str(turn))
        command = [sys.executable, "-m", "tests.features.execution.doomed", *_address(database), *given]
        process = subprocess.Popen(command)
        try:
            async with asyncio.timeout(60):
                # Killed after a number of calls that nobody knows before, so in whatever state they are.
                enough = before + random.randint(5, 60)
                while len(_lines(tmp_path / "acknowledged")) < enough:
                    assert process.poll() is None
                    await asyncio.sleep(0.005)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    acknowledged = _lines(tmp_path / "acknowledged")
    async with background(services):
        states: Counter[str] = Counter()
        for id in acknowledged:
            found = await services[Execution].get(owner, start.workspace_id, id)
            if found.status == "awaiting_approval":
                states["awaiting_approval"] += 1
                continue
            ended = await services[Execution].wait(
                owner, start.workspace_id, id, seconds=60, until=lambda now: now.finished
            )
            assert ended.finished, ended
            code = (ended.error or {}).get("code")
            states[f"{ended.status} {code or ''}".strip()] += 1
            assert ended.status == "succeeded" or code == "outcome_unknown", ended
    runs = Counter(_lines(tmp_path / "runs"))
    assert runs and max(runs.values()) == 1, [name for name, times in runs.items() if times > 1][:5]
    assert states["succeeded"] > 0
