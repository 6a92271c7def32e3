"""A backup holds the store as it was at one moment, and comes back whole."""

import asyncio
import gzip
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.storage.backup import BackupFailed, backup, restore
from holdfast.storage.database import Database, StartFailed, Tx
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate, migrations
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.stores.postgres import PrivatePostgres
from tests.support.stores.schema import description

Target = Path | str


@pytest.fixture
def new_target(database: Database, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Target]:
    """Empty places of the same kind as the database."""
    if database.dialect == "sqlite":
        numbers = itertools.count()
        return lambda: tmp_path / f"restored-{next(numbers)}" / "holdfast.db"
    server: PrivatePostgres = request.getfixturevalue("postgres_server")

    def create() -> str:
        name = server.create()
        request.addfinalizer(lambda: server.drop(name))
        return server.url(name)

    return create


def _open(target: Target) -> Database:
    return SqliteDatabase(target) if isinstance(target, Path) else PostgresDatabase(target)


def _fill(tx: Tx) -> None:
    tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_1', :name, 5)", {"name": "a\tb\\N\n☃ 'q'"})
    tx.execute("INSERT INTO project (id, organization_id, slug, name, created_at) VALUES ('p', 'org_1', 'p', 'P', 6)")


def _everything(tx: Tx) -> dict[str, list[tuple[tuple[str, object], ...]]]:
    if tx.dialect == "sqlite":
        names = tx.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%'")
    else:
        names = tx.all("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'")
    found = {}
    for name in (row["name"] for row in names if row["name"] != "schema_migration"):
        rows = (dict(row) for row in tx.all(f'SELECT * FROM "{name}"'))
        found[name] = sorted((tuple(row.items()) for row in rows), key=repr)
    return found


async def test_what_was_copied_comes_back_whole(
    database: Database, new_target: Callable[[], Target], tmp_path: Path
) -> None:
    await database.write(_fill)
    made = await backup(database, tmp_path / "copy")
    assert made.schema_version == migrations()[-1].version and made.bytes > 0
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    target = new_target()
    assert (await restore(tmp_path / "copy", target)).schema_version == made.schema_version
    restored = _open(target)
    assert await restored.read(_everything) == await database.read(_everything)
    assert await restored.read(description) == await database.read(description)
    assert await migrate(restored) == []
    # It is a store like any other: it takes writes, and its keys hold.
    await restored.write(lambda tx: tx.execute("UPDATE organization SET name = 'changed'"))
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await restored.write(
            lambda tx: tx.execute(
                "INSERT INTO project (id, organization_id, slug, name, created_at) VALUES ('x', 'no', 'x', 'x', 1)"
            )
        )
    await restored.close()


async def test_a_copy_made_while_writing_is_of_one_moment(
    database: Database, new_target: Callable[[], Target], tmp_path: Path
) -> None:
    def pair(tx: Tx, number: int) -> None:
        for id in (f"org_{number}_a", f"org_{number}_b"):
            tx.execute("INSERT INTO organization (id, name, created_at) VALUES (:id, '', 0)", {"id": id})

    done = asyncio.Event()
    written = 0

    async def write() -> None:
        nonlocal written
        while not done.is_set():
            written += 1
            await database.write(partial(pair, number=written))

    writers = [asyncio.create_task(write()) for _ in range(4)]
    while written < 20:
        await asyncio.sleep(0)
    before = written - len(writers)
    await backup(database, tmp_path / "copy")
    done.set()
    await asyncio.gather(*writers)
    target = new_target()
    await restore(tmp_path / "copy", target)
    restored = _open(target)
    ids = {row["id"] for row in await restored.read(lambda tx: tx.all("SELECT id FROM organization"))}
    await restored.close()
    halves = {id for id in ids if id[:-1] + ("b" if id.endswith("a") else "a") not in ids}
    assert not halves, "half a transaction was copied"
    assert len(ids) >= 2 * before


async def test_a_place_with_data_is_kept_unless_told(
    database: Database, new_target: Callable[[], Target], tmp_path: Path
) -> None:
    await database.write(_fill)
    await backup(database, tmp_path / "copy")
    target = new_target()
    taken = _open(target)
    await migrate(taken)
    await taken.write(
        lambda tx: tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_mine', 'mine', 1)")
    )
    await taken.close()
    with pytest.raises(BackupFailed, match="holds data already"):
        await restore(tmp_path / "copy", target)
    await restore(tmp_path / "copy", target, replace=True)
    replaced = _open(target)
    assert await replaced.read(_everything) == await database.read(_everything)
    await replaced.close()


async def test_an_existing_backup_is_never_overwritten(database: Database, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"last year")
    with pytest.raises(BackupFailed, match="exists already"):
        await backup(database, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"last year"


async def test_a_copy_from_a_newer_version_is_refused(
    database: Database, new_target: Callable[[], Target], tmp_path: Path
) -> None:
    await database.write(lambda tx: tx.execute("INSERT INTO schema_migration VALUES (9999, 'future', 'x', 0)"))
    await backup(database, tmp_path / "copy")
    with pytest.raises(BackupFailed, match=r"schema version 9999, newer than this Holdfast knows"):
        await restore(tmp_path / "copy", new_target())


async def test_a_damaged_or_foreign_file_is_refused(
    database: Database, new_target: Callable[[], Target], tmp_path: Path
) -> None:
    await database.write(_fill)
    await backup(database, tmp_path / "copy")
    whole = (tmp_path / "copy").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"a letter", gzip.compress(b"a letter"), b"SQLite format 3\0"):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(BackupFailed):
            await restore(tmp_path / "damaged", new_target())
    with pytest.raises(BackupFailed, match="cannot be read"):
        await restore(tmp_path / "missing", new_target())


async def test_a_copy_goes_back_to_the_kind_of_store_it_came_from(database: Database, tmp_path: Path) -> None:
    await backup(database, tmp_path / "copy")
    other: Target = "postgresql://localhost/x" if database.dialect == "sqlite" else tmp_path / "x.db"
    with pytest.raises(BackupFailed, match="HOLDFAST_DATABASE_URL"):
        await restore(tmp_path / "copy", other)


async def test_nothing_is_restored_under_a_running_server(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    await backup(sqlite_database, tmp_path / "copy")
    running = DataDirectoryLock(tmp_path)
    with pytest.raises(StartFailed, match="Another Holdfast server"):
        await restore(tmp_path / "copy", tmp_path / "other.db")
    running.release()
