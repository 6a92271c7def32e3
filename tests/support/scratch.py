"""Owns where tests put their files: in memory where there is enough of it, since tests wait for no disk there."""

import os
import shutil

_ENOUGH = 2 << 30


def scratch_directory() -> str | None:
    """A directory in memory, or nothing: then the usual place for temporary files."""
    try:
        return "/dev/shm" if shutil.disk_usage("/dev/shm").free >= _ENOUGH else None
    except OSError:
        return None


def use_for_tests() -> None:
    """Let pytest make its temporary directories there, unless somebody chose a place."""
    if place := scratch_directory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)
