"""A full disk is a clear error and nothing worse: reads go on, and writing recovers with the space."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.storage.backup import BackupFailed, backup
from holdfast.storage.database import StorageFailed, Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase

MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("Only root can mount the small tmpfs that this test fills.")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"This machine does not let the test mount a small tmpfs: {mounted.stderr.strip()}.")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _put(tx: Tx, size: int) -> None:
    tx.execute("INSERT INTO heap (content) VALUES (:content)", {"content": os.urandom(size)})


def _count(tx: Tx) -> int:
    row = tx.one("SELECT COUNT(*) AS found FROM heap")
    assert row is not None
    return int(row["found"])


async def _open(place: Path) -> SqliteDatabase:
    database = SqliteDatabase(place / "holdfast.db")
    await migrate(database)
    await database.write(lambda tx: tx.execute("CREATE TABLE heap (content BLOB NOT NULL)"))
    return database


async def test_a_full_disk_says_so_serves_reads_and_recovers(small_disk: Path) -> None:
    database = await _open(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 * MEGABYTE))
    written = 0
    with pytest.raises(StorageFailed, match="full"):
        for _ in range(200):
            await database.write(lambda tx: _put(tx, MEGABYTE // 4))
            written += 1
    assert written > 0
    assert await database.read(_count) == written
    assert await database.glance(_count) == written
    ballast.unlink()
    await database.write(lambda tx: _put(tx, MEGABYTE // 4))
    assert await database.read(_count) == written + 1
    checked = await database.read(lambda tx: tx.one("PRAGMA integrity_check"))
    assert checked is not None and checked["integrity_check"] == "ok"
    await database.close()


async def test_a_write_too_large_for_the_disk_does_not_take_its_neighbours_along(small_disk: Path) -> None:
    database = await _open(small_disk)
    outcomes = await asyncio.gather(
        *(database.write(partial(_put, size=20 * MEGABYTE if n == 20 else 100)) for n in range(40)),
        return_exceptions=True,
    )
    assert {n: str(outcome) for n, outcome in enumerate(outcomes) if outcome is not None}.keys() == {20}, outcomes
    assert isinstance(outcomes[20], StorageFailed)
    assert await database.read(_count) == 39
    await database.close()


async def test_a_backup_that_does_not_fit_leaves_nothing_behind(small_disk: Path, tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "holdfast.db")
    await migrate(database)
    await database.write(lambda tx: tx.execute("CREATE TABLE heap (content BLOB NOT NULL)"))
    await database.write(lambda tx: _put(tx, 24 * MEGABYTE))
    with pytest.raises(BackupFailed, match="free some space"):
        await backup(database, small_disk / "copy")
    assert list(small_disk.iterdir()) == []
    await database.close()
