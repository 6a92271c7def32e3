"""Proves where commands look for data: never making a store by reading, finding a running server's, and saying so."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from holdfast.core.settings import Settings
from holdfast.main import _opens, cli
from holdfast.server.start import first_key, found_organization, open_parts
from holdfast.storage.lock import DataDirectoryLock
from holdfast.surfaces.cli.frame import FAILED, ProgramEntry

# They make a store when that is asked of them, or open none.
_OTHERS = {"up", "restore", "settings", "completion", "doctor"}
_BEGIN = {
    *(
        "artifacts create",
        "cases add",
        "decisions add",
        "docs add",
        "endpoints add",
        "import",
        "keys create",
        "keys rotate",
    ),
    *("memory save", "milestones add", "organizations create", "projects create", "repos add", "secrets set"),
    *("users create", "users invite", "workspaces create"),
}


def _never(settings: Settings, announce: Callable[[Any], None]) -> None:
    raise AssertionError("no command here starts a server")


def _run(*words: str | Path, input: str = "") -> Result:
    entry = ProgramEntry(_opens, _never)
    return CliRunner().invoke(cli, [*map(str, words)], obj=entry, input=input, catch_exceptions=False)


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            for below in found.list_commands(context):
                command = found.get_command(context, below)
                assert command is not None
                yield f"{name} {below}", command
        else:
            yield name, found


def _words(command: click.Command) -> list[str]:
    """Something for everything that the command insists on."""
    words = []
    for parameter in command.params:
        if parameter.required:
            given = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "x"
            given = __file__ if isinstance(parameter.type, click.File) else given
            words += [given] if isinstance(parameter, click.Argument) else [parameter.opts[0], given]
    return words


COMMANDS = {name: command for name, command in _commands() if name not in _OTHERS}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - _BEGIN))
def test_a_command_that_only_looks_makes_no_store(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "missing"
    result = _run(*name.split(), *_words(COMMANDS[name]), "--data-dir", missing)
    assert result.exit_code == FAILED, result.output
    assert f"There is no Holdfast in {missing} yet; start one with `holdfast up`" in result.stderr
    assert "HOLDFAST_DATA_DIR" in result.stderr and result.stdout == ""
    assert not missing.exists()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own; servers of another home are not this user's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_DATA_DIR", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", sorted(_BEGIN))
def test_where_nobody_named_a_place_no_command_makes_a_store(home: Path, name: str) -> None:
    result = _run(*name.split(), *_words(COMMANDS[name]), input="value")
    assert result.exit_code == FAILED, result.output
    assert f"There is no Holdfast in {home}/.holdfast yet" in result.stderr
    assert list(home.iterdir()) == []


def test_a_store_that_a_command_begins_is_said_and_the_server_still_prints_its_first_key(tmp_path: Path) -> None:
    made = _run("projects", "create", "Rocket", "--data-dir", tmp_path / "new")
    assert made.exit_code == 0 and f"beginning a new store in {tmp_path}/new" in made.stderr
    again = _run("projects", "create", "Other", "--data-dir", tmp_path / "new")
    assert again.exit_code == 0 and again.stderr == ""
    assert _run("keys", "list", "--json", "--data-dir", tmp_path / "new").stdout == "[]\n"

    async def starts() -> list[str | None]:
        async with open_parts(Settings(data_dir=tmp_path / "new")) as parts:
            return [(await first_key(parts, await found_organization(parts))).api_key for _ in range(2)]

    first, second = asyncio.run(starts())
    assert first is not None and first.startswith("xero_") and second is None


def test_the_running_servers_directory_is_found_and_named(home: Path) -> None:
    elsewhere = home / "elsewhere"
    assert _run("projects", "create", "Rocket", "--data-dir", elsewhere).exit_code == 0
    lock = DataDirectoryLock(elsewhere)
    lock.tell("http://127.0.0.1:4711")
    listed = _run("projects", "list")
    assert "Rocket" in listed.stdout and f"using {elsewhere}, where your server is running" in listed.stderr
    # Its own directory needs no saying, and neither does one that was named.
    default = home / ".holdfast"
    assert _run("projects", "create", "Default", "--data-dir", default).exit_code == 0
    second = DataDirectoryLock(default)
    second.tell("http://127.0.0.1:4712")
    listed = _run("projects", "list")
    assert "Default" in listed.stdout and "Rocket" not in listed.stdout and listed.stderr == ""
    lock.release()
    second.release()
    # Nobody runs any more: the default it is, and that is said.
    listed = _run("projects", "list")
    assert "Default" in listed.stdout and f"using {default}; no server of yours is running" in listed.stderr


def test_of_several_servers_none_is_guessed(home: Path) -> None:
    locks = []
    for name in ("one", "two"):
        assert _run("projects", "create", name, "--data-dir", home / name).exit_code == 0
        locks.append(DataDirectoryLock(home / name))
        locks[-1].tell("http://127.0.0.1:1")
    result = _run("projects", "list")
    assert result.exit_code == FAILED
    assert f"{home}/one, {home}/two" in result.stderr and "--data-dir" in result.stderr
    for lock in locks:
        lock.release()


def test_a_server_of_another_home_is_another_matter(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path_factory.mktemp("foreign")
    assert _run("projects", "create", "Foreign", "--data-dir", foreign).exit_code == 0
    monkeypatch.setenv("HOME", "/elsewhere")
    lock = DataDirectoryLock(foreign)
    lock.tell("http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(home))
    assert _run("projects", "list").exit_code == FAILED
    lock.release()


def test_the_doctor_says_that_there_is_nothing_yet_and_makes_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    result = _run("doctor", "--data-dir", missing)
    assert result.exit_code == 0 and f"There is no Holdfast in {missing} yet" in " ".join(result.stdout.split())
    assert not missing.exists()


def test_a_database_without_a_holdfast_is_left_as_it_is(empty_postgres_url: str, tmp_path: Path) -> None:
    async def opens() -> None:
        async with open_parts(Settings(data_dir=tmp_path, database_url=empty_postgres_url), begins=False):
            raise AssertionError("it opened")

    with pytest.raises(Exception, match="HOLDFAST_DATABASE_URL holds no Holdfast yet"):
        asyncio.run(opens())


@pytest.mark.parametrize(
    ("typed", "on_path", "called"),
    [
        (".venv/bin/holdfast", False, ".venv/bin/holdfast"),
        ("bin/holdfast", True, "holdfast"),
        ("bin/xeroctl", True, "xeroctl"),
        ("somewhere/pytest", False, "holdfast"),
    ],
)
def test_hints_name_the_command_as_it_can_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, on_path: bool, called: str
) -> None:
    program = tmp_path / typed
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"/nowhere:{program.parent}" if on_path else "/nowhere")
    monkeypatch.setattr("sys.argv", [typed])
    result = _run("memory", "list", "--data-dir", tmp_path / "missing")
    assert f"start one with `{called} up`" in result.stderr
