"""Owns what every store is written against: a database that runs functions inside transactions."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeVar

from holdfast.core.errors import HoldfastError, Unavailable

T = TypeVar("T")
Dialect = Literal["sqlite", "postgresql"]
Row = Mapping[str, Any]
Params = Mapping[str, Any]


class Tx(Protocol):
    """One open transaction. Statements take `:name` parameters on both dialects."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def brought(self) -> dict[Hashable, Any]:
        """What `needed` had brought for it from outside of the store."""
        ...

    def execute(self, sql: str, params: Params = ...) -> int:
        """Run a statement; the number of rows it changed."""
        ...

    def all(self, sql: str, params: Params = ...) -> list[Row]:
        """Every row, each read by column name."""
        ...

    def one(self, sql: str, params: Params = ...) -> Row | None:
        """The first row, or None."""
        ...

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run a statement once per row."""
        ...

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back once what this transaction wrote is durable; never if it rolls back."""
        ...


class Database(Protocol):
    """Runs functions in transactions. They must not wait for anything but the database."""

    @property
    def dialect(self) -> Dialect: ...

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent snapshot, off the event loop."""
        ...

    async def glance(self, work: Callable[[Tx], T]) -> T:
        """Like `read`, for a look-up of a few rows by key: SQLite answers it without changing threads."""
        ...

    def changes(self) -> int | None:
        """A number that is another after each commit, by whatever process; None where that is not cheap to know.

        This process's own commits show at once, another's within a millisecond.
        """
        ...

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction of its own; when this returns, it survives kill -9."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of files and connections."""
        ...


class NeededFirst(Exception):
    """A transaction needs something that is not in the store: it is brought meanwhile, and the transaction runs again.

    No error of ours: nobody inside of the transaction may take it for an answer.
    """

    def __init__(self, key: Hashable, bring: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self.key = key
        self.bring = bring


def needed(tx: Tx, key: Hashable, bring: Callable[[], Awaitable[T]]) -> T:
    """What `bring` returns, brought while no transaction is open; kept for this one call and no longer."""
    if key not in tx.brought:
        raise NeededFirst(key, bring)
    found: T = tx.brought[key]
    return found


async def again(first: NeededFirst, run: Callable[[Callable[[Any], T]], Awaitable[T]], work: Callable[[Any], T]) -> T:
    """Run `work` once more, with what it needed first."""
    value = await first.bring()

    def supplied(tx: Tx) -> T:
        tx.brought[first.key] = value
        return work(tx)

    return await run(supplied)


class StorageFailed(Unavailable):
    """The store could not take the write; nothing of it was kept."""

    code = "storage_unavailable"


class Unreadable(StorageFailed):
    """The store holds something that none of ours writes there and that cannot be read."""


class StartFailed(HoldfastError):
    """The server cannot start; the message is one line with the remedy."""

    code = "start_failed"


class NoStore(StartFailed):
    """There is no store where a command looked, and the command is not one that makes it."""

    code = "no_store"


def ended_early(problem: StopIteration) -> RuntimeError:
    """The same mistake in a form that a future can carry: StopIteration itself would leave its caller waiting."""
    return RuntimeError(f"the work ran off the end of an iterator ({problem!r})")
