"""What was acknowledged survives: kill -9 of the writing process, on both stores, and of the PostgreSQL server."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.storage.database import Database, Tx
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.conftest import OpenDatabase
from tests.support.stores import writer
from tests.support.stores.postgres import PostgresUnavailable, PrivatePostgres

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
ENOUGH = 150


def _acknowledged_until(where: str, first: int, stop: Callable[["subprocess.Popen[str]"], None]) -> set[int]:
    """Let a process write until enough is acknowledged, stop it the hard way; everything it acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.stores.writer", where, str(first)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        seen = {int(process.stdout.readline()) for _ in range(ENOUGH)}
        stop(process)
        # What it said before it died is still in the pipe; a line cut short was not said.
        seen |= {int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
    process.wait(60)
    return seen


def _rows(tx: Tx) -> dict[int, int]:
    return {row["number"]: row["twin"] for row in tx.all("SELECT number, twin FROM kept")}


def _where(database: Database) -> str:
    if isinstance(database, SqliteDatabase):
        return str(database.path)
    assert isinstance(database, PostgresDatabase)
    return database.url


@pytest.mark.slow
async def test_no_acknowledged_write_is_lost_when_the_writer_is_killed(open_database: OpenDatabase) -> None:
    database = open_database()
    await database.write(writer.create)
    where = _where(database)
    await database.close()
    acknowledged: set[int] = set()
    for round in range(ROUNDS):
        acknowledged |= _acknowledged_until(where, round * 1_000_000, lambda process: process.kill())
        database = open_database()
        kept = await database.read(_rows)
        assert acknowledged <= set(kept)
        assert all(number == twin for number, twin in kept.items()), "half a write was kept"
        # The next one can write at once: the dead left no lock behind.
        await database.write(writer.create)
        if database.dialect == "sqlite":
            checked = await database.read(lambda tx: tx.one("PRAGMA integrity_check"))
            assert checked is not None and checked["integrity_check"] == "ok"
        await database.close()
    assert len(acknowledged) >= ROUNDS * ENOUGH


@pytest.fixture
def mortal_postgres() -> Iterator[PrivatePostgres]:
    """A server of this test's own, that it may kill."""
    try:
        server = PrivatePostgres()
    except PostgresUnavailable as problem:
        pytest.skip(f"No PostgreSQL for tests: {problem}.")
    yield server
    server.stop()


@pytest.mark.slow
async def test_no_acknowledged_write_is_lost_when_postgresql_itself_is_killed(mortal_postgres: PrivatePostgres) -> None:
    url = mortal_postgres.url(mortal_postgres.create())
    database = PostgresDatabase(url)
    await database.write(writer.create)

    def kill_both(process: "subprocess.Popen[str]") -> None:
        mortal_postgres.kill()
        process.kill()

    acknowledged = _acknowledged_until(url, 0, kill_both)
    mortal_postgres.start_again()
    # The pool that was open all along finds its way back by itself.
    kept = await database.read(_rows)
    await database.close()
    assert acknowledged <= set(kept)
    assert all(number == twin for number, twin in kept.items())
