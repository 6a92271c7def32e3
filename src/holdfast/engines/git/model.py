"""Owns what reading a repository gives: commits, files in passages with their symbols, and how it fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.credential import Credential
from holdfast.core.errors import HoldfastError

FileKind = Literal["code", "text", "binary", "large", "lfs", "submodule", "symlink"]
ChangeStatus = Literal["A", "M", "D", "R"]


@dataclass(frozen=True, slots=True)
class BranchHead:
    """Where a repository stands: the branch that is followed and its newest commit, both empty without any commit."""

    branch: str
    commit: str
    shallow: bool = False
    origin: str = ""
    """The URL of the remote `origin` that a local repository was cloned from, without credentials."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a commit did to one file."""

    status: ChangeStatus
    path: str
    old_path: str = ""
    """The name before a rename."""
    insertions: int = 0
    deletions: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. Moments are milliseconds. A merge carries no changes: those are its parents'."""

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    authored_at: int
    committed_at: int
    subject: str
    body: str
    changes: tuple[FileChange, ...]
    more_changes: int = 0
    """Changes beyond those listed."""

    @property
    def message(self) -> str:
        return f"{self.subject}\n\n{self.body}" if self.body else self.subject


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag and the commit it names."""

    name: str
    sha: str
    tagged_at: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something that source code defines. `container` is the class or module around it, dotted."""

    name: str
    kind: str
    """class, function, method, type, …"""
    start_line: int
    end_line: int
    container: str = ""


@dataclass(frozen=True, slots=True)
class FilePassage:
    """A part of a file, with the lines it covers (from 1, both included)."""

    text: str
    heading: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class File:
    """A file at the head. Only code and text have passages."""

    path: str
    blob: str
    kind: FileKind
    size: int
    language: str = ""
    lines: int = 0
    passages: tuple[FilePassage, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    truncated: bool = False
    """Whether only its beginning was read."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A name in a directory."""

    path: str
    kind: Literal["file", "directory", "submodule", "symlink"]
    size: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file as it is at a commit."""

    path: str
    commit: str
    text: str
    start_line: int
    end_line: int
    total_lines: int


@dataclass(frozen=True, slots=True)
class BlameLine:
    """Who last changed a run of lines, and in which commit."""

    start_line: int
    end_line: int
    sha: str
    author: str
    committed_at: int
    subject: str
    authored_at: int


@dataclass(frozen=True, slots=True)
class ShownCommit:
    """A commit with its patch, cut where it is too long."""

    commit: Commit
    patch: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a clone or a walk is."""

    done: int
    total: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to prove ourselves to a git server; never part of a message, a log or a repr."""

    username: str
    token: Credential

    def __repr__(self) -> str:
        return "Credentials(…)"


@dataclass(frozen=True, slots=True)
class GitLimits:
    """What reading one repository may use before it is ended."""

    clone_bytes: int = 4 * 1024**3
    clone_seconds: float = 3600.0
    unpack_seconds: float = 60.0
    """Of processor time for taking in a pack of any size, besides a second for each `unpack_bytes` of it.

    Deltas can turn a few hundred bytes into terabytes; a real repository, however dense, stays far below."""
    unpack_bytes: int = 256 * 1024
    memory_bytes: int = 2 * 1024**3
    """Of the child process; address space, in which packs are mapped."""
    file_bytes: int = 2_000_000
    """A larger file is known by its name only."""
    changes_per_commit: int = 200
    message_characters: int = 20_000


class GitFailed(HoldfastError):
    """The repository cannot be cloned or read; the message says why and what to do."""

    code = "git_failed"
    status = 422


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """Commits that came and commits that went since what was known; batches, oldest first."""

    added: Sequence[Commit] = ()
    removed: Sequence[str] = ()
    total: int | None = None
    """Commits to come in all, once known."""


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """Files that came or changed and paths that went since what was known, in batches."""

    files: Sequence[File] = ()
    removed: Sequence[str] = ()
    total: int | None = None
