"""Owns the built-in agent's tools for files; the sandbox says which there are, so no path is refused here."""

import fnmatch
import os
import re
from collections.abc import Iterator

from holdfast.engines.runners.inside.failing import ToolFailed

_MOST_READ_BYTES = 8 << 20
_MOST_LINES = 2_000
_MOST_NAMES = 2_000
_MOST_HITS = 200
_MOST_HIT_CHARACTERS = 300
_UNSEEN = {".git", "node_modules", "__pycache__", ".venv"}


class AgentFiles:
    """The files below one directory, and whatever else the sandbox shows."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def read(self, path: str, first_line: int = 1, lines: int = _MOST_LINES) -> str:
        """Some lines of a file."""
        all_lines = self._text(path).splitlines(keepends=True)
        shown = all_lines[first_line - 1 : first_line - 1 + lines]
        if not shown and all_lines:
            raise ToolFailed(f"first_line: the file has {len(all_lines)} lines.")
        last = first_line - 1 + len(shown)
        rest = f"\n[lines {last + 1} to {len(all_lines)} follow]" if last < len(all_lines) else ""
        return "".join(shown) + rest

    def write(self, path: str, content: str) -> str:
        """A whole file."""
        place = self._place(path)
        os.makedirs(os.path.dirname(place) or "/", exist_ok=True)
        with open(place, "w", encoding="utf-8", newline="") as file:
            file.write(content)
        return f"Wrote {len(content.encode())} bytes to {path}."

    def edit(self, path: str, old_text: str, new_text: str, all: bool = False) -> str:
        """A text instead of another."""
        text = self._text(path)
        count = text.count(old_text) if old_text else 0
        if count == 0:
            raise ToolFailed(
                f"old_text: it does not stand in {path}. Read the file, and give it exactly as it is there."
            )
        if count > 1 and not all:
            raise ToolFailed(
                f"old_text: it stands {count} times in {path}. Give more of what is around it, or set all."
            )
        self.write(path, text.replace(old_text, new_text))
        return f"Replaced {count} in {path}."

    def names(self, path: str = ".") -> str:
        """Names below a folder."""
        place = self._place(path)
        if not os.path.isdir(place):
            raise ToolFailed(f"path: {path} is not a folder.")
        names: list[str] = []
        for name in self._below(place):
            if len(names) == _MOST_NAMES:
                names.append(f"[more than {_MOST_NAMES} files; list a folder further down]")
                break
            names.append(os.path.relpath(name, place))
        return "\n".join(names) or "(empty)"

    def search(self, pattern: str, path: str = ".", name: str = "*") -> str:
        """Lines that match."""
        try:
            wanted = re.compile(pattern)
        except re.error as problem:
            raise ToolFailed(f"pattern: {problem}.") from None
        place = self._place(path)
        hits: list[str] = []
        for found in [place] if os.path.isfile(place) else self._below(place):
            if fnmatch.fnmatch(os.path.basename(found), name) and not self._search(found, wanted, hits):
                hits.append(f"[more than {_MOST_HITS} lines; look for something rarer]")
                break
        return "\n".join(hits) or "(no line matches)"

    def _search(self, path: str, wanted: re.Pattern[str], hits: list[str]) -> bool:
        """Whether there is room for more."""
        try:
            text = self._text(path)
        except (OSError, ToolFailed):
            # Not text, too large, or gone meanwhile.
            return True
        shown = os.path.relpath(path, self._directory)
        for number, line in enumerate(text.splitlines(), 1):
            if wanted.search(line):
                hits.append(f"{shown}:{number}: {line.strip()[:_MOST_HIT_CHARACTERS]}")
                if len(hits) >= _MOST_HITS:
                    return False
        return True

    def _place(self, path: str) -> str:
        return os.path.join(self._directory, os.path.expanduser(path))

    def _text(self, path: str) -> str:
        place = self._place(path)
        if os.path.isdir(place):
            raise ToolFailed(f"path: {path} is a folder; list it instead.")
        # A pipe or a device would never end.
        if not os.path.isfile(place) and os.path.lexists(place):
            raise ToolFailed(f"path: {path} is not a plain file.")
        with open(place, "rb") as file:
            data = file.read(_MOST_READ_BYTES + 1)
        if len(data) > _MOST_READ_BYTES:
            raise ToolFailed(
                f"path: {path} is larger than {_MOST_READ_BYTES >> 20} MiB; use run_command with head or sed."
            )
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailed(f"path: {path} is not text in UTF-8.") from None

    def _below(self, place: str) -> Iterator[str]:
        for folder, folders, files in os.walk(place):
            folders[:] = sorted(name for name in folders if name not in _UNSEEN)
            for name in sorted(files):
                yield os.path.join(folder, name)
