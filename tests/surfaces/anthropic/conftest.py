"""Owns a server with scripted upstreams of both wires, and Anthropic's own client in front of it."""

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic

from tests.fakes.llm.messages import FakeMessages, messages_model
from tests.fakes.llm.model import FakeModel, model
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put


@pytest.fixture
async def openai_upstream() -> AsyncIterator[FakeModel]:
    async with model() as fake:
        yield fake


@pytest.fixture
async def anthropic_upstream() -> AsyncIterator[FakeMessages]:
    async with messages_model() as fake:
        yield fake


@pytest.fixture
async def translated(sqlite_server: TestServer, openai_upstream: FakeModel) -> AsyncIterator[AsyncAnthropic]:
    """A client of an endpoint in front of an upstream of OpenAI's wire."""
    await put(sqlite_server, "translated", of_openai(openai_upstream))
    url = base_url(sqlite_server, "translated")
    async with AsyncAnthropic(base_url=url, api_key=sqlite_server.key, max_retries=0) as client:
        yield client


@pytest.fixture
async def relayed(sqlite_server: TestServer, anthropic_upstream: FakeMessages) -> AsyncIterator[AsyncAnthropic]:
    """A client of an endpoint in front of an upstream of Anthropic's own wire."""
    await put(sqlite_server, "relayed", of_anthropic(anthropic_upstream))
    url = base_url(sqlite_server, "relayed")
    async with AsyncAnthropic(base_url=url, auth_token=sqlite_server.key, max_retries=0) as client:
        yield client


@pytest.fixture
async def embedded(sqlite_server: TestServer) -> AsyncIterator[AsyncAnthropic]:
    """A client of the endpoint that every project has, with no model behind it."""
    url = base_url(sqlite_server, "default")
    async with AsyncAnthropic(base_url=url, api_key=sqlite_server.key, max_retries=0) as client:
        yield client
