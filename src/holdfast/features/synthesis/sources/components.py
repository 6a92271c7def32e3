"""Owns the components of a repository: which directories they are, which file belongs where."""

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.features.repositories.model import KnownFile

MOST = 24
ROOT = "."
_LARGE = 0.3
"""A directory with more of the code than this is opened, where it has parts."""
_VENDORED = re.compile(
    r"(?:^|/)(?:node_modules|vendor|vendored|third_party|third-party|dist|build|\.venv|venv|site-packages|__pycache__|"
    r"target|generated|\.git)/|\.min\.(?:js|css)$|(?:^|/)(?:package-lock\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|"
    r"poetry\.lock|Cargo\.lock|go\.sum|composer\.lock|Gemfile\.lock)$"
)
_DATA = frozenset({"json", "yaml", "toml", "xml", "ini", "markdown", "html", "text", ""})


@dataclass(frozen=True, slots=True)
class Component:
    """A directory and what lies below it, without what lies below a component deeper down."""

    path: str
    files: int
    lines: int
    languages: tuple[str, ...]


def own(files: Iterable[KnownFile]) -> list[KnownFile]:
    """The files that the project wrote itself: no vendored code, no lock files, nothing binary."""
    return [file for file in files if file.kind in ("code", "text") and not _VENDORED.search(file.path)]


def is_code(file: KnownFile) -> bool:
    """Whether a file is source code rather than data or prose."""
    return file.kind == "code" and file.language not in _DATA


class Components:
    """The directories that a repository's code is made of."""

    def __init__(self, files: Sequence[KnownFile]) -> None:
        counted = [file for file in files if is_code(file)] or list(files)
        self._roots = _divided(counted)
        self.of_path: dict[str, str] = {}
        groups: dict[str, list[KnownFile]] = defaultdict(list)
        for file in files:
            home = self.home(file.path)
            if home is not None:
                self.of_path[file.path] = home
                groups[home].append(file)
        self.all = [
            _component(path, groups[path]) for path in sorted(groups, key=lambda path: (-_size(groups[path]), path))
        ]

    def of(self, path: str) -> str | None:
        """The component that a file at the head belongs to."""
        return self.of_path.get(path)

    def home(self, path: str) -> str | None:
        """The component that a path would belong to."""
        directory = posixpath.dirname(path)
        while True:
            if (directory or ROOT) in self._roots:
                return directory or ROOT
            if not directory:
                return None
            directory = posixpath.dirname(directory)


def _divided(files: Sequence[KnownFile]) -> set[str]:
    """Top directories, the large ones opened as long as that tells parts apart."""
    sizes: Counter[str] = Counter()
    children: dict[str, set[str]] = defaultdict(set)
    for file in files:
        directory = posixpath.dirname(file.path)
        sizes[directory] += max(file.lines, 1)
        while directory:
            above = posixpath.dirname(directory)
            children[above].add(directory)
            directory = above
            sizes[directory] += max(file.lines, 1)
    total = max(sizes[""], 1)
    roots = {""} | children[""]
    opened = {""}
    while len(roots) < MOST:
        large = [path for path in roots - opened if sizes[path] > _LARGE * total and len(children[path]) >= 1]
        if not large:
            break
        largest = max(large, key=lambda path: (sizes[path], path))
        opened.add(largest)
        biggest = sorted(children[largest], key=lambda path: (-sizes[path], path))
        roots |= set(biggest[: MOST - len(roots)])
    return {root or ROOT for root in roots}


def _component(path: str, files: Sequence[KnownFile]) -> Component:
    languages: Counter[str] = Counter()
    for file in files:
        if is_code(file):
            languages[file.language] += file.lines
    return Component(path, len(files), _size(files), tuple(name for name, _ in languages.most_common(3)))


def _size(files: Sequence[KnownFile]) -> int:
    return sum(file.lines for file in files)
