"""Two workers on one store: whatever one of them did, the next request finds at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving
from tests.support.stores.workers import another

ERAS = ("legacy", "2026-07-28")


@pytest.fixture
async def two(database: Database) -> AsyncIterator[TestServer]:
    """A server of two workers, each request reaching the other one than the last."""
    if isinstance(database, SqliteDatabase):
        database = another(database)
    async with serving(database, workers=2, research_calls_per_minute=5) as running:
        yield running
    if isinstance(database, SqliteDatabase):
        await database.close()


@asynccontextmanager
async def _client(server: TestServer, era: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.key}", "X-Xerotier-Workspace": server.start.workspace_id}
    url = f"{server.url}/{server.start.project_id}/v1/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def test_what_one_changes_the_other_knows_at_once(two: TestServer) -> None:
    path = f"/api/workspaces/{two.start.workspace_id}/memories"
    async with two.client() as client:
        for number in range(6):
            made = (await client.post("/api/keys", json={"name": f"k{number}", "scopes": ["read"]})).json()
            async with two.client(made["key"]) as theirs:
                assert [(await theirs.get("/api/me")).status_code for _ in range(2)] == [200, 200]
                assert (await client.delete(f"/api/keys/{made['id']}")).status_code in (200, 204)
                assert [(await theirs.get("/api/me")).status_code for _ in range(2)] == [401, 401]
            text = f"Ferry {number} leaves from pier {number * 17} at {number + 6} in the morning."
            saved = (await client.post(path, json={"content": text})).json()
            for _ in range(2):
                assert (await client.get(f"{path}/{saved['memory_id']}")).json()["content"] == text
            for _ in range(2):
                found = (await client.post(f"{path}/recall", json={"query": f"ferry pier {number * 17}"})).json()
                assert saved["memory_id"] in {each["id"] for each in found["items"]}


async def test_the_same_request_twice_is_done_once(two: TestServer) -> None:
    async with two.client(**{"Idempotency-Key": "once"}) as client:
        path, body = f"/api/workspaces/{two.start.workspace_id}/memories", {"content": "The crane was sold."}
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(4)))
        assert {each.status_code for each in answers} <= {201, 409}
        last = await client.post(path, json=body)
        # Done again, it would be told apart from the first as a duplicate.
        told = [each.json() for each in (*answers, last) if each.status_code == 201]
        assert [each["status"] for each in told] == ["saved"] * len(told)
        assert {each["memory_id"] for each in told} == {last.json()["memory_id"]}


@pytest.mark.parametrize("era", ERAS)
async def test_an_mcp_session_is_served_by_both(two: TestServer, era: str) -> None:
    async with _client(two, era) as client:
        for number in range(4):
            result = await client.call_tool("xerotier.calc.evaluate", {"expression": f"6 * {number}"})
            assert not result.is_error and str(6 * number) in str(result.content)
        assert (await client.list_tools()).tools


async def test_a_small_limit_is_one_for_both(database: Database) -> None:
    if isinstance(database, SqliteDatabase):
        database = another(database)
    async with serving(database, workers=2, requests_per_minute=20) as server, server.client() as client:
        statuses = [(await client.get("/api/me")).status_code for _ in range(40)]
    # A token comes back every three seconds.
    assert 20 <= statuses.count(200) <= 24
    if isinstance(database, SqliteDatabase):
        await database.close()


async def test_an_event_crosses_to_whoever_follows_at_the_other(two: TestServer) -> None:
    path = f"/api/workspaces/{two.start.workspace_id}"
    async with two.client() as client, asyncio.timeout(60):
        events = f"{path}/events?topics=memory.*"
        async with client.stream("GET", events) as one, client.stream("GET", events) as other:
            lines = [each.aiter_lines() for each in (one, other)]
            assert [await anext(each) for each in lines] == [": following"] * 2
            saved = (await client.post(f"{path}/memories", json={"content": "The quay was swept."})).json()
            for each in lines:
                assert [line async for line in _until(each, saved["memory_id"])]


async def _until(lines: AsyncIterator[str], id: str) -> AsyncIterator[str]:
    async for line in lines:
        if id in line:
            yield line
            return


async def test_background_work_has_one_owner_on_the_embedded_store_and_is_done_whoever_asks(two: TestServer) -> None:
    base = f"/api/workspaces/{two.start.workspace_id}"
    async with two.client() as client, asyncio.timeout(60):
        for number in range(2):
            text = f"# Pier {number}\n\nThe ferry leaves pier {number} at noon."
            sent = await client.post(f"{base}/documents", files={"file": (f"p{number}.md", text.encode())})
            assert sent.status_code < 300, sent.text
        while True:
            states = [each["state"] for each in (await client.get(f"{base}/documents")).json()["items"]]
            if states == ["ready", "ready"]:
                break
            await asyncio.sleep(0.05)
