"""Owns removing directories that a program filled: however deep, and whatever rights it left on them."""

import os
import stat
from pathlib import Path
from uuid import uuid4


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
            found = list(entries)
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
            elif here == root:
                waiting.append(Path(entry.path))
            else:
                # What it holds is told from it by its own entry `..`, which only who may write in it changes.
                os.chmod(entry.path, stat.S_IRWXU)
                higher = root / uuid4().hex
                os.rename(entry.path, higher)
                waiting.append(higher)
        if here != root:
            here.rmdir()
    root.rmdir()
