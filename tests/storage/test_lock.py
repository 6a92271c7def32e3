"""A data directory serves one server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.storage.database import StartFailed
from holdfast.storage.lock import DataDirectoryLock
from holdfast.storage.sqlite import SqliteDatabase

HOLDER = """
import sys
from pathlib import Path
from holdfast.storage.lock import DataDirectoryLock
lock = DataDirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_server_is_refused_by_name_until_the_first_is_gone(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdin is not None and first.stdout is not None
    assert first.stdout.readline() == "held\n"
    with pytest.raises(StartFailed, match=rf"\(process {first.pid}\) uses the data directory .*--data-dir"):
        DataDirectoryLock(tmp_path)
    first.kill()
    first.wait()
    first.stdin.close()
    first.stdout.close()
    lock = DataDirectoryLock(tmp_path)
    with pytest.raises(StartFailed, match=f"process {os.getpid()}"):
        DataDirectoryLock(tmp_path)
    lock.release()
    DataDirectoryLock(tmp_path).release()


def test_a_directory_that_does_not_exist_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cannot be used") as refused:
        DataDirectoryLock(tmp_path / "nowhere")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.db"
    file.write_bytes(b"a diary, not a database " * 100)
    with pytest.raises(StartFailed, match="is not a Holdfast database"):
        SqliteDatabase(file)


def test_a_place_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed, match=r"cannot be used .* choose another with --data-dir"):
        SqliteDatabase(tmp_path / "file" / "holdfast.db")
