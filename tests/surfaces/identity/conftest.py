"""Owns the people that tests of identity let in, on each store or on one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.support.server import TestServer
from tests.surfaces.identity.people import People


@pytest.fixture
async def people(server: TestServer) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        yield People(server, stack)


@pytest.fixture
async def few(sqlite_server: TestServer) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        yield People(sqlite_server, stack)
