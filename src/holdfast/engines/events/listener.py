"""Owns the connection that hears PostgreSQL's notices."""

import asyncio
import logging
from collections.abc import Callable

import psycopg

from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase

RECONNECT_SECONDS = 1.0

_log = logging.getLogger(__name__)


async def listen_forever(database: Database, channel: str, wake: Callable[[], None]) -> None:
    """Call `wake` at each notice on the channel and after each (re)connection, until cancelled."""
    if not isinstance(database, PostgresDatabase):
        raise TypeError("Only PostgreSQL has notices.")
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(
                database.url, autocommit=True, application_name="holdfast-events"
            )
            async with connection:
                await connection.execute(f"LISTEN {channel}".encode())
                wake()
                async for _ in connection.notifies():
                    wake()
        except psycopg.OperationalError as problem:
            _log.warning("Listening for events was interrupted (%s); polling meanwhile.", type(problem).__name__)
        await asyncio.sleep(RECONNECT_SECONDS)
