"""Owns the lock that keeps a data directory to one server."""

import contextlib
import fcntl
import os
from pathlib import Path

from holdfast.storage.database import StartFailed

_NAME = "server.lock"


class DataDirectoryLock:
    """An exclusive lock on the directory, held until `release` or the end of the process, however it ends.

    The file says who holds it: the process on its first line, where it serves on its second, and whose home it has.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
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
            holder = next(iter(_lines(directory)), "unknown")
            os.close(self._file)
            raise StartFailed(
                f"Another Holdfast server (process {holder}) uses the data directory {directory}; "
                "stop it, or choose another with --data-dir."
            ) from None
        self._write("")

    def tell(self, url: str) -> None:
        """Let commands know where the server answers."""
        self._write(f"{url}\n{_home()}\n")

    def release(self) -> None:
        """Let another server have the directory."""
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def _write(self, more: str) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n{more}".encode(), 0)


def server_url(directory: Path) -> str | None:
    """Where the server of this directory said it answers; a killed server leaves its word behind."""
    return next(iter(_lines(directory)[1:2]), None)


def served_directories() -> list[Path]:
    """Data directories whose servers run now, started by this user with this home.

    Processes hold their lock open: what the system says of them is never stale, as a list in a file would be.
    """
    found = {directory for process in _own_processes() for directory in _locked_by(process)}
    return sorted(directory for directory in found if _lines(directory)[2:3] == [_home()])


def _home() -> str:
    return os.environ.get("HOME", "-")


def _own_processes() -> list[Path]:
    mine = os.getuid()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            if process.stat().st_uid == mine:
                found.append(process)
    return found


def _locked_by(process: Path) -> list[Path]:
    found = []
    with contextlib.suppress(OSError):
        for handle in os.scandir(process / "fd"):
            with contextlib.suppress(OSError):
                target = Path(handle.path).readlink()
                if target.name == _NAME and _lines(target.parent)[:1] == [process.name]:
                    found.append(target.parent)
    return found


def _lines(directory: Path) -> list[str]:
    try:
        return (directory / _NAME).read_text(errors="replace").splitlines()
    except OSError:
        return []
