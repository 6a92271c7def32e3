"""Owns the lock that keeps a data directory to one server."""

import fcntl
import os
from pathlib import Path

from holdfast.storage.database import StartFailed


class DataDirectoryLock:
    """An exclusive lock on the directory, held until `release` or the end of the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "server.lock"
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StartFailed(
                f"The data directory {directory} cannot be used ({problem.strerror}); "
                "make it writable, or choose another with --data-dir."
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StartFailed(
                f"Another Holdfast server (process {holder}) uses the data directory {directory}; "
                "stop it, or choose another with --data-dir."
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another server have the directory."""
        os.close(self._file)
