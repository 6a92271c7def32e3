"""Owns reading a file that an agent names in its worktree: nothing that it wrote leads anywhere else."""

import os
import stat
from pathlib import Path, PurePosixPath

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import WORKTREE

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in place of a file must not make us wait for whoever writes it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_text(worktree: Path, path: str, most_bytes: int) -> str:
    """The text of a file below the worktree, by a path as the agent sees it; Invalid where that is none.

    Each part of the path is opened below the one before, and none may be a link: a link that is put in the way while
    we look changes nothing.
    """
    parts = _parts(path)
    directory = os.open(worktree, _DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = _opened(part, _DIRECTORY, directory)
            os.close(directory)
            directory = inner
        descriptor = _opened(parts[-1], _FILE, directory)
    finally:
        os.close(directory)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise _wrong("this is no file")
        if facts.st_size > most_bytes:
            raise _wrong(f"it has {facts.st_size:,} bytes; at most {most_bytes:,} can be shared")
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise _wrong(f"it has more than {most_bytes:,} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise _wrong("only text in UTF-8 can be shared; describe or convert it") from None
    if "\0" in text:
        raise _wrong("only text can be shared; this has NUL characters")
    return text


def _parts(path: str) -> tuple[str, ...]:
    if not path.strip() or "\0" in path:
        raise _wrong("name a file of the worktree, such as report.md")
    named = PurePosixPath(path)
    if named.is_absolute():
        if not named.is_relative_to(WORKTREE):
            raise _wrong(f"only files below {WORKTREE} can be shared")
        named = named.relative_to(WORKTREE)
    parts = tuple(part for part in named.parts if part != ".")
    if not parts or ".." in parts:
        raise _wrong("name a file below the worktree, without '..'")
    if parts[0] == ".git":
        raise _wrong("git's own files are not shared")
    return parts


def _opened(part: str, flags: int, directory: int) -> int:
    try:
        return os.open(part, flags, dir_fd=directory)
    except FileNotFoundError:
        raise _wrong("there is no such file in the worktree") from None
    except OSError:
        # A link, a file in place of a directory, a socket: which of them is the agent's own business.
        raise _wrong("it is no plain file in plain directories; links are not followed") from None


def _wrong(problem: str) -> Invalid:
    return Invalid(f"The file cannot be shared: {problem}.", fields=[FieldError("path", problem)])
