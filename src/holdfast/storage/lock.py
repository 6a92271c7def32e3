"""Owns the locks of a data directory: one server, one owner of its background work, one writer at a time."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.storage.database import StartFailed

_NAME = "server.lock"
_WRITER = "writer.lock"
_OWNER = "background.lock"
_LOOK_SECONDS = 0.2
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0002, 0.002


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


class Ownership:
    """The right to do the background work of a data directory: of several workers one has it, until it ends."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._withdrawn = asyncio.Event()
        self.held = False
        """Whether this process has it."""

    async def won(self) -> bool:
        """Wait for it; False where this process gave it up meanwhile."""
        while not self.held and not self._withdrawn.is_set():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.held = True
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._withdrawn.wait(), _LOOK_SECONDS)
        return self.held and not self._withdrawn.is_set()

    def withdraw(self) -> None:
        """Begin nothing more; what runs goes on until it is stopped."""
        self._withdrawn.set()

    def release(self) -> None:
        """Let another process have it."""
        self.held = False
        os.close(self._file)


class TurnFailed(Exception):
    """The system gives no lock; the text says why."""


class WriteTurn:
    """Whose turn it is to write the store of a data directory, among processes that write it.

    SQLite itself keeps them apart, but has whoever waits sleep ever longer and come back to chance.
    """

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        self._file = os.open(directory / _WRITER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._wait_seconds = wait_seconds

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Have it for a moment. Who waits too long goes on without: SQLite still lets only one write."""
        until, pause = time.monotonic() + self._wait_seconds, _SHORTEST_PAUSE_SECONDS
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
            except OSError as problem:
                raise TurnFailed(problem.strerror) from None
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


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
