"""Owns copies of a PostgreSQL store: every table in one portable file, whatever tools are installed here."""

import asyncio
import io
import json
import tarfile
import tempfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg import sql

from holdfast.storage.backup_file import BackupFailed, refuse_newer
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate

_FORMAT = "holdfast-postgresql-1"
_MANIFEST = "manifest.json"
_PIECE = 1 << 20
_COLUMNS = """
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
        AND NOT a.attisdropped AND a.attgenerated = ''
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    GROUP BY c.relname ORDER BY c.relname
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
_FOREIGN_KEYS = """
    SELECT conrelid::regclass::text AS name, conname, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
"""
_OBJECTS = """
    SELECT 'TABLE' AS kind, c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    UNION ALL
    SELECT 'SEQUENCE', c.oid::regclass::text FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'S'
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'a', 'i'))
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""


@dataclass(frozen=True, slots=True)
class _Manifest:
    schema_version: int
    tables: dict[str, list[str]]
    sequences: dict[str, int] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)
    format: str = _FORMAT


def dump(url: str, file: Path) -> int:
    """Write every table, as they are at one moment; the schema version."""
    with psycopg.connect(url, autocommit=True) as connection, tarfile.open(file, "w:gz", compresslevel=3) as archive:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        manifest = _Manifest(
            schema_version=_version(connection),
            tables=dict(connection.execute(_COLUMNS).fetchall()),
            sequences=dict(connection.execute(_SEQUENCES).fetchall()),
            indexes=dict(connection.execute(_INDEXES).fetchall()),
        )
        text = json.dumps(asdict(manifest)).encode()
        _add(archive, _MANIFEST, io.BytesIO(text), len(text))
        for name, columns in manifest.tables.items():
            with tempfile.TemporaryFile(dir=file.parent) as spool, connection.cursor() as cursor:
                with cursor.copy(_copy_statement(name, columns, "TO STDOUT")) as rows:
                    for piece in rows:
                        spool.write(piece)
                size = spool.tell()
                spool.seek(0)
                _add(archive, f"{name}.copy", spool, size)
        connection.execute("COMMIT")
        return manifest.schema_version


def load(file: Path, url: str, replace: bool) -> int:
    """Put a copy into the database at the URL; its schema version."""
    try:
        manifest = _read_manifest(file)
        refuse_newer(file, manifest.schema_version)
        _make_room(url, replace)
        asyncio.run(_build(url, manifest.schema_version))
        _fill(file, manifest, url)
    except (tarfile.TarError, zlib.error, OSError, EOFError, KeyError, TypeError, ValueError) as problem:
        raise BackupFailed(f"{file} is not a Holdfast backup or is damaged ({problem}).") from None
    except psycopg.Error as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise BackupFailed(f"{file} could not go into PostgreSQL ({reason}); try again with --replace.") from problem
    return manifest.schema_version


async def _build(url: str, version: int) -> None:
    database = PostgresDatabase(url, connections=1)
    try:
        await migrate(database, up_to=version)
    finally:
        await database.close()


def _version(connection: "psycopg.Connection[Any]") -> int:
    row = connection.execute("SELECT MAX(version) FROM schema_migration").fetchone()
    return int(row[0] or 0) if row else 0


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


def _copy_statement(name: str, columns: list[str], direction: str) -> sql.Composed:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) {}").format(sql.Identifier(name), listed, sql.SQL(direction))


def _read_manifest(file: Path) -> _Manifest:
    with tarfile.open(file, "r:gz") as archive:
        content = json.loads(_member(archive, _MANIFEST).read())
        manifest = _Manifest(**content)
        if manifest.format != _FORMAT:
            raise ValueError(f"format {manifest.format}")
        # Reads to the end, so that a cut-off file is noticed before anything is changed.
        missing = set(manifest.tables) - {Path(name).stem for name in archive.getnames()}
        if missing:
            raise ValueError(f"without table {sorted(missing)[0]}")
        return manifest


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    content = archive.extractfile(name)
    if content is None:
        raise KeyError(name)
    return content


def _make_room(url: str, replace: bool) -> None:
    with psycopg.connect(url) as connection:
        found = connection.execute(_OBJECTS).fetchall()
        if found and not replace:
            raise BackupFailed("The PostgreSQL database holds data already; restore elsewhere, or use --replace.")
        for kind, name in found:
            connection.execute(f"DROP {kind} IF EXISTS {name} CASCADE".encode())


def _fill(file: Path, manifest: _Manifest, url: str) -> None:
    """All tables in one transaction. Keys and triggers wait: rows arrive in any order, and were right when copied."""
    with psycopg.connect(url) as connection, tarfile.open(file, "r:gz") as archive:
        keys = connection.execute(_FOREIGN_KEYS).fetchall()
        for table, constraint, _ in keys:
            connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{constraint}"'.encode())
        for name, columns in manifest.tables.items():
            if name == "schema_migration":
                continue
            connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(sql.Identifier(name)))
            # Migrations may have put first rows there; the copy has them too.
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
            rows = _member(archive, f"{name}.copy")
            with connection.cursor() as cursor, cursor.copy(_copy_statement(name, columns, "FROM STDIN")) as copy:
                while piece := rows.read(_PIECE):
                    copy.write(piece)
            connection.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(sql.Identifier(name)))
        for table, constraint, definition in keys:
            connection.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{constraint}" {definition}'.encode())
        for name, value in manifest.sequences.items():
            connection.execute("SELECT setval(%s::regclass, %s)", (f'public."{name}"', value))
        present = {name for name, _ in connection.execute(_INDEXES).fetchall()}
        for name, definition in manifest.indexes.items():
            if name not in present:
                connection.execute(definition.encode())
