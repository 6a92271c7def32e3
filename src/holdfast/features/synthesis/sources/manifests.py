"""Owns what package manifests say: names, descriptions, dependencies, entry points and commands, each with its line."""

import posixpath
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

_REQUIREMENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_GO_REQUIRED = re.compile(r"^\s*(?:require\s+)?([a-z0-9][\w.-]*\.[a-z]+/\S+)\s+v\S+(?!.*// indirect)")


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """A dependency, an entry point or a command, and the line that says so."""

    name: str
    text: str
    line: int


@dataclass(slots=True)
class Manifest:
    """One package manifest."""

    path: str
    ecosystem: str
    name: str = ""
    description: str = ""
    description_line: int = 1
    dependencies: list[ManifestItem] = field(default_factory=list)
    entry_points: list[ManifestItem] = field(default_factory=list)
    commands: list[ManifestItem] = field(default_factory=list)

    @property
    def directory(self) -> str:
        return posixpath.dirname(self.path)


def is_manifest(path: str) -> bool:
    """Whether a file is one that is understood."""
    return path.rsplit("/", 1)[-1] in ("pyproject.toml", "package.json", "Cargo.toml", "go.mod")


def parse_manifest(path: str, lines: Sequence[str]) -> Manifest | None:
    """What a manifest says; None when it is broken or of no known kind."""
    text = "\n".join(lines)
    try:
        match path.rsplit("/", 1)[-1]:
            case "pyproject.toml":
                return _python(path, lines, tomllib.loads(text))
            case "package.json":
                return _node(path, lines, orjson.loads(text))
            case "Cargo.toml":
                return _rust(path, lines, tomllib.loads(text))
            case "go.mod":
                return _go(path, lines)
    except (tomllib.TOMLDecodeError, orjson.JSONDecodeError, AttributeError, TypeError):
        return None
    return None


def _python(path: str, lines: Sequence[str], value: dict[str, Any]) -> Manifest:
    project = value.get("project") or value.get("tool", {}).get("poetry") or {}
    made = _begun(path, "Python", lines, project)
    wanted = project.get("dependencies") or []
    names = [found[0] for each in wanted if (found := _REQUIREMENT.match(each))] if isinstance(wanted, list) else wanted
    made.dependencies = _named((name for name in names if name != "python"), lines, "dependencies")
    scripts = {**(project.get("scripts") or {}), **(project.get("gui-scripts") or {})}
    made.entry_points = [
        ManifestItem(name, str(target), _line(lines, name, "scripts")) for name, target in scripts.items()
    ]
    return made


def _node(path: str, lines: Sequence[str], value: dict[str, Any]) -> Manifest:
    made = _begun(path, "Node", lines, value)
    made.dependencies = _named(value.get("dependencies") or {}, lines, "dependencies")
    binaries = value.get("bin") or {}
    binaries = {str(value.get("name", "")): binaries} if isinstance(binaries, str) else binaries
    made.entry_points = [
        ManifestItem(name, str(target), _line(lines, name, '"bin"')) for name, target in binaries.items()
    ]
    if isinstance(value.get("main"), str):
        made.entry_points.append(ManifestItem("main", value["main"], _line(lines, '"main"')))
    scripts = value.get("scripts") or {}
    made.commands = [
        ManifestItem(f"npm run {name}", str(run), _line(lines, f'"{name}"', "scripts")) for name, run in scripts.items()
    ]
    return made


def _rust(path: str, lines: Sequence[str], value: dict[str, Any]) -> Manifest:
    made = _begun(path, "Rust", lines, value.get("package") or {})
    made.dependencies = _named(value.get("dependencies") or {}, lines, "[dependencies")
    for binary in value.get("bin") or []:
        made.entry_points.append(
            ManifestItem(binary["name"], binary.get("path", ""), _line(lines, binary["name"], "[[bin]]"))
        )
    return made


def _go(path: str, lines: Sequence[str]) -> Manifest:
    made = Manifest(path, "Go")
    for number, line in enumerate(lines, 1):
        if line.startswith("module "):
            made.name = line.split()[1]
        elif required := _GO_REQUIRED.match(line):
            made.dependencies.append(ManifestItem(required[1], "", number))
    return made


def _begun(path: str, ecosystem: str, lines: Sequence[str], value: dict[str, Any]) -> Manifest:
    name, description = value.get("name"), value.get("description")
    made = Manifest(path, ecosystem)
    if isinstance(name, str):
        made.name = name
    if isinstance(description, str):
        made.description, made.description_line = " ".join(description.split()), _line(lines, "description")
    return made


def _named(names: Iterable[str], lines: Sequence[str], after: str) -> list[ManifestItem]:
    return [ManifestItem(str(name), "", _line(lines, str(name), after)) for name in names]


def _line(lines: Sequence[str], words: str, after: str = "") -> int:
    """The line that has these words, from where others are on."""
    start = next((number for number, line in enumerate(lines) if after in line), 0) if after else 0
    for number in [*range(start, len(lines)), *range(start)]:
        if words in lines[number]:
            return int(number) + 1
    return 1
