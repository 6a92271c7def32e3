"""Owns writing a commit's files into an empty directory: nothing else of the repository, and nothing outside of it."""

import os
from typing import Any

import pygit2
from pygit2.enums import FileMode

from holdfast.engines.git.reading.repository import ReadingProblem, find_commit, spell

MOST_FILES = 200_000
MOST_BYTES = 2 * 1024**3
_MOST_DEPTH = 200


def checkout(repo: pygit2.Repository, limits: dict[str, Any], commit: str, directory: str) -> list[int]:
    """Write them; how many files and bytes there are."""
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        writer = _Writer(repo)
        writer.write(find_commit(repo, commit).tree, root, b"", 0)
        return [writer.files, writer.bytes]
    finally:
        os.close(root)


class _Writer:
    """Writes trees below open directories: no name in a tree can lead it elsewhere."""

    def __init__(self, repo: pygit2.Repository) -> None:
        self._repo = repo
        self.files = 0
        self.bytes = 0

    def write(self, tree: pygit2.Tree, into: int, prefix: bytes, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise ReadingProblem("too_large", f"Directories are nested over {_MOST_DEPTH} deep.")
        for entry in tree:
            name = entry.raw_name or b""
            path = prefix + name
            if name in (b"", b".", b"..") or b"/" in name or name.lower() == b".git":
                raise ReadingProblem("hostile", f"The commit has a file name that no checkout can have: {spell(path)}.")
            match FileMode(entry.filemode or 0):
                case FileMode.COMMIT:
                    raise ReadingProblem(
                        "submodule",
                        f"The commit has a submodule at {spell(path)}, whose content is not part of the repository; "
                        "put what the proof needs into the prepared environment, or into the repository.",
                    )
                case FileMode.TREE:
                    self._directory(entry, name, into, path, depth)
                case FileMode.LINK:
                    os.symlink(self._content(entry, path), name, dir_fd=into)
                case mode:
                    self._file(entry, name, into, path, 0o755 if mode == FileMode.BLOB_EXECUTABLE else 0o644)

    def _directory(self, entry: Any, name: bytes, into: int, path: bytes, depth: int) -> None:
        os.mkdir(name, 0o755, dir_fd=into)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=into)
        try:
            self.write(entry, below, path + b"/", depth + 1)
        finally:
            os.close(below)

    def _file(self, entry: Any, name: bytes, into: int, path: bytes, mode: int) -> None:
        content = self._content(entry, path)
        # O_EXCL: a hostile tree can name a file twice.
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=into)
        with os.fdopen(file, "wb") as out:
            out.write(content)
            os.fchmod(file, mode)

    def _content(self, entry: Any, path: bytes) -> bytes:
        self.files += 1
        self.bytes += self._repo.odb.read_header(entry.id)[1]
        if self.files > MOST_FILES or self.bytes > MOST_BYTES:
            raise ReadingProblem(
                "too_large", f"The checkout is over {MOST_FILES} files or {MOST_BYTES >> 20} MiB, at {spell(path)}."
            )
        return bytes(self._repo.odb.read(entry.id)[1])
