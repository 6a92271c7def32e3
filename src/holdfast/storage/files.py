"""Owns who may read what Holdfast keeps on this machine: the user it runs as, and nobody else."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

# What is ours in a data directory: somebody may have chosen one that holds other things too.
_FILES = ("holdfast.db*", "server.lock", "master.key*", "audit.heads*", ".holdfast.db.*")
STORE = "holdfast.db"
"""The embedded store's file in a data directory."""
_TREES = ("repositories",)
_OTHERS = 0o077
# One line for each of a thousand files helps nobody.
_SHOWN = 5


def make_directory(directory: Path) -> None:
    """Make a directory that only its owner enters. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def tighten(directory: Path, *, deep: bool = True) -> list[str]:
    """Take others' rights from the data directory and our files in it; what could not be, in words with the remedy.

    Not `deep`, it leaves repositories alone, which nobody reaches through a directory that is closed.
    """
    found = [directory, *(path for pattern in _FILES for path in directory.glob(pattern))]
    for name in _TREES if deep else ():
        found += _below(directory / name)
    complaints = [complaint for path in found if (complaint := _tighten(path)) is not None]
    more = len(complaints) - _SHOWN
    return complaints if more <= 0 else [*complaints[:_SHOWN], f"{more} more under {directory} are open to others too."]


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Make every file of this process its user's own meanwhile, whatever the shell's umask is."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def _tighten(path: Path) -> str | None:
    mode = 0
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) or not mode & _OTHERS:
            return None
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        # SQLite removes its log when the last process lets go of it.
        return None
    except OSError as problem:
        wanted = "700" if path.is_dir() else "600"
        return (
            f"Other users of this machine can get at {path} (mode {stat.S_IMODE(mode):o}), and it cannot be changed "
            f"({problem.strerror}); run `chmod {wanted} {path}` as its owner, or choose another with --data-dir."
        )
    return None


def _below(root: Path) -> list[Path]:
    if root.is_symlink() or not root.is_dir():
        return []
    found = [root]
    for folder, folders, files in os.walk(root, followlinks=False):
        found += [Path(folder, name) for name in (*folders, *files)]
    return found
