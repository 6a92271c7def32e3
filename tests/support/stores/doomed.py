"""A process that works on a store until it is killed: `python -m tests.support.stores.doomed WHAT STORE URL FILE`."""

import asyncio
import sys
from functools import partial
from pathlib import Path

from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.jobs import JobEngine, JobRun
from holdfast.storage.database import Database, Tx
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.features.audit import audit_trail

STEPS = 30
PRINCIPAL = Principal("org_1", "usr_1", "session", True, frozenset({"management"}))


def open_store(store: str, address: str) -> Database:
    return SqliteDatabase(Path(address)) if store == "sqlite" else PostgresDatabase(address, connections=4)


def job_engine(database: Database, lines: Path) -> JobEngine:
    """An engine whose one kind of job leaves a line in a file and a row in the store at each step."""
    engine = JobEngine(database, EventBus(database))

    async def work(run: JobRun) -> object:
        for n in range(STEPS):
            await run.step(f"line {n}", partial(_write_line, lines, n))
            await run.commit(f"row {n}", partial(_write_row, n=n))
            await asyncio.sleep(0.01)
        return "done"

    engine.handle("work", work, max_attempts=50)
    return engine


async def _write_line(lines: Path, n: int) -> int:
    _append(lines, str(n))
    return n


def _write_row(tx: Tx, n: int) -> int:
    # No constraint would stop a second row.
    sql = "INSERT INTO usage_log VALUES (:id, 'o', 0, 'a', '', '', '', '', '', :n, 0, 0)"
    tx.execute(sql, {"id": new_id("use"), "n": n})
    return n


async def write_events(database: Database, acknowledged: Path) -> None:
    """Record events from many callers at once, and note each that was acknowledged."""
    audit = audit_trail(database, directory=acknowledged.parent)

    async def caller(name: int) -> None:
        n = 0
        while True:
            n += 1
            event = f"thing_{name}_{n}"
            made = partial(audit.record, principal=PRINCIPAL, action="thing.made", resource="thing", resource_id=event)
            await database.write(made)
            _append(acknowledged, event)

    async with asyncio.TaskGroup() as group:
        group.create_task(audit.run())
        for name in range(8):
            group.create_task(caller(name))


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


async def main() -> None:
    what, store, address, file = sys.argv[1:]
    database = open_store(store, address)
    if what == "jobs":
        await job_engine(database, Path(file)).run()
    else:
        await write_events(database, Path(file))


if __name__ == "__main__":
    asyncio.run(main())
