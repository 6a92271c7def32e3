"""Owns what a backup is: one complete file that says which store and which schema it came from."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from holdfast.core.errors import HoldfastError
from holdfast.storage.schema import migrations


class BackupFailed(HoldfastError):
    """No copy was made or put back; the message is one line with the remedy."""

    code = "backup_failed"
    status = 422


@dataclass(frozen=True, slots=True)
class Backup:
    """What a copy holds."""

    file: Path
    dialect: str
    schema_version: int
    bytes: int
    heads: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """How far each organization's audit chain goes in it: the last event's place and seal."""


def opened_regular(file: Path) -> IO[bytes]:
    """The file, opened for reading; anything but a plain file (a pipe, a device, a directory) is refused."""
    try:
        # A pipe without a writer must not keep us waiting.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise BackupFailed(f"{file} cannot be read ({problem.strerror}).") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BackupFailed(f"{file} is not a plain file; name the file that `holdfast backup` wrote.")
    return os.fdopen(descriptor, "rb")


def refuse_newer(file: Path, version: int) -> None:
    """A copy of a schema that this version does not know cannot be used by it."""
    newest = max((migration.version for migration in migrations()), default=0)
    if version > newest:
        raise BackupFailed(
            f"{file} has schema version {version}, newer than this Holdfast knows ({newest}); "
            "restore it with the version that made it."
        )


def refuse_altered(file: Path, applied: Iterable[tuple[int, str, str]]) -> int:
    """The copy's schema version, when its migrations (version, name, checksum) are ours, without a gap."""
    found = sorted(applied)
    if not found:
        raise BackupFailed(f"{file} is not a Holdfast backup: it says nothing of its schema.")
    refuse_newer(file, found[-1][0])
    ours = [(each.version, each.name, each.checksum) for each in migrations() if each.version <= found[-1][0]]
    if found != ours:
        different = next((each for each in [*found, *ours] if each not in found or each not in ours), found[-1])
        raise BackupFailed(
            f"{file} was made with another migration {different[0]:04d} than this Holdfast's; "
            "restore it with the version that made it, or use another backup."
        )
    return found[-1][0]


def complete(file: Path, write: Callable[[Path], int]) -> int:
    """Write beside the file, make it durable, then give it its name: half a backup never looks like one."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        result = write(unfinished)
        _sync(unfinished)
        unfinished.replace(file)
        _sync(file.parent)
        return result
    except OSError as problem:
        raise BackupFailed(
            f"{file} could not be written ({problem.strerror}); free some space or choose another place."
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
