"""`up` and `doctor` say when others can get at the data directory and this user cannot change that."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.core.settings import Settings
from holdfast.main import cli
from holdfast.surfaces.cli.frame import FAILED, ProgramEntry
from tests.support.services import open_local


def _serves(settings: Settings, announce: Callable[[Any], None]) -> None:
    return None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory that is open to everybody."""
    path = tmp_path / "data"
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.fixture
def entry(data: Path) -> ProgramEntry:
    return ProgramEntry(lambda _, begins: open_local(Settings(data_dir=data)), _serves)


def _refused(path: Path, mode: int) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_up_warns_with_the_remedy(data: Path, entry: ProgramEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", _refused)
    result = CliRunner().invoke(cli, ["up", "--data-dir", str(data)], obj=entry)
    assert result.exit_code == 0
    assert f"chmod 700 {data}" in result.stderr and "warning" in result.stderr


def test_doctor_calls_it_a_problem(data: Path, entry: ProgramEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", _refused)
    result = CliRunner().invoke(cli, ["doctor", "--data-dir", str(data), "--json"], obj=entry)
    (found,) = [each for each in json.loads(result.stdout) if each["check"] == "files"]
    assert result.exit_code == FAILED and found["state"] == "problem" and "chmod" in found["remedy"]


def test_what_can_be_changed_is_changed_and_not_spoken_of(data: Path, entry: ProgramEntry) -> None:
    result = CliRunner().invoke(cli, ["up", "--data-dir", str(data)], obj=entry)
    assert result.exit_code == 0 and not result.stderr and data.stat().st_mode & 0o777 == 0o700
    result = CliRunner().invoke(cli, ["doctor", "--data-dir", str(data), "--json"], obj=entry)
    (found,) = [each for each in json.loads(result.stdout) if each["check"] == "files"]
    assert found["state"] == "ok"
