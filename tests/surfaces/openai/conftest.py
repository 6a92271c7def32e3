"""Owns a server with a scripted upstream behind one of its endpoints."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.llm.model import FakeModel, model
from tests.support.server import TestServer
from tests.surfaces.openai.endpoint import connect


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    """A strict upstream."""
    async with model() as fake:
        yield fake


@pytest.fixture
async def chat(server: TestServer, upstream: FakeModel) -> str:
    """The URL of an endpoint in front of it, on each store."""
    return await connect(server, upstream)


@pytest.fixture
async def sqlite_chat(sqlite_server: TestServer, upstream: FakeModel) -> str:
    """The same on the embedded store."""
    return await connect(sqlite_server, upstream)
