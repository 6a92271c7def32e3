"""Owns what a process that reads what others made gives up first: network, memory, time, files, and outliving us."""

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass

from holdfast.engines.sandbox.landlock import restrict

_DEATH_SIGNAL = 1
_NOT_DUMPABLE = 4
_NO_NEW_PRIVILEGES = 38
_NEW_USER = 0x1000_0000
_NEW_NETWORK = 0x4000_0000
_SPARE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the process may use."""

    memory_bytes: int
    """Address space; what is mapped of packs counts, so it is more than what is really used."""
    cpu_seconds: int
    written_bytes: int = 0
    """The largest file it may write; a reader writes none."""
    open_files: int = 256
    writable: str = ""
    """The directory below which it may change anything; a reader changes nothing."""
    niceness: int = 5
    """How much it gives way to those that somebody waits for."""


def bind(bounds: Bounds) -> bool:
    """Give it up, for good; True when the process is now in a network of its own, where nothing answers."""
    alone: bool = False
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        alone = bool(libc.unshare(_NEW_USER | _NEW_NETWORK) == 0)
        # Only now: a change of user namespace forgets it.
        libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.prctl(_NOT_DUMPABLE, 0)
        # Where the kernel has it; the limits below hold everywhere.
        restrict(bounds.writable)
    for kind, most in (
        (resource.RLIMIT_AS, bounds.memory_bytes),
        (resource.RLIMIT_CPU, bounds.cpu_seconds),
        (resource.RLIMIT_FSIZE, bounds.written_bytes),
        (resource.RLIMIT_NOFILE, bounds.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        spare = _SPARE_SECONDS if kind == resource.RLIMIT_CPU else 0
        limited = hard != resource.RLIM_INFINITY
        value = min(most, hard) if limited else most
        resource.setrlimit(kind, (value, min(value + spare, hard) if limited else value + spare))
    os.nice(bounds.niceness)
    return alone
