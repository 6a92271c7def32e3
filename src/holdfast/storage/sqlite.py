"""Owns the embedded store: one writer thread with group commit, a few readers, WAL, nothing lost on kill -9."""

import asyncio
import logging
import math
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from holdfast.storage.database import (
    Dialect,
    NeededFirst,
    Params,
    Row,
    StartFailed,
    StorageFailed,
    Unreadable,
    again,
    ended_early,
)
from holdfast.storage.files import make_directory
from holdfast.storage.lock import TurnFailed, WriteTurn

try:  # Debian's SQLite 3.40 can corrupt a WAL when it is reset; this wheel bundles a mended one.
    import pysqlite3 as sqlite3
except ImportError:  # No wheel for this platform.
    import sqlite3

SqliteError: type[Exception] = sqlite3.DatabaseError
T = TypeVar("T")
# A file that cannot grow is reported as one or the other, depending on which file it was.
_DISK = re.compile("disk is full|disk I/O error")
_LOG = logging.getLogger(__name__)

SQLITE_VERSION: str = sqlite3.sqlite_version
GROUP = 64
READERS = 4
BUSY_SECONDS = 15.0
# Commits of other processes are looked for this often, where every request asks whether there were any.
CHANGES_SECONDS = 0.001


class SqliteTx:
    """A transaction on one SQLite connection."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.callbacks: list[Callable[[], None]] = []
        self.brought: dict[Hashable, Any] = {}

    def execute(self, sql: str, params: Params = {}) -> int:
        return int(self._connection.execute(sql, params).rowcount)

    def all(self, sql: str, params: Params = {}) -> list[Row]:
        return cast("list[Row]", self._connection.execute(sql, params).fetchall())

    def one(self, sql: str, params: Params = {}) -> Row | None:
        return cast("Row | None", self._connection.execute(sql, params).fetchone())

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        self._connection.executemany(sql, rows)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


@dataclass(slots=True)
class _Request:
    work: Callable[[SqliteTx], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None
    callbacks: list[Callable[[], None]] = field(default_factory=list)


def _unusable(path: Path, problem: Exception) -> StartFailed:
    return StartFailed(
        f"The data directory {path.parent} cannot be used ({problem}); "
        "make it writable, or choose another with --data-dir."
    )


def connect(path: Path, *, read_only: bool = False) -> Any:
    """A connection in autocommit mode with our pragmas; transactions are begun by hand."""
    # A reader may still have to make the files that WAL needs, so it is kept from writing by a pragma instead.
    mode = "rw" if read_only else "rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    connection.row_factory = sqlite3.Row
    for pragma in (
        "query_only=ON" if read_only else "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "mmap_size=268435456",
        "journal_size_limit=67108864",
        "cache_size=-4096",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def connect_copy(path: Path) -> Any:
    """A connection to a finished file that nobody writes, wherever it lies."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def connect_memory() -> Any:
    """A connection to an empty database that is gone when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


class SqliteDatabase:
    """The `Database` in one file."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, *, changes_seconds: float = CHANGES_SECONDS) -> None:
        """`changes_seconds` is 0 where several processes serve together: each request looks for the others' commits."""
        self.path = path
        self._changes_seconds = changes_seconds
        try:
            make_directory(path.parent)
            # SQLite gives its log the mode of the file.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._turn = WriteTurn(path.parent, BUSY_SECONDS)
            self._writer_connection = connect(path)
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.OperationalError):
                raise _unusable(path, problem) from None
            raise StartFailed(
                f"{path} is not a Holdfast database ({problem}); restore a backup into its place."
            ) from None
        except OSError as problem:
            raise _unusable(path, problem) from None
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="holdfast-writer", daemon=True)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READERS, "holdfast-reader")
        self._local = threading.local()
        self._opened: list[Any] = []
        self._opened_lock = threading.Lock()
        self._closed = False
        self._changes = 0
        self._changes_at = -math.inf

    async def read(self, work: Callable[[SqliteTx], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_now, work)
        except NeededFirst as first:
            return await again(first, self.read, work)

    async def glance(self, work: Callable[[SqliteTx], T]) -> T:
        # Without a transaction around it, which takes as long as the look-up itself.
        try:
            return work(SqliteTx(self._reader()))
        except NeededFirst as first:
            return await again(first, self.glance, work)
        except sqlite3.Error as problem:
            raise _translated(problem) from problem

    def changes(self) -> int | None:
        now = time.monotonic()
        if now - self._changes_at >= self._changes_seconds:
            self._changes = int(self._reader().execute("PRAGMA data_version").fetchone()[0])
            self._changes_at = now
        return self._changes

    async def write(self, work: Callable[[SqliteTx], T]) -> T:
        if self._closed:
            raise StorageFailed("The store is closed; the server is shutting down.")
        loop = asyncio.get_running_loop()
        request = _Request(work, loop, loop.create_future())
        self._requests.put(request)
        try:
            return cast("T", await request.future)
        except NeededFirst as first:
            return await again(first, self.write, work)
        finally:
            self._changes_at = -math.inf

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._requests.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        for connection in [*self._opened, self._writer_connection]:
            connection.close()
        self._turn.close()

    def _reader(self) -> Any:
        """This thread's own connection for reading."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path, read_only=True)
            with self._opened_lock:
                self._opened.append(connection)
        return connection

    def _read_now(self, work: Callable[[SqliteTx], T]) -> T:
        connection = self._reader()
        # A transaction that is only read from sees one snapshot, however many statements it runs.
        connection.execute("BEGIN")
        try:
            return work(SqliteTx(connection))
        except sqlite3.Error as problem:
            raise _translated(problem) from problem
        except StopIteration as problem:
            raise ended_early(problem) from problem
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _write_forever(self) -> None:
        last = False
        while not last:
            first = self._requests.get()
            if first is None:
                return
            batch, last = self._gather(first)
            self._commit(batch)
            self._answer(batch)

    def _gather(self, first: _Request) -> tuple[list[_Request], bool]:
        batch = [first]
        while len(batch) < GROUP:
            try:
                following = self._requests.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return batch, True
            batch.append(following)
        return batch, False

    def _commit(self, batch: list[_Request]) -> None:
        problem = self._try_commit(batch)
        if problem is None:
            return
        if len(batch) > 1 and _DISK.search(str(problem)):
            # What one of them asked for took the others down: each gets a chance of its own.
            for request in batch:
                self._commit([request])
            return
        for request in batch:
            request.error, request.callbacks = _translated(problem), []

    def _try_commit(self, batch: list[_Request]) -> BaseException | None:
        connection = self._writer_connection
        try:
            with self._turn.taken():
                connection.execute("BEGIN IMMEDIATE")
                for request in batch:
                    self._run(connection, request)
                connection.execute("COMMIT")
        except (sqlite3.Error, TurnFailed) as problem:
            # Whatever fails here fails this batch: the thread goes on for the next.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return cast("BaseException", problem)
        return None

    @staticmethod
    def _run(connection: Any, request: _Request) -> None:
        tx = SqliteTx(connection)
        request.error, request.callbacks = None, []
        connection.execute("SAVEPOINT request")
        try:
            request.result = request.work(tx)
            request.callbacks = tx.callbacks
        except BaseException as problem:
            request.error = _translated(problem)
            if not connection.in_transaction:
                # SQLite itself gave up the whole transaction (disk full): the others in it are lost too.
                raise sqlite3.OperationalError(str(problem)) from problem
            connection.execute("ROLLBACK TO request")
        connection.execute("RELEASE request")

    @staticmethod
    def _answer(batch: list[_Request]) -> None:
        for request in batch:
            for callback in request.callbacks:
                try:
                    callback()
                except Exception:
                    # The write is durable whatever became of its announcement, and the writer must go on.
                    _LOG.exception("a callback after a commit failed")
        for loop in {request.loop for request in batch}:
            mine = [request for request in batch if request.loop is loop]
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, mine)


def _settle(requests: list[_Request]) -> None:
    for request in requests:
        if request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)


def _translated(problem: BaseException) -> BaseException:
    """SQLite's own troubles as one clear error; a constraint that was broken is the caller's affair."""
    if isinstance(problem, StopIteration):
        return ended_early(problem)
    if isinstance(problem, TurnFailed):
        return StorageFailed(f"The data directory cannot be locked for writing ({problem}); try again.")
    if not isinstance(problem, sqlite3.OperationalError):
        return problem
    text = str(problem)
    if _DISK.search(text):
        return StorageFailed(f"The data directory's disk is full or failing ({text}); free some space and try again.")
    if "decode to UTF-8" in text:
        # Python's driver says so of the column's value too, which may be anything.
        return Unreadable("A text in the store is not text: somebody else wrote there; restore a backup.")
    if "is locked" in text:
        return StorageFailed("The database is busy with another process; try again.")
    if "readonly database" in text or "unable to open database file" in text:
        return StorageFailed("The data directory is not writable; make it writable and try again.")
    return cast("BaseException", problem)
