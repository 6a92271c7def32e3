"""Owns returning to the system what a big piece of work took and freed: glibc would keep it for later."""

import contextlib
import ctypes


def give_back() -> None:
    """Return freed memory now; where there is no glibc nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
