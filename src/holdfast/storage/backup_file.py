"""Owns what a backup is: one complete file that says which store and which schema it came from."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


def refuse_newer(file: Path, version: int) -> None:
    """A copy of a schema that this version does not know cannot be used by it."""
    newest = max((migration.version for migration in migrations()), default=0)
    if version > newest:
        raise BackupFailed(
            f"{file} has schema version {version}, newer than this Holdfast knows ({newest}); "
            "restore it with the version that made it."
        )


def complete(file: Path, write: Callable[[Path], int]) -> int:
    """Write beside the file, make it durable, then give it its name: half a backup never looks like one."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        unfinished.touch(mode=0o600)
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
