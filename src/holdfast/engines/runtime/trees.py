"""Owns handing directories to programs, and removing what they left: however deep, whatever rights are on it."""

import os
import stat
from pathlib import Path
from uuid import uuid4

from holdfast.core.errors import Unavailable

MOST_DEPTH = 400


class TooDeep(Unavailable):
    """A directory that an earlier run filled cannot be looked through."""

    code = "too_deep"


def give_tree(path: Path, uid: int) -> None:
    """Make what a program may change its own; root reads it all the same. TooDeep for what is nested without end."""
    os.chown(path, uid, uid, follow_symlinks=False)
    if path.is_dir():
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _give_below(directory, uid, 1)
        finally:
            os.close(directory)


def _give_below(directory: int, uid: int, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise TooDeep(f"What an earlier run left is nested over {MOST_DEPTH} directories deep; remove it.")
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    # By descriptors: another program that holds the same directory could put a link in the way of a path.
    for name, is_directory in found:
        os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)
        if is_directory:
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            except NotADirectoryError:
                # Something else took its place.
                continue
            try:
                _give_below(below, uid, depth + 1)
            finally:
                os.close(below)


def remove_tree(root: Path) -> None:
    """Delete a directory with all that is in it; nothing happens without one. Whoever filled it no longer runs."""
    if root.is_symlink() or not root.is_dir():
        root.unlink(missing_ok=True)
        return
    # A directory within another is brought up below the root before its turn comes: no path grows too long for the
    # system, and nothing here calls itself.
    waiting = [root]
    while waiting:
        here = waiting.pop()
        here.chmod(stat.S_IRWXU)
        with os.scandir(here) as entries:
            found = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]
        for path, is_directory in found:
            if not is_directory:
                path.unlink()
            elif here == root:
                waiting.append(path)
            else:
                # A directory can be moved by who may write in it: its entry `..` changes.
                path.chmod(stat.S_IRWXU)
                waiting.append(path.rename(root / uuid4().hex))
        if here != root:
            here.rmdir()
    root.rmdir()
