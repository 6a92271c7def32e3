"""Owns a server with a scripted upstream behind one of its endpoints."""

from collections.abc import AsyncIterator

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from tests.fakes.model import KEY, FakeModel, model
from tests.support.server import TestServer


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


async def connect(server: TestServer, upstream: FakeModel, name: str = "main", **more: object) -> str:
    """The base URL of a new endpoint in front of an upstream."""
    services = server.services
    await services.secrets.set(server.owner, server.start.workspace_id, "MODEL_KEY", KEY)
    spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY", **more)  # type: ignore[arg-type]
    made = await services.endpoints.put(server.owner, server.start.project_id, name, [spec])
    return f"{server.url}{made.path}"
