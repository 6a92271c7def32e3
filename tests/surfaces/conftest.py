"""Owns the running server that tests of surfaces talk to, on each store in turn."""

from collections.abc import AsyncIterator

import pytest

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(database: Database) -> AsyncIterator[TestServer]:
    """A server on each store."""
    async with serving(database) as running:
        yield running


@pytest.fixture
async def sqlite_server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    """A server on the embedded store, for what has nothing to do with the store."""
    async with serving(sqlite_database) as running:
        yield running
