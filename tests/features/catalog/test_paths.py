"""What a command's server sees of this machine: what it names, and what that needs to run; never our own data."""

from pathlib import Path

import pytest

from holdfast.core.principal import SCOPES, Principal
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.servers.paths import PathRules

LOCAL = Principal("org", "local", "local", False, frozenset(SCOPES))
KEY = Principal("org", "key", "key", False, frozenset(SCOPES))


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def shown(data: Path, *words: Path | str, who: Principal = LOCAL, allowed: tuple[str, ...] = ()) -> list[str]:
    command, *args = (str(word) for word in words)
    entry = NewEntry(name="demo", shape="command", command=command, args=tuple(args))
    found, wrong = PathRules(data, allowed).named(who, entry)
    assert wrong == []
    return list(found)


@pytest.mark.parametrize("mark", ["package.json", "pyproject.toml", "requirements.txt", "node_modules/x"])
def test_a_script_comes_with_the_project_that_it_is_part_of(tmp_path: Path, mark: str) -> None:
    script = made(tmp_path / "project" / "build" / "index.js")
    made(tmp_path / "project" / mark)
    assert shown(tmp_path / "data", "node", script) == [str(tmp_path / "project")]


def test_a_script_that_is_part_of_nothing_is_shown_alone(tmp_path: Path) -> None:
    script = made(tmp_path / "tools" / "server.py")
    assert shown(tmp_path / "data", "python3", script) == [str(script)]


def test_an_installed_package_comes_with_what_was_installed_beside_it(tmp_path: Path) -> None:
    inner = made(tmp_path / "a" / "node_modules" / "b" / "node_modules" / "c" / "dist" / "index.js")
    assert shown(tmp_path / "data", "node", inner) == [str(tmp_path / "a" / "node_modules")]


def test_a_project_is_not_widened_to_a_home_or_to_what_holds_our_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = made(tmp_path / "home" / "tools" / "server.py")
    made(tmp_path / "home" / "package.json")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert shown(tmp_path / "data", "python3", script) == [str(script)]
    script = made(tmp_path / "project" / "server.py")
    made(tmp_path / "project" / "pyproject.toml")
    assert shown(tmp_path / "project" / "data", "python3", script) == [str(script)]


def test_over_the_network_a_project_is_shown_as_far_as_the_operator_lets_it_be(tmp_path: Path) -> None:
    script = made(tmp_path / "project" / "build" / "index.js")
    made(tmp_path / "project" / "package.json")
    inside, whole = (str(tmp_path / "project" / "build"),), (str(tmp_path),)
    assert shown(tmp_path / "data", "node", script, who=KEY, allowed=inside) == [str(script)]
    assert shown(tmp_path / "data", "node", script, who=KEY, allowed=whole) == [str(tmp_path / "project")]


def test_a_program_of_a_virtual_environment_comes_with_the_interpreter_that_it_names(tmp_path: Path) -> None:
    python = made(tmp_path / "pythons" / "3" / "bin" / "python3.11")
    environment = tmp_path / "environment"
    program = made(environment / "bin" / "mcp-server-git")
    made(environment / "pyvenv.cfg")
    (environment / "bin" / "python").symlink_to(python)
    assert shown(tmp_path / "data", program) == [str(environment), str(tmp_path / "pythons" / "3")]
