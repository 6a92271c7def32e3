"""Proves that an import killed in the middle leaves rows and index agreeing, and is finished by running it again."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from holdfast.core.settings import Settings
from holdfast.features.interchange.formats.places import folder_files
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.services import open_local

NOTES = 2_000
WAIT_SECONDS = 60


async def _rows(path: Path) -> int:
    """How many memories are durable, seen from outside; none before the tables are there."""
    if not path.exists():
        return 0
    database = SqliteDatabase(path)
    try:
        found = await database.read(
            lambda tx: tx.one("SELECT COUNT(*) AS n FROM sqlite_master WHERE name = 'memory_revision'")
        )
        if not found or not found["n"]:
            return 0
        row = await database.read(lambda tx: tx.one("SELECT COUNT(*) AS n FROM memory"))
        return int(row["n"]) if row else 0
    finally:
        await database.close()


@pytest.mark.slow
async def test_an_import_killed_in_the_middle_is_finished_by_running_it_again(tmp_path: Path) -> None:
    notes, data = tmp_path / "notes", tmp_path / "data"
    notes.mkdir()
    for number in range(NOTES):
        (notes / f"note-{number:05d}.md").write_text(
            f"Host {number} of the fleet runs Debian and serves shard {number}."
        )
    command = [
        sys.executable,
        "-c",
        "from holdfast.main import main; main()",
        "import",
        str(notes),
        "--data-dir",
        str(data),
    ]
    importing = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not await _rows(data / "holdfast.db") and importing.returncode is None:
                await asyncio.sleep(0.02)
    finally:
        if importing.returncode is None:
            importing.send_signal(signal.SIGKILL)
        await importing.wait()
    async with open_local(Settings(data_dir=data)) as (services, principal):
        workspace = (await services.workspaces.list(principal)).items[0].id
        assert await services.search.check() == []
        counted = await services.database.read(lambda tx: tx.one("SELECT COUNT(*) AS number FROM memory"))
        kept = counted["number"] if counted else 0
        report = await services.interchange.import_files(principal, workspace, folder_files(notes))
        assert report.problems == []
        assert report.unchanged == kept
        assert report.created.get("memory", 0) == NOTES - kept
        assert await services.search.check() == []
