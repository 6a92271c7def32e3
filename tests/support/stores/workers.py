"""Owns proving for several workers what is proved for one: each request reaches the next of several sets of parts.

With HOLDFAST_TEST_WORKERS=2 every server of a test has two on its store, which share nothing else.
"""

import os
from collections.abc import Sequence
from itertools import cycle

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.storage.database import Database
from holdfast.storage.lock import Ownership
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import CHANGES_SECONDS as ALONE_SECONDS
from holdfast.storage.sqlite import SqliteDatabase

WORKERS = int(os.environ.get("HOLDFAST_TEST_WORKERS", "1"))
CHANGES_SECONDS = ALONE_SECONDS if WORKERS == 1 else 0.0


def another(database: Database) -> Database:
    """The same store, opened as another process would."""
    if isinstance(database, SqliteDatabase):
        return SqliteDatabase(database.path, changes_seconds=0)
    assert isinstance(database, PostgresDatabase)
    return PostgresDatabase(database.url)


def ownership(database: Database, workers: int) -> Ownership | None:
    """What decides which of several workers on an embedded store does the background work."""
    if workers == 1 or not isinstance(database, SqliteDatabase):
        return None
    return Ownership(database.path.parent)


def in_turns(gates: Sequence[ASGIApp]) -> ASGIApp:
    """Each request reaches the next of them, whatever connection it comes on: nothing may hold only by luck."""
    following = cycle(gates)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await next(following)(scope, receive, send)

    return serve
