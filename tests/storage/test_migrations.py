"""The schema has one history: every way through it ends at the same tables."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.storage.database import Database, StartFailed, Tx
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate, migrations, schema_version
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.stores.postgres import PrivatePostgres
from tests.support.stores.schema import description

ROOT = Path(__file__).resolve().parents[2]
MIGRATOR = """
import asyncio, sys
from pathlib import Path
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.storage.postgresql import PostgresDatabase

async def main(where):
    database = PostgresDatabase(where) if where.startswith("postgresql") else SqliteDatabase(Path(where))
    print(*[step.version for step in await migrate(database)])
    await database.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def new_empty(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Where an empty database is, a new one at each call."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"{len(list(tmp_path.iterdir()))}.db")
    server: PrivatePostgres = request.getfixturevalue("postgres_server")

    def create() -> str:
        name = server.create()
        request.addfinalizer(lambda: server.drop(name))
        return server.url(name)

    return create


def _open(where: str) -> Database:
    return PostgresDatabase(where, connections=2) if where.startswith("postgresql") else SqliteDatabase(Path(where))


def test_migrations_are_numbered_once_each() -> None:
    versions = [migration.version for migration in migrations()]
    assert versions == sorted(set(versions))


def test_a_migration_is_translated_for_postgresql() -> None:
    words = " ".join(word for migration in migrations() for word in migration.statements("postgresql"))
    assert "AUTOINCREMENT" not in words and " BLOB" not in words


@pytest.mark.slow
async def test_every_earlier_version_migrates_to_the_fresh_schema(new_empty: Callable[[], str]) -> None:
    fresh = _open(new_empty())
    assert [step.version for step in await migrate(fresh)] == [step.version for step in migrations()]
    wanted = await fresh.read(description)
    assert wanted
    await fresh.close()
    for earlier in migrations()[:-1]:
        database = _open(new_empty())
        await migrate(database, up_to=earlier.version)
        assert await database.read(schema_version) == earlier.version
        applied = await migrate(database)
        assert [step.version for step in applied] == [m.version for m in migrations() if m.version > earlier.version]
        assert await database.read(description) == wanted, f"from version {earlier.version}"
        await database.close()


async def test_migrating_again_changes_nothing(database: Database) -> None:
    before = await database.read(description)
    assert await migrate(database) == []
    assert await database.read(description) == before


async def test_a_newer_schema_is_refused_with_the_remedy(database: Database) -> None:
    def pretend(tx: Tx) -> None:
        tx.execute("INSERT INTO schema_migration VALUES (9999, 'from_the_future', 'x', 0)")

    await database.write(pretend)
    with pytest.raises(StartFailed, match=r"schema version 9999, newer than this Holdfast knows .* start the newer"):
        await migrate(database)


async def test_a_changed_migration_is_refused_by_number(database: Database) -> None:
    first = migrations()[0].version
    await database.write(
        lambda tx: tx.execute("UPDATE schema_migration SET checksum = 'x' WHERE version = :v", {"v": first})
    )
    with pytest.raises(StartFailed, match=f"Migration {first:04d} of the database differs"):
        await migrate(database)


@pytest.mark.slow
async def test_processes_that_start_together_migrate_once(new_empty: Callable[[], str]) -> None:
    where = new_empty()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATOR, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    applied: list[str] = []
    for process in processes:
        out, err = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == 0, err
        applied += out.split()
    assert sorted(map(int, applied)) == [step.version for step in migrations()]
