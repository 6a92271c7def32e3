"""Measures durable small writes: 64 callers sharing commits, against one commit for each write on the same disk."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.report import Figure, finish, options
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase, connect

CALLERS = 64
TARGET = 10.0
TABLE = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL, at INTEGER NOT NULL)"
INSERT = "INSERT INTO note (text, at) VALUES (:text, :at)"
TEXT = "The deploy needs the staging flag until the new load balancer is in place. " * 2


def _put(tx: Tx, at: int) -> None:
    tx.execute(INSERT, {"text": TEXT, "at": at})


async def shared_commits(path: Path, seconds: float) -> float:
    """Writes a second through the store, from many callers at once."""
    database = SqliteDatabase(path)
    await database.write(lambda tx: tx.execute(TABLE))
    end = time.perf_counter() + seconds
    written = 0

    async def caller() -> None:
        nonlocal written
        while time.perf_counter() < end:
            await database.write(partial(_put, at=written))
            written += 1

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    took = time.perf_counter() - began
    await database.close()
    return written / took


def single_commits(path: Path, seconds: float) -> float:
    """Writes a second with the same settings of SQLite, each in a commit of its own, without any thread between."""
    connection = connect(path)
    connection.execute(TABLE)
    began = time.perf_counter()
    written = 0
    while time.perf_counter() - began < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, {"text": TEXT, "at": written})
        connection.execute("COMMIT")
        written += 1
    took = time.perf_counter() - began
    connection.close()
    return written / took


def _rounds(measure: Callable[[Path], float], directory: Path, count: int) -> float:
    """The middle of several rounds: one stall of a busy disk must not decide."""
    found = sorted(measure(directory / f"{time.monotonic_ns()}.db") for _ in range(count))
    return found[len(found) // 2]


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where to write; the disk there is what is measured")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
        place = Path(directory)
        single = _rounds(lambda path: single_commits(path, chosen.seconds), place, chosen.rounds)
        shared = _rounds(lambda path: asyncio.run(shared_commits(path, chosen.seconds)), place, chosen.rounds)
    finish(
        [
            Figure("one commit for each write", single, "writes/s"),
            Figure(f"{CALLERS} callers sharing commits", shared, "writes/s"),
            Figure("ratio", shared / single, "×", TARGET),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
