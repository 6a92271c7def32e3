"""Owns copies of the embedded store: taking one, looking into one that somebody brings, and putting it in place."""

import os
import shutil
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.storage.backup_file import BackupFailed, complete, opened_regular, refuse_altered
from holdfast.storage.files import make_directory
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.schema import build
from holdfast.storage.sqlite import SqliteError, SqliteTx, connect, connect_copy, connect_memory
from holdfast.storage.tenants import crossing

Heads = dict[str, tuple[int, str]]
# What SQLite itself adds, with the only text that it has.
_INTERNAL = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def copy(source: Path, unfinished: Path) -> int:
    """Copy a store that is in use, as it is at one moment; its schema version."""
    try:
        with closing(connect(source, read_only=True)) as origin, closing(connect(unfinished)) as copied:
            # In one step, so from one snapshot; writers go on meanwhile.
            origin.backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE")
            row = copied.execute("SELECT MAX(version) AS version FROM schema_migration").fetchone()
            return int(row["version"] or 0)
    except SqliteError as problem:
        raise BackupFailed(
            f"The store could not be copied to {unfinished.parent} ({problem}); free some space there."
        ) from None


def restore(file: Path, target: Path, replace: bool) -> int:
    """Put a copy in place; killed at any moment, there is the old store or the new one."""
    make_directory(target.parent)
    lock = DataDirectoryLock(target.parent)
    try:
        if target.exists() and target.stat().st_size and not replace:
            raise BackupFailed(f"{target} holds data already; restore elsewhere, or overwrite it with --replace.")
        for left in target.parent.glob(f".{target.name}.*.part*"):
            left.unlink(missing_ok=True)

        def write(unfinished: Path) -> int:
            _take(file, unfinished)
            # Looked into where nobody else can change it any more.
            version = inspect(file, unfinished)
            _fold(target)
            return version

        return complete(target, write)
    finally:
        lock.release()


def heads(file: Path) -> Heads:
    """How far each audit chain goes in a copy."""
    with closing(connect_copy(file)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit_head'").fetchone() is None:
            return {}
        rows = connection.execute("SELECT organization_id, sequence, hash FROM audit_head").fetchall()
    return {str(row["organization_id"]): (int(row["sequence"]), str(row["hash"])) for row in rows}


def inspect(name: Path, file: Path) -> int:
    """The schema version of a copy that is ours and whole; `name` is what people know it by."""
    try:
        with closing(connect_copy(file)) as connection:
            # No function that a view, trigger or index of somebody's names is run.
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA cell_size_check=ON")
            version = _schema(name, connection)
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise BackupFailed(f"{name} is damaged ({found}); use another backup.")
            row = connection.execute("PRAGMA foreign_key_check").fetchone()
            if row is not None:
                raise BackupFailed(f"{name} has a row of {row[0]} that refers to nothing; use another backup.")
            crossed = crossing(SqliteTx(connection))
            if crossed is not None:
                raise BackupFailed(f"{name} was altered: {crossed}; use another backup.")
            return version
    except SqliteError as problem:
        raise BackupFailed(f"{name} is not a Holdfast backup or is damaged ({problem}).") from None


def _schema(name: Path, connection: Any) -> int:
    """The version of the schema, when it is exactly what our migrations make."""
    found = {tuple(row) for row in connection.execute(_SCHEMA)}
    with closing(connect_memory()) as ours:
        build(SqliteTx(ours), 0)
        if not found >= {tuple(row) for row in ours.execute(_SCHEMA)}:
            raise BackupFailed(f"{name} is not a Holdfast backup: it says nothing of its schema.")
        applied = connection.execute("SELECT version, name, checksum FROM schema_migration").fetchall()
        version = refuse_altered(name, [(_number(name, row[0]), str(row[1]), str(row[2])) for row in applied])
        build(SqliteTx(ours), version)
        wanted = {tuple(row) for row in ours.execute(_SCHEMA)}
    internal = {("table", each, each, text) for each, text in _INTERNAL.items()}
    for kind, each, _, _ in sorted(found - wanted - internal, key=str):
        raise BackupFailed(f"{name} was altered: it has a {kind} {each!r} that Holdfast does not make; use another.")
    for kind, each, _, _ in sorted(wanted - found, key=str):
        raise BackupFailed(f"{name} was altered: the {kind} {each!r} is missing; use another backup.")
    return version


def _number(name: Path, version: object) -> int:
    if not isinstance(version, int):
        raise BackupFailed(f"{name} was altered: {version!r} is no schema version; use another backup.")
    return version


def _take(file: Path, unfinished: Path) -> None:
    """Copy the file, if its size is what its header says and there is room."""
    with opened_regular(file) as source:
        size = os.fstat(source.fileno()).st_size
        header = source.read(100)
        if len(header) < 100:
            raise BackupFailed(f"{file} is not a Holdfast backup or is damaged (it is cut short).")
        (page,) = struct.unpack(">H", header[16:18])
        (pages,) = struct.unpack(">I", header[28:32])
        if size != (65536 if page == 1 else page) * pages:
            raise BackupFailed(f"{file} is damaged (its size is not what it says); use another backup.")
        free = shutil.disk_usage(unfinished.parent).free
        if size > free:
            raise BackupFailed(
                f"{file} holds {size >> 20} MiB and {unfinished.parent} has {free >> 20} MiB left; free some space."
            )
        source.seek(0)
        with unfinished.open("wb") as copied:
            # No more than was looked at, should the file grow meanwhile.
            left = size
            while left and (piece := source.read(min(left, 1 << 20))):
                copied.write(piece)
                left -= len(piece)


def _fold(target: Path) -> None:
    """Bring what is in the old store's log into the old store: until the new one has its name, the old one is whole."""
    if target.exists() and target.stat().st_size:
        try:
            with closing(connect(target)) as old:
                old.execute("PRAGMA journal_mode=DELETE")
        except SqliteError as problem:
            if "locked" in str(problem):
                raise BackupFailed(f"Another process uses {target}; end it and try again.") from None
            # A store too damaged to be opened is what backups are for; its log goes with it.
    for rest in ("-wal", "-shm"):
        target.with_name(target.name + rest).unlink(missing_ok=True)
