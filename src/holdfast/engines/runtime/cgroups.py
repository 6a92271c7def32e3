"""Owns control groups: a hard cap on each program's memory and processes, on machines that let us make them."""

import fcntl
import logging
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.engines.runtime.base import RunLimits

_PREFIX = "holdfast-"
_CONTROLLERS = ("memory", "pids")
_OF_SANDBOX = 8
"""Processes that the sandbox itself needs."""
_SHARED_MEMORY = 64 << 20
_SLACK = 32 << 20
_PATIENCE_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One program's own group: one directory for both controllers, or one for each."""

    directories: tuple[Path, ...]
    left: list[Path]
    """Those that could not be removed yet: the kernel takes a moment to forget who ran there."""

    def order(self) -> dict[str, Any]:
        """What the launcher needs: where to enter, and where it is told that the cap was met."""
        events = self.directories[0] / "memory.events"
        return {
            "join": [str(directory / "cgroup.procs") for directory in self.directories],
            "met": str(events if events.exists() else self.directories[0] / "memory.oom_control"),
        }

    def remove(self) -> None:
        """Nothing runs in it any more."""
        for directory in self.directories:
            if not _remove(directory):
                self.left.append(directory)


class ControlGroups:
    """Makes a group for each program below one of our own, which is locked while we live.

    What a killed Holdfast left is not locked any more: the next one that starts removes it.
    """

    def __init__(self, bases: Mapping[str, Path]) -> None:
        """`bases` is where groups of each controller are made."""
        self._bases = tuple(dict.fromkeys(bases[each] for each in _CONTROLLERS))
        self._locks: list[int] = []
        self._parents: list[Path] = []
        self._left: list[Path] = []
        self._made = 0

    def open(self) -> bool:
        """Sweep, and make ours; False where this machine does not let us, which leaves the other limits."""
        try:
            for base in self._bases:
                sweep(base)
                self._parents.append(self._claimed(base))
            probe = self.make(RunLimits())
        except OSError as problem:
            _log.info("Programs get no control groups here (%s); their memory is watched all the same.", problem)
            self.close()
            return False
        probe.remove()
        return True

    def make(self, limits: RunLimits) -> ControlGroup:
        """A group with these limits."""
        self._left[:] = [each for each in self._left if not _remove(each)]
        self._made += 1
        group = ControlGroup(tuple(parent / str(self._made) for parent in self._parents), self._left)
        try:
            for directory in group.directories:
                directory.mkdir()
            _cap(group, limits)
        except OSError:
            group.remove()
            raise
        return group

    def close(self) -> None:
        """Leave nothing behind."""
        for parent in self._parents:
            _remove_patiently(parent)
        for lock in self._locks:
            os.close(lock)
        self._parents, self._locks = [], []

    def _claimed(self, base: Path) -> Path:
        """A group of ours, locked. One that is not locked yet may be taken for a dead one's, and is made again."""
        while True:
            made = base / f"{_PREFIX}{secrets.token_hex(6)}"
            made.mkdir()
            lock = _locked(made)
            if lock is not None and made.exists():
                self._locks.append(lock)
                _hand_down(made)
                return made
            if lock is not None:
                os.close(lock)


def found(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> ControlGroups | None:
    """Where this process could make groups with both controllers; None where there is no such place."""
    own = _own_groups((proc / "cgroup").read_text())
    bases: dict[str, Path] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, options = after.split()[0], after.split()[-1].split(",")
        fields = before.split()
        inside, mounted = fields[3], root / fields[4].lstrip("/")
        if kind == "cgroup":
            for controller in set(_CONTROLLERS).intersection(options):
                bases[controller] = _below(mounted, inside, own.get(controller, "/"))
        elif kind == "cgroup2" and "" in own:
            base = _delegated(_below(mounted, inside, own[""]), mounted)
            if base is not None:
                return ControlGroups(dict.fromkeys(_CONTROLLERS, base))
    if set(bases) != set(_CONTROLLERS) or not all(base.is_dir() for base in bases.values()):
        return None
    # Without it, what is below a group would not count against the group's own limit.
    counts_below = _read(bases["memory"] / "memory.use_hierarchy") in ("", "1")
    return ControlGroups(bases) if counts_below else None


def sweep(base: Path) -> None:
    """Remove the groups of those who died. Their programs end with them, which may take a moment."""
    for left in base.glob(f"{_PREFIX}*"):
        lock = _locked(left)
        if lock is None:
            continue
        try:
            _remove_patiently(left)
        finally:
            os.close(lock)


def _cap(group: ControlGroup, limits: RunLimits) -> None:
    """Over what the watch stops it at by what its private directories may hold, which are memory too."""
    memory = group.directories[0]
    most = limits.memory_bytes + limits.memory_bytes * 3 // 4 + _SHARED_MEMORY + _SLACK
    if (memory / "memory.limit_in_bytes").exists():
        (memory / "memory.limit_in_bytes").write_text(str(most))
        optional = {"memory.memsw.limit_in_bytes": str(most)}
    else:
        (memory / "memory.max").write_text(str(most))
        optional = {"memory.swap.max": "0", "memory.oom.group": "1"}
    for name, value in optional.items():
        if (memory / name).exists():
            with suppress(OSError):
                (memory / name).write_text(value)
    (group.directories[-1] / "pids.max").write_text(str(limits.processes + _OF_SANDBOX))


def _own_groups(text: str) -> dict[str, str]:
    """The path of our own group by controller; the one of the newer kind by an empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        found |= dict.fromkeys(names.split(","), path)
    return found


def _below(mounted: Path, inside: str, own: str) -> Path:
    """A group's directory; a container sees its own group as the root of what is mounted."""
    if inside != "/" and own.startswith(inside):
        own = own[len(inside) :]
    return mounted / own.lstrip("/")


def _delegated(own: Path, mounted: Path) -> Path | None:
    """Of our own group and the one above, the first that hands both controllers down to groups below it."""
    for base in (own, own.parent):
        if not base.is_relative_to(mounted):
            break
        if set(_CONTROLLERS) <= set(_read(base / "cgroup.controllers").split()):
            # A group with processes of its own refuses; then it is the group above that may do it already.
            if not _hands_down(base):
                _hand_down(base)
            if _hands_down(base):
                return base
    return None


def _hands_down(group: Path) -> bool:
    return set(_CONTROLLERS) <= set(_read(group / "cgroup.subtree_control").split())


def _hand_down(group: Path) -> None:
    if (group / "cgroup.subtree_control").exists():
        with suppress(OSError):
            (group / "cgroup.subtree_control").write_text("+memory +pids")


def _locked(group: Path) -> int | None:
    """The lock on a group, which ends with its process; None where somebody has it, or the group is gone."""
    try:
        lock = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove_patiently(group: Path) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not _remove(group) and time.monotonic() < until:
        time.sleep(0.02)


def _remove(group: Path) -> bool:
    """Remove a group and those below; False where something still runs in there."""
    try:
        for below in group.iterdir():
            if below.is_dir():
                below.rmdir()
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
