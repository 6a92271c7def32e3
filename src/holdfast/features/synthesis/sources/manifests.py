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
_LISTS = ("requirements.txt", "Gemfile")
_NAMES = frozenset(
    (
        *("pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "composer.json", "pom.xml"),
        *("build.gradle", "build.gradle.kts", *_LISTS),
    )
)
_GEM = re.compile(r"""^\s*gem\s+['"]([\w.-]+)['"]""")
_GEM_NEEDED = re.compile(r"""^\s*\w+\.add_(?:runtime_)?dependency\s*\(?\s*['"]([\w.-]+)['"]""")
_GEM_SAID = re.compile(r"""^\s*\w+\.(name|summary|description|executables)\s*=\s*(?:%w\W)?\[?['"]?([^'"\])]+)""")
_GRADLE = re.compile(r"""^\s*(?:implementation|api|compileOnly|runtimeOnly)\s*\(?\s*['"]([\w.-]+:[\w.-]+)""")
_TAG = re.compile(r"<(/?)([\w.-]+)[^>]*?(/?)>(?:([^<]*)</\2>)?")
_ENTRY = re.compile(r"^\s+([\w.-]+)\s*=\s*([\w.]+:[\w.]+)")


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

    @property
    def is_list(self) -> bool:
        """Whether it lists what is installed rather than what a package needs."""
        return self.path.rsplit("/", 1)[-1] in _LISTS


def is_manifest(path: str) -> bool:
    """Whether a file is one that is understood."""
    name = path.rsplit("/", 1)[-1]
    return name in _NAMES or name.endswith(".gemspec")


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
            case "setup.cfg":
                return _setup(path, lines)
            case "requirements.txt":
                return _requirements(path, lines)
            case "composer.json":
                return _php(path, lines, orjson.loads(text))
            case "pom.xml":
                return _maven(path, lines)
            case "build.gradle" | "build.gradle.kts":
                return _listed(path, "Gradle", lines, _GRADLE)
            case "Gemfile":
                return _listed(path, "Ruby", lines, _GEM)
            case name if name.endswith(".gemspec"):
                return _gemspec(path, lines)
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


def _setup(path: str, lines: Sequence[str]) -> Manifest:
    """The older manifest of Python: what it says under `install_requires` and `console_scripts`."""
    made = Manifest(path, "Python")
    under = ""
    for number, line in enumerate(lines, 1):
        if line[:1] not in (" ", "\t", "#", ""):
            under, _, value = (part.strip() for part in line.partition("="))
            if under == "name":
                made.name = value
            elif under == "description":
                made.description, made.description_line = value, number
        elif under == "install_requires" and (found := _REQUIREMENT.match(line.strip())):
            made.dependencies.append(ManifestItem(found[0], "", number))
        elif entry := _ENTRY.match(line):
            made.entry_points.append(ManifestItem(entry[1], entry[2], number))
    return made


def _requirements(path: str, lines: Sequence[str]) -> Manifest:
    made = Manifest(path, "Python")
    for number, line in enumerate(lines, 1):
        if found := _REQUIREMENT.match(line.strip()):
            made.dependencies.append(ManifestItem(found[0], "", number))
    return made


def _php(path: str, lines: Sequence[str], value: dict[str, Any]) -> Manifest:
    made = _begun(path, "PHP", lines, value)
    # `php` and `ext-json` are the platform, not packages.
    made.dependencies = _named((name for name in value.get("require") or {} if "/" in name), lines, '"require"')
    made.entry_points = [ManifestItem(str(each), str(each), _line(lines, str(each))) for each in value.get("bin") or []]
    return made


def _listed(path: str, ecosystem: str, lines: Sequence[str], pattern: re.Pattern[str]) -> Manifest:
    """A manifest that names one dependency on a line."""
    made = Manifest(path, ecosystem)
    for number, line in enumerate(lines, 1):
        if found := pattern.match(line):
            made.dependencies.append(ManifestItem(found[1], "", number))
    return made


def _gemspec(path: str, lines: Sequence[str]) -> Manifest:
    made = _listed(path, "Ruby", lines, _GEM_NEEDED)
    for number, line in enumerate(lines, 1):
        said = _GEM_SAID.match(line)
        if said is None:
            continue
        if said[1] == "name":
            made.name = said[2]
        elif said[1] == "executables":
            made.entry_points += [ManifestItem(name, name, number) for name in said[2].split()]
        elif not made.description:
            made.description, made.description_line = said[2].strip(), number
    return made


def _maven(path: str, lines: Sequence[str]) -> Manifest:
    """The project's own name and what it needs to run; read by its tags, since XML of others may blow up a parser."""
    made = Manifest(path, "Maven")
    around: list[str] = []
    needed: dict[str, ManifestItem] = {}
    for number, line in enumerate(lines, 1):
        for close, tag, empty, value in _TAG.findall(line):
            if value.strip():
                if around[-2:] == ["dependencies", "dependency"] and "dependencyManagement" not in around:
                    needed[tag] = ManifestItem(value.strip(), "", number)
                elif around == ["project"] and tag == "artifactId":
                    made.name = value.strip()
                elif around == ["project"] and tag == "description":
                    made.description, made.description_line = value.strip(), number
            elif close:
                if tag == "dependency" and "artifactId" in needed:
                    is_of_tests = "scope" in needed and needed["scope"].name == "test"
                    made.dependencies += [] if is_of_tests or "plugin" in around else [needed["artifactId"]]
                    needed = {}
                if around and around[-1] == tag:
                    around.pop()
            elif not empty:
                around.append(tag)
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
