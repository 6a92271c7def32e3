"""Owns the scale-out store: the same transactions on PostgreSQL, through a pool of connections in threads."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from holdfast.core.errors import Invalid
from holdfast.storage.database import (
    Dialect,
    NeededFirst,
    Params,
    Row,
    StartFailed,
    StorageFailed,
    again,
    ended_early,
)

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

CONNECTIONS = 16
ATTEMPTS = 6
_NAMED = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=4096)
def placeholders(sql: str) -> str:
    """`:name` as psycopg writes it. SQL here has no colon inside a literal."""
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresTx:
    """A transaction on one PostgreSQL connection."""

    dialect: Dialect = "postgresql"

    def __init__(self, connection: "psycopg.Connection[dict[str, Any]]") -> None:
        self._connection = connection
        self.callbacks: list[Callable[[], None]] = []
        self.brought: dict[Hashable, Any] = {}

    def execute(self, sql: str, params: Params = {}) -> int:
        return self._connection.execute(placeholders(sql).encode(), params).rowcount

    def all(self, sql: str, params: Params = {}) -> list[Row]:
        return cast("list[Row]", self._connection.execute(placeholders(sql).encode(), params).fetchall())

    def one(self, sql: str, params: Params = {}) -> Row | None:
        return self._connection.execute(placeholders(sql).encode(), params).fetchone()

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(placeholders(sql).encode(), rows)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


class PostgresDatabase:
    """The `Database` on a PostgreSQL server."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: str, *, connections: int = CONNECTIONS) -> None:
        self.url = url
        self._pool: ConnectionPool[psycopg.Connection[dict[str, Any]]] = ConnectionPool(
            url,
            connection_class=psycopg.Connection[dict[str, Any]],
            kwargs={"row_factory": dict_row, "autocommit": True, "application_name": "holdfast"},
            min_size=1,
            max_size=connections,
            open=False,
            timeout=10,
            check=ConnectionPool.check_connection,
        )
        self._threads = ThreadPoolExecutor(connections, "holdfast-postgresql")
        try:
            psycopg.connect(url, connect_timeout=5).close()
            self._pool.open()
        except psycopg.ProgrammingError:
            # The driver's words may repeat a part of the URL, such as the password.
            raise StartFailed(
                "HOLDFAST_DATABASE_URL is not a PostgreSQL URL; "
                "write it like postgresql://user:password@host:5432/database, with odd characters percent-encoded."
            ) from None
        except psycopg.OperationalError as problem:
            reason = str(problem).strip().splitlines()[0] if str(problem).strip() else "no answer"
            raise StartFailed(
                f"PostgreSQL cannot be reached ({reason}); check HOLDFAST_DATABASE_URL and that the server runs."
            ) from None

    async def read(self, work: Callable[[PostgresTx], T]) -> T:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, begin)
        except NeededFirst as first:
            return await again(first, self.read, work)

    async def glance(self, work: Callable[[PostgresTx], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, None)
        except NeededFirst as first:
            return await again(first, self.glance, work)

    def changes(self) -> int | None:
        return None

    async def write(self, work: Callable[[PostgresTx], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, "BEGIN")
        except NeededFirst as first:
            return await again(first, self.write, work)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._pool.close)

    def _run(self, work: Callable[[PostgresTx], T], begin: str | None) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return self._once(work, begin)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as problem:
                # The loser of a race starts again with fresh reads; the work has had no other effect.
                if attempt == ATTEMPTS - 1:
                    raise _refused(problem) from problem
                time.sleep(random.uniform(0, 0.02 * 2**attempt))
            except psycopg.OperationalError as problem:
                raise _refused(problem) from problem
            except psycopg.DataError as problem:
                if "NUL" not in str(problem):
                    raise
                # No text column takes it, so no row can have it: whoever asked wrote something wrong.
                raise Invalid("Text cannot hold the NUL character (U+0000); remove it.") from None
            except StopIteration as problem:
                raise ended_early(problem) from problem
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[PostgresTx], T], begin: str | None) -> T:
        with self._pool.connection() as connection:
            tx = PostgresTx(connection)
            if begin is None:
                return work(tx)
            connection.execute(begin.encode())
            try:
                result = work(tx)
                connection.execute(b"COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.execute(b"ROLLBACK")
                raise
        for callback in tx.callbacks:
            try:
                callback()
            except Exception:
                # The write is durable whatever became of its announcement.
                _LOG.exception("a callback after a commit failed")
        return result


def _refused(problem: psycopg.Error) -> StorageFailed:
    if isinstance(problem, psycopg.errors.DiskFull):
        return StorageFailed("The disk of the PostgreSQL server is full; free some space and try again.")
    return StorageFailed(f"PostgreSQL did not take the work ({type(problem).__name__}); try again.")
