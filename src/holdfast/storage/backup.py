"""Owns copying the whole store into one file while the server goes on writing, and putting it back."""

import asyncio
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.storage.backup_file import Backup, BackupFailed, complete, refuse_newer
from holdfast.storage.database import Database
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.sqlite import SqliteDatabase, SqliteError, connect, connect_copy

__all__ = ["Backup", "BackupFailed", "backup", "restore"]

_SQLITE_MAGIC = b"SQLite format 3\0"
_GZIP_MAGIC = b"\x1f\x8b"


async def backup(database: Database, file: Path) -> Backup:
    """Copy the whole store into `file`, as it is at one moment; the file appears when it is complete."""
    return await asyncio.to_thread(_backup, database, file)


async def restore(file: Path, target: Path | str, *, replace: bool = False) -> Backup:
    """Put a copy into a SQLite file (a path) or a PostgreSQL database (a URL): an empty one, unless told to replace it.

    No server may run on it. A copy of an older version is migrated when a server starts on it.
    """
    return await asyncio.to_thread(_restore, file, target, replace)


def _backup(database: Database, file: Path) -> Backup:
    if file.exists():
        raise BackupFailed(f"{file} exists already; choose another name, so that no backup is lost.")
    if isinstance(database, SqliteDatabase):
        path = database.path
        version = complete(file, lambda unfinished: _copy_sqlite(path, unfinished))
    else:
        # Imported only where it is used: the driver costs start-up time and memory.
        from holdfast.storage import backup_postgresql
        from holdfast.storage.postgresql import PostgresDatabase

        if not isinstance(database, PostgresDatabase):
            raise TypeError(f"no backup of {type(database).__name__}")
        url = database.url
        version = complete(file, lambda unfinished: backup_postgresql.dump(url, unfinished))
    return Backup(file, database.dialect, version, file.stat().st_size)


def _restore(file: Path, target: Path | str, replace: bool) -> Backup:
    try:
        with file.open("rb") as opened:
            begin = opened.read(16)
    except OSError as problem:
        raise BackupFailed(f"{file} cannot be read ({problem.strerror}).") from None
    if begin.startswith(_SQLITE_MAGIC):
        if not isinstance(target, Path):
            raise BackupFailed(f"{file} was made on the embedded store; unset HOLDFAST_DATABASE_URL to restore it.")
        version = _restore_sqlite(file, target, replace)
        return Backup(file, "sqlite", version, file.stat().st_size)
    if begin.startswith(_GZIP_MAGIC):
        if not isinstance(target, str):
            raise BackupFailed(f"{file} was made on PostgreSQL; set HOLDFAST_DATABASE_URL to restore it.")
        from holdfast.storage import backup_postgresql

        version = backup_postgresql.load(file, target, replace)
        return Backup(file, "postgresql", version, file.stat().st_size)
    raise BackupFailed(f"{file} is not a Holdfast backup.")


def _copy_sqlite(source: Path, unfinished: Path) -> int:
    try:
        with closing(connect(source, read_only=True)) as origin, closing(connect(unfinished)) as copy:
            # In one step, so from one snapshot; writers go on meanwhile.
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            return _version(copy)
    except SqliteError as problem:
        raise BackupFailed(
            f"The store could not be copied to {unfinished.parent} ({problem}); free some space there."
        ) from None


def _version(connection: Any) -> int:
    row = connection.execute("SELECT MAX(version) AS version FROM schema_migration").fetchone()
    return int(row["version"] or 0)


def _restore_sqlite(file: Path, target: Path, replace: bool) -> int:
    version = _checked(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = DataDirectoryLock(target.parent)
    try:
        if target.exists() and target.stat().st_size and not replace:
            raise BackupFailed(f"{target} holds data already; restore elsewhere, or overwrite it with --replace.")

        def copy(unfinished: Path) -> int:
            shutil.copyfile(file, unfinished)
            # What is left of the old log must never be applied to the new file.
            for rest in ("-wal", "-shm"):
                target.with_name(target.name + rest).unlink(missing_ok=True)
            return version

        return complete(target, copy)
    finally:
        lock.release()


def _checked(file: Path) -> int:
    try:
        with closing(connect_copy(file)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise BackupFailed(f"{file} is damaged ({found}); use another backup.")
            version = _version(connection)
    except SqliteError as problem:
        raise BackupFailed(f"{file} is not a Holdfast backup or is damaged ({problem}).") from None
    refuse_newer(file, version)
    return version
