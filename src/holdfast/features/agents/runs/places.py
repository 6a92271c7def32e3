"""Owns where a session lives on our disk; what its agent wrote there is read and written without following a link."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.engines.runtime.trees import remove_tree

ENDLESS = 1 << 62
_MOST_ENTRIES = 2_000_000
_SMALLEST_FILE = 1024


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The directories of one session."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def gate(self) -> Path:
        """Where its sockets are; of its own, for the length of a run."""
        return self.root / "gate"

    @property
    def out(self) -> Path:
        """Where a program that looks at the worktree puts what it found."""
        return self.root / "out"

    def begin(self) -> bool:
        """Make home and worktree; False where they are there from an earlier run."""
        self.root.mkdir(parents=True, mode=0o700, exist_ok=True)
        is_new = not self.home.exists()
        for each in (self.home, self.work):
            each.mkdir(mode=0o700, exist_ok=True)
        for each in (self.gate, self.out):
            fresh(each)
        return is_new

    def remove(self) -> None:
        """Take everything away."""
        remove_tree(self.root)


def fresh(directory: Path) -> None:
    """An empty directory, whatever was there."""
    remove_tree(directory)
    directory.mkdir(parents=True, mode=0o700)


def write_below(root: Path, path: str, content: bytes) -> None:
    """Write a file below a directory that somebody else writes to: no link leads us out of it."""
    *directories, name = Path(path).parts
    if not name or any(each in ("..", "/") for each in (*directories, name)):
        raise ValueError(f"{path!r} is no path below a directory")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for each in directories:
            with suppress(FileExistsError):
                os.mkdir(each, 0o700, dir_fd=at)
            below = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=at)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
    finally:
        os.close(at)


def read_below(root: Path, name: str, most: int) -> bytes | None:
    """A plain file directly below a directory, up to so many bytes; None where there is none."""
    try:
        # O_NONBLOCK: a pipe in its place must not make us wait.
        file = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read(most) if stat.S_ISREG(os.fstat(opened.fileno()).st_mode) else None


def used_bytes(*roots: Path) -> int:
    """What trees take on the disk, empty files a little, too.

    A tree counts as endless which has absurdly many entries, or hides what it has: by its rights, or in paths too long.
    """
    total = entries = 0
    waiting = [str(root) for root in roots]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for each in found:
                    entries += 1
                    if entries > _MOST_ENTRIES:
                        return ENDLESS
                    try:
                        total += max(_SMALLEST_FILE, each.stat(follow_symlinks=False).st_blocks * 512)
                    except FileNotFoundError:
                        continue
                    if each.is_dir(follow_symlinks=False):
                        waiting.append(each.path)
        except (FileNotFoundError, NotADirectoryError):
            # It went meanwhile.
            continue
        except OSError:
            return ENDLESS
    return total
