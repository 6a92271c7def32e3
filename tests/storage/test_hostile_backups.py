"""Backups that somebody prepared: each is refused with a word on why, and nothing is changed by it."""

import asyncio
import gzip
import io
import json
import os
import signal
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.backup import BackupFailed, backup, restore
from holdfast.storage.database import Database, Tx
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.stores.postgres import PrivatePostgres

ADMIN = "INSERT INTO user_account (id, email, name, created_at) VALUES ('usr_evil', 'evil@x', 'Evil', 1)"


def fill(tx: Tx) -> None:
    """Two tenants."""
    for name in ("a", "b"):
        row = {"org": f"org_{name}", "prj": f"proj_{name}", "ws": f"ws_{name}"}
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES (:org, 'O', 1)", row)
        tx.execute(
            "INSERT INTO project (id, organization_id, slug, name, created_at) VALUES (:prj, :org, 'p', 'P', 1)", row
        )
        tx.execute(
            "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
            "VALUES (:ws, :prj, :org, 'w', 'W', 1)",
            row,
        )


def contents(path: Path) -> dict[str, bytes]:
    """Every file below a directory, for saying that nothing was changed."""
    found = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    found.pop("server.lock", None)
    return found


@pytest.fixture
async def copy(sqlite_database: SqliteDatabase, tmp_path: Path) -> Path:
    """A good backup of the embedded store."""
    await sqlite_database.write(fill)
    await backup(sqlite_database, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
async def target(tmp_path: Path) -> Path:
    """A store that holds something, whose last changes are still in its log."""
    path = tmp_path / "data" / "holdfast.db"
    database = SqliteDatabase(path)
    await migrate(database)
    await database.write(lambda tx: tx.execute("INSERT INTO organization VALUES ('org_mine', 'mine', 1)"))
    await database.close()
    return path


def altered(copy: Path, *statements: str) -> Path:
    """The copy after somebody's SQL."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return copy


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (f"CREATE TRIGGER evil AFTER INSERT ON event BEGIN {ADMIN}; END", "trigger 'evil'"),
        ("CREATE VIEW evil AS SELECT * FROM secret", "view 'evil'"),
        ("CREATE TABLE evil (x)", "table 'evil'"),
        ("CREATE UNIQUE INDEX evil ON memory (workspace_id)", "index 'evil'"),
        ("DROP TRIGGER audit_event_stays", "trigger 'audit_event_stays' is missing"),
        ("DROP TABLE membership", "'membership_user' is missing"),
        ("ALTER TABLE api_key ADD COLUMN evil TEXT DEFAULT 'x'", "table 'api_key'"),
        ("UPDATE schema_migration SET checksum = 'other' WHERE version = 3", "migration 0003"),
        ("UPDATE schema_migration SET name = 'other' WHERE version = 3", "migration 0003"),
        ("DELETE FROM schema_migration WHERE version = 3", "migration 0003"),
        ("DELETE FROM schema_migration", "says nothing of its schema"),
        ("INSERT INTO schema_migration VALUES (9999, 'future', 'x', 0)", "newer than this Holdfast"),
        ("UPDATE schema_migration SET version = -1 WHERE version = 3", "migration -001"),
        ("UPDATE workspace SET organization_id = 'org_b' WHERE id = 'ws_a'", "workspace belongs to another tenant"),
        (
            "UPDATE workspace SET project_id = 'proj_b', slug = 'x' WHERE id = 'ws_a'",
            "workspace belongs to another tenant",
        ),
        ("INSERT INTO workspace_admin VALUES ('ws_a', 'usr_nobody')", "refers to nothing"),
        ("DELETE FROM organization WHERE id = 'org_a'", "refers to nothing"),
    ],
)
async def test_a_store_that_is_not_exactly_ours_is_refused(
    copy: Path, target: Path, statement: str, named: str
) -> None:
    before = contents(target.parent)
    with pytest.raises(BackupFailed) as refused:
        await restore(altered(copy, statement), target, replace=True)
    assert named in refused.value.message and str(copy) in refused.value.message
    assert contents(target.parent) == before


async def test_a_schema_rewritten_by_hand_is_refused(copy: Path, target: Path) -> None:
    altered(
        copy,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'outcome TEXT NOT NULL', 'outcome TEXT') "
        "WHERE name = 'audit_event'",
    )
    with pytest.raises(BackupFailed, match="audit_event"):
        await restore(copy, target, replace=True)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
async def test_damaged_pages_are_refused(copy: Path, target: Path, place: float) -> None:
    whole = bytearray(copy.read_bytes())
    page = int(len(whole) * place) // 4096 * 4096
    whole[page : page + 4096] = os.urandom(4096)
    copy.write_bytes(whole)
    before = contents(target.parent)
    with pytest.raises(BackupFailed):
        await restore(copy, target, replace=True)
    assert contents(target.parent) == before


async def test_a_file_of_another_size_than_it_says_is_refused_before_it_is_copied(copy: Path, target: Path) -> None:
    os.truncate(copy, 1 << 42)
    with pytest.raises(BackupFailed, match="size is not what it says"):
        await restore(copy, target, replace=True)


async def test_what_is_no_plain_file_is_refused_without_waiting(target: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(BackupFailed):
            await asyncio.wait_for(restore(odd, target, replace=True), 30)


async def test_nothing_is_restored_under_a_command_that_has_the_store_open(
    copy: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.sqlite.BUSY_SECONDS", 0.1)
    open_store = SqliteDatabase(target)
    await open_store.read(lambda tx: tx.all("SELECT * FROM organization"))
    with pytest.raises(BackupFailed, match="Another process uses"):
        await restore(copy, target, replace=True)
    assert len(await open_store.read(lambda tx: tx.all("SELECT * FROM organization"))) == 1
    await open_store.close()


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.storage import {module}
from holdfast.storage.backup import restore
original = {module}.{function}
def dies(*given, **named):
    if {after}:
        original(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
{module}.{function} = dies
target = sys.argv[2]
asyncio.run(restore(Path(sys.argv[1]), target if "://" in target else Path(target), replace=True))
"""


async def killed_at(module: str, function: str, copy: Path, target: Path | str, *, after: bool) -> None:
    program = _KILLED.format(module=module, function=function, after=after)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(copy), str(target))
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(("function", "after"), [("_take", True), ("inspect", True), ("_fold", False), ("_fold", True)])
async def test_a_restore_killed_midway_leaves_the_old_store_whole(
    copy: Path, target: Path, function: str, after: bool
) -> None:
    with closing(sqlite3.connect(target)) as writer, closing(sqlite3.connect(target)) as reader:
        # The last change is only in the log, as a killed server leaves it.
        reader.execute("SELECT * FROM organization").fetchall()
        writer.execute("INSERT INTO organization VALUES ('org_last', 'last', 1)")
        writer.commit()
        log = target.with_name("holdfast.db-wal").read_bytes()
        whole = target.read_bytes()
    target.write_bytes(whole)
    target.with_name("holdfast.db-wal").write_bytes(log)
    await killed_at("backup_sqlite", function, copy, target, after=after)
    database = SqliteDatabase(target)
    ids = {row["id"] for row in await database.read(lambda tx: tx.all("SELECT id FROM organization"))}
    await database.close()
    assert ids == {"org_mine", "org_last"}
    await restore(copy, target, replace=True)
    assert not list(target.parent.glob(".*part*"))


# On PostgreSQL


@pytest.fixture
async def archive(postgres_database: PostgresDatabase, tmp_path: Path) -> Path:
    """A good backup of a PostgreSQL store."""
    await postgres_database.write(fill)
    await backup(postgres_database, tmp_path / "archive")
    return tmp_path / "archive"


@pytest.fixture
async def taken(postgres_server: PrivatePostgres, postgres_template: str, request: pytest.FixtureRequest) -> str:
    """A PostgreSQL store that holds something."""
    name = postgres_server.create(template=postgres_template)
    request.addfinalizer(lambda: postgres_server.drop(name))
    database = PostgresDatabase(postgres_server.url(name), connections=1)
    await database.write(lambda tx: tx.execute("INSERT INTO organization VALUES ('org_mine', 'mine', 1)"))
    await database.close()
    return postgres_server.url(name)


async def organizations(url: str) -> set[str]:
    database = PostgresDatabase(url, connections=1)
    try:
        return {row["id"] for row in await database.read(lambda tx: tx.all("SELECT id FROM organization"))}
    finally:
        await database.close()


def repacked(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive after somebody changed its members."""
    with tarfile.open(archive, "r:gz") as tar:
        members = {each.name: (tar.extractfile(each) or io.BytesIO()).read() for each in tar}
    change(members)
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


def manifest(**changed: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        said = json.loads(members["manifest.json"])
        for name, value in changed.items():
            said[name] = {**said[name], **value} if isinstance(value, dict) else value
        members["manifest.json"] = json.dumps(said).encode()

    return change


def rows(table: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        content = members[f"{table}.copy"]
        assert old in content
        members[f"{table}.copy"] = content.replace(old, new, 1)

    return change


def member(name: str, content: bytes = b"x") -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: content})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (member("../../etc/cron.d/evil"), "member '../../etc/cron.d/evil'"),
        (member("/etc/passwd"), "member '/etc/passwd'"),
        (member("evil.copy"), "member 'evil.copy'"),
        (manifest(tables={"pg_authid": ["rolname"]}), "without table pg_authid"),
        (manifest(sequences={"evil": 1}), "sequence 'evil'"),
        (manifest(sequences=[1]), "damaged"),
        (manifest(schema_version=3), "schema version 3"),
        (manifest(schema_version=True), "no number"),
        (manifest(schema_version=9999), "newer than this Holdfast"),
        (manifest(tables={"organization": ["id", "name"]}), "other columns"),
        (manifest(tables={"organization": ["id", "name", 'x") FROM PROGRAM $$id$$ --']}), "other columns"),
        (manifest(tables=3), "damaged"),
        (manifest(format="other"), "format other"),
        (rows("schema_migration", b"\tidentity\t", b"\tother\t"), "migration 0001"),
        (rows("workspace", b"\torg_a\t", b"\torg_b\t"), "workspace belongs to another tenant"),
        (rows("organization", b"org_a", b"org_c"), "foreign key"),
        (rows("organization", b"\t1", b"\tone"), "bigint"),
        (member("manifest.json", b"[]"), "damaged"),
        (member("manifest.json", b"[" * 100_000), "damaged"),
        (member("manifest.json", b" " * (5 << 20)), "too large"),
    ],
)
async def test_an_archive_that_is_not_exactly_ours_is_refused(
    archive: Path, taken: str, change: Callable[[dict[str, bytes]], None], named: str
) -> None:
    with pytest.raises(BackupFailed) as refused:
        await restore(repacked(archive, change), taken, replace=True)
    assert named in refused.value.message
    assert await organizations(taken) == {"org_mine"}


async def test_sql_in_an_archive_is_not_run(archive: Path, taken: str) -> None:
    evil = {"evil": "CREATE TABLE evil AS SELECT * FROM secret"}
    await restore(repacked(archive, manifest(indexes=evil)), taken, replace=True)
    database = PostgresDatabase(taken, connections=1)
    assert await database.read(lambda tx: tx.one("SELECT to_regclass('evil') AS it")) == {"it": None}
    await database.close()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
async def test_members_that_are_no_plain_files_are_refused(archive: Path, taken: str, kind: bytes) -> None:
    with tarfile.open(archive, "r:gz") as tar:
        said = (tar.extractfile("manifest.json") or io.BytesIO()).read()
    with tarfile.open(archive, "w:gz") as tar:
        first = tarfile.TarInfo("manifest.json")
        first.size = len(said)
        tar.addfile(first, io.BytesIO(said))
        odd = tarfile.TarInfo("organization.copy")
        odd.type, odd.linkname = kind, "/etc/passwd"
        tar.addfile(odd)
    with pytest.raises(BackupFailed, match="no plain file"):
        await restore(archive, taken, replace=True)
    assert await organizations(taken) == {"org_mine"}


def bomb(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    header = tarfile.TarInfo("organization.copy")
    header.type, header.size = kind, size
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as out:
        out.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(400):
            out.write(bytes(1 << 20))
    return packed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
@pytest.mark.parametrize("size", [400 << 20, 1 << 50])
async def test_a_bomb_or_a_huge_announcement_is_refused(tmp_path: Path, taken: str, kind: bytes, size: int) -> None:
    (tmp_path / "bomb").write_bytes(bomb(size, kind))
    with pytest.raises(BackupFailed, match=r"unpacks to more|header that is too large"):
        await restore(tmp_path / "bomb", taken, replace=True)
    assert await organizations(taken) == {"org_mine"}


async def test_nothing_is_restored_under_a_server_on_postgresql(archive: Path, taken: str) -> None:
    server = PostgresDatabase(taken, connections=1)
    with pytest.raises(BackupFailed, match="stop every replica"):
        await restore(archive, taken, replace=True)
    await server.close()
    await restore(archive, taken, replace=True)
    assert await organizations(taken) == {"org_a", "org_b"}


@pytest.mark.slow
@pytest.mark.parametrize("function", ["_make_room", "build", "_fill", "crossing"])
async def test_a_restore_killed_midway_leaves_the_old_database(archive: Path, taken: str, function: str) -> None:
    await killed_at("backup_postgresql", function, archive, taken, after=True)
    assert await organizations(taken) == {"org_mine"}


async def test_a_good_backup_still_comes_back(database: Database, tmp_path: Path, request: Any) -> None:
    await database.write(fill)
    made = await backup(database, tmp_path / "good")
    target: Path | str = (
        tmp_path / "new" / "holdfast.db"
        if database.dialect == "sqlite"
        else str(request.getfixturevalue("empty_postgres_url"))
    )
    assert (await restore(tmp_path / "good", target)).schema_version == made.schema_version
