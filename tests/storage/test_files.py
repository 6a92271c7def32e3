"""Only its owner gets at a data directory, whatever the umask was and however wide it was before."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.storage.backup import backup
from holdfast.storage.files import private_files, tighten
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase


def open_to_others(directory: Path) -> list[str]:
    """What others than the owner have any right to, by mode."""
    found = [directory, *directory.rglob("*")]
    return [str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o077]


async def test_a_store_and_its_log_are_private_at_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = SqliteDatabase(tmp_path / "data" / "holdfast.db")
        await migrate(database)
        await backup(database, tmp_path / "data" / "copy")
        assert (tmp_path / "data" / "holdfast.db-wal").exists()
        assert open_to_others(tmp_path / "data") == []
        await database.close()
    finally:
        os.umask(before)


def test_what_is_ours_is_tightened_and_nothing_else(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for path in ("holdfast.db", "holdfast.db-wal", "master.key", "audit.heads", "repositories/a/pack", "notes.txt"):
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text("x")
        (data / path).chmod(0o644)
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "elsewhere").chmod(0o644)
    (data / "repositories" / "link").symlink_to(tmp_path / "elsewhere")
    data.chmod(0o755)
    assert tighten(data) == []
    assert open_to_others(data) == [str(data / "notes.txt")]
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o644


def test_what_cannot_be_changed_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)

    def refused(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refused)
    (complaint,) = tighten(tmp_path)
    assert f"chmod 700 {tmp_path}" in complaint and "755" in complaint


def test_the_umask_is_put_back(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files():
            (tmp_path / "inside").touch()
        (tmp_path / "after").touch()
        assert stat.S_IMODE((tmp_path / "inside").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "after").stat().st_mode) == 0o644
    finally:
        os.umask(before)
