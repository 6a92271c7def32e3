"""Owns copying the whole store into one file while the server goes on writing, and putting it back."""

import asyncio
from pathlib import Path

from holdfast.storage import backup_sqlite
from holdfast.storage.backup_file import Backup, BackupFailed, complete, opened_regular
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase

__all__ = ["Backup", "BackupFailed", "backup", "restore"]

_SQLITE_MAGIC = b"SQLite format 3\0"
_GZIP_MAGIC = b"\x1f\x8b"


async def backup(database: Database, file: Path) -> Backup:
    """Copy the whole store into `file`, as it is at one moment; the file appears when it is complete."""
    return await asyncio.to_thread(_backup, database, file)


async def restore(file: Path, target: Path | str, *, replace: bool = False) -> Backup:
    """Put a copy into a SQLite file (a path) or a PostgreSQL database (a URL): an empty one, unless told to replace it.

    No server may run on it. What is not exactly a store of ours is refused, and nothing is changed then. A copy of an
    older version is migrated when a server starts on it.
    """
    return await asyncio.to_thread(_restore, file, target, replace)


def _backup(database: Database, file: Path) -> Backup:
    if file.exists() or file.is_symlink():
        raise BackupFailed(f"{file} exists already; choose another name, so that no backup is lost.")
    if isinstance(database, SqliteDatabase):
        path = database.path
        version = complete(file, lambda unfinished: backup_sqlite.copy(path, unfinished))
        return Backup(file, "sqlite", version, file.stat().st_size, backup_sqlite.heads(file))
    # Imported only where it is used: the driver costs start-up time and memory.
    from holdfast.storage import backup_postgresql
    from holdfast.storage.postgresql import PostgresDatabase

    if not isinstance(database, PostgresDatabase):
        raise TypeError(f"no backup of {type(database).__name__}")
    url = database.url
    heads: backup_sqlite.Heads = {}
    version = complete(file, lambda unfinished: backup_postgresql.dump(url, unfinished, heads))
    return Backup(file, "postgresql", version, file.stat().st_size, heads)


def _restore(file: Path, target: Path | str, replace: bool) -> Backup:
    with opened_regular(file) as opened:
        begin = opened.read(16)
    if begin.startswith(_SQLITE_MAGIC):
        if not isinstance(target, Path):
            raise BackupFailed(f"{file} was made on the embedded store; unset HOLDFAST_DATABASE_URL to restore it.")
        version = backup_sqlite.restore(file, target, replace)
        return Backup(file, "sqlite", version, file.stat().st_size, backup_sqlite.heads(target))
    if begin.startswith(_GZIP_MAGIC):
        if not isinstance(target, str):
            raise BackupFailed(f"{file} was made on PostgreSQL; set HOLDFAST_DATABASE_URL to restore it.")
        from holdfast.storage import backup_postgresql

        heads: backup_sqlite.Heads = {}
        version = backup_postgresql.load(file, target, replace, heads)
        return Backup(file, "postgresql", version, file.stat().st_size, heads)
    raise BackupFailed(f"{file} is not a Holdfast backup.")
