"""Owns copies of a PostgreSQL store: every table in one portable file, whatever tools are installed here."""

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
from psycopg.rows import dict_row

from holdfast.storage.backup_archive import ArchiveRefused, BackupArchive
from holdfast.storage.backup_file import BackupFailed, opened_regular, refuse_altered, refuse_newer
from holdfast.storage.postgresql import PostgresTx
from holdfast.storage.schema import build
from holdfast.storage.tenants import crossing

Heads = dict[str, tuple[int, str]]
Connection = psycopg.Connection[dict[str, Any]]

_FORMAT = "holdfast-postgresql-1"
_MANIFEST = "manifest.json"
_MAX_MANIFEST = 4 << 20
_MAX_MIGRATIONS = 1 << 20
_PIECE = 1 << 20
_COLUMNS = """
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
        AND NOT a.attisdropped AND a.attgenerated = ''
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    GROUP BY c.relname ORDER BY c.relname
"""
_HEADS = "SELECT organization_id, sequence, hash FROM audit_head"
_SERVERS = """
    SELECT COUNT(*) AS servers FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast' AND pid <> pg_backend_pid()
"""
_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
_ALL_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'"
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
    """Only older copies have them, and they are not read: the search engine builds its own again."""
    format: str = _FORMAT


def dump(url: str, file: Path, heads: Heads) -> int:
    """Write every table, as they are at one moment; the schema version. `heads` are told how far audit chains go."""
    with _connected(url, autocommit=True) as connection, tarfile.open(file, "w:gz", compresslevel=3) as archive:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        manifest = _Manifest(
            schema_version=_version(connection), tables=_tables(connection), sequences=_sequences(connection)
        )
        heads |= _heads(connection, manifest.tables)
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


def load(file: Path, url: str, replace: bool, heads: Heads) -> int:
    """Put a copy into the database at the URL, all in one transaction; its schema version."""
    try:
        with opened_regular(file) as opened:
            archive = BackupArchive(opened)
            manifest = _read_manifest(file, archive)
            with _connected(url) as connection:
                _make_room(connection, replace)
                build(PostgresTx(connection), manifest.schema_version)
                _fill(archive, manifest, connection)
                crossed = crossing(PostgresTx(connection))
                if crossed is not None:
                    raise BackupFailed(f"{file} was altered: {crossed}; use another backup.")
                heads |= _heads(connection, manifest.tables)
    except ArchiveRefused as problem:
        raise BackupFailed(f"{file} is refused: {problem}; use another backup.") from None
    except (
        tarfile.TarError,
        zlib.error,
        OSError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as problem:
        raise BackupFailed(f"{file} is not a Holdfast backup or is damaged ({problem}).") from None
    except psycopg.Error as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise BackupFailed(f"{file} could not go into PostgreSQL ({reason}); nothing was changed there.") from problem
    return manifest.schema_version


def _connected(url: str, *, autocommit: bool = False) -> Connection:
    return psycopg.connect(url, autocommit=autocommit, row_factory=dict_row)


def _version(connection: Connection) -> int:
    row = connection.execute("SELECT MAX(version) AS version FROM schema_migration").fetchone()
    return int(row["version"] or 0) if row else 0


def _tables(connection: Connection) -> dict[str, list[str]]:
    return {row["name"]: row["columns"] for row in connection.execute(_COLUMNS).fetchall()}


def _sequences(connection: Connection) -> dict[str, int]:
    return {row["sequencename"]: row["last_value"] for row in connection.execute(_SEQUENCES).fetchall()}


def _heads(connection: Connection, tables: dict[str, list[str]]) -> Heads:
    if "audit_head" not in tables:
        return {}
    rows = connection.execute(_HEADS).fetchall()
    return {row["organization_id"]: (row["sequence"], row["hash"]) for row in rows}


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


def _copy_statement(name: str, columns: list[str], direction: str) -> sql.Composed:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) {}").format(sql.Identifier(name), listed, sql.SQL(direction))


def _read_manifest(file: Path, archive: BackupArchive) -> _Manifest:
    """What the archive says it holds, when it holds exactly that; read to its end before anything is changed."""
    manifest = _Manifest(**json.loads(archive.small(_MANIFEST, _MAX_MANIFEST)))
    if manifest.format != _FORMAT:
        raise ValueError(f"format {manifest.format}")
    if not isinstance(manifest.schema_version, int) or isinstance(manifest.schema_version, bool):
        raise ValueError("its schema version is no number")
    refuse_newer(file, manifest.schema_version)
    expected = {_MANIFEST, *(f"{name}.copy" for name in manifest.tables)}
    if missing := expected - archive.names:
        raise ValueError(f"without table {sorted(missing)[0]}")
    if more := archive.names - expected:
        raise ArchiveRefused(f"it has a member {sorted(more)[0]!r} that no backup has")
    rows = archive.small("schema_migration.copy", _MAX_MIGRATIONS).decode()
    places = [manifest.tables["schema_migration"].index(name) for name in ("version", "name", "checksum")]
    applied = [[line.split("\t")[place] for place in places] for line in rows.splitlines()]
    version = refuse_altered(file, [(int(number), name, checksum) for number, name, checksum in applied])
    if version != manifest.schema_version:
        raise ArchiveRefused(f"it says schema version {manifest.schema_version} and holds {version}")
    return manifest


def _make_room(connection: Connection, replace: bool) -> None:
    found = connection.execute(_OBJECTS).fetchall()
    if found and not replace:
        raise BackupFailed("The PostgreSQL database holds data already; restore elsewhere, or use --replace.")
    running = connection.execute(_SERVERS).fetchone()
    if running is not None and running["servers"]:
        raise BackupFailed("A Holdfast server uses the PostgreSQL database; stop every replica and try again.")
    connection.execute("SET LOCAL lock_timeout = '60s'")
    for row in found:
        connection.execute(f"DROP {row['kind']} IF EXISTS {row['name']} CASCADE".encode())


def _fill(archive: BackupArchive, manifest: _Manifest, connection: Connection) -> None:
    """Every table of ours and no other. Keys and triggers wait: rows arrive in any order, and keys are checked last."""
    ours = _tables(connection)
    for name in sorted(ours.keys() ^ manifest.tables.keys()):
        raise ArchiveRefused(f"the table {name!r} is in the backup or in this schema, but not in both")
    keys = connection.execute(_FOREIGN_KEYS).fetchall()
    for key in keys:
        connection.execute(f'ALTER TABLE {key["name"]} DROP CONSTRAINT "{key["conname"]}"'.encode())
    for name, columns in manifest.tables.items():
        if sorted(columns) != sorted(ours[name]):
            raise ArchiveRefused(f"the table {name!r} has other columns than in this schema")
        if name == "schema_migration":
            continue
        connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(sql.Identifier(name)))
        # Migrations may have put first rows there; the copy has them too.
        connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        rows = archive.opened(f"{name}.copy")
        with connection.cursor() as cursor, cursor.copy(_copy_statement(name, columns, "FROM STDIN")) as copy:
            while piece := rows.read(_PIECE):
                copy.write(piece)
        connection.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(sql.Identifier(name)))
    for key in keys:
        statement = f'ALTER TABLE {key["name"]} ADD CONSTRAINT "{key["conname"]}" {key["definition"]}'
        connection.execute(statement.encode())
    known = {row["sequencename"] for row in connection.execute(_ALL_SEQUENCES).fetchall()}
    for name, value in manifest.sequences.items():
        if name not in known or not isinstance(value, int):
            raise ArchiveRefused(f"it has a sequence {name!r} that Holdfast does not make")
        connection.execute("SELECT setval(%s::regclass, %s)", (f'public."{name}"', value))
