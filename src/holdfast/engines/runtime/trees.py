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
