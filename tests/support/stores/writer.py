"""Owns a process that writes as fast as it can and says which writes were acknowledged; made to be killed."""

import asyncio
import itertools
import os
import sys
from functools import partial
from pathlib import Path

from holdfast.storage.database import Database, StorageFailed, Tx

CALLERS = 32


def create(tx: Tx) -> None:
    """The table it writes to."""
    tx.execute("CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, twin INTEGER NOT NULL)")


async def write_forever(database: Database, first: int) -> None:
    """Write numbers from many callers at once, each in two statements; print a number once it is durable."""
    numbers = itertools.count(first)

    def put(tx: Tx, number: int) -> None:
        tx.execute("INSERT INTO kept (number, twin) VALUES (:number, 0)", {"number": number})
        tx.execute("UPDATE kept SET twin = :number WHERE number = :number", {"number": number})

    async def caller() -> None:
        for number in numbers:
            try:
                await database.write(partial(put, number=number))
            except StorageFailed:
                return
            os.write(1, f"{number}\n".encode())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def main(where: str, first: int) -> None:
    """Write to a SQLite file or a PostgreSQL URL."""
    if where.startswith("postgresql"):
        from holdfast.storage.postgresql import PostgresDatabase

        database: Database = PostgresDatabase(where)
    else:
        from holdfast.storage.sqlite import SqliteDatabase

        database = SqliteDatabase(Path(where))
    asyncio.run(write_forever(database, first))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
