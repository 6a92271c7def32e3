"""HTTP+SSE, the transport of 2024, which an operator can pin."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client

from holdfast.core.settings import Settings
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import serve_site, until

LEGACY = Settings(mcp_transport="legacy", mcp_calls_per_minute=600_000)


@pytest.mark.contract("XM-18")
async def test_an_old_client_is_served(database: Database) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"word": "old"})

    async with serve_site(database, settings=LEGACY) as site:
        headers = site.headers(await site.key())
        transport = sse_client(site.url, headers=headers)
        async with Client(transport, mode="legacy", elicitation_callback=answer) as client:
            assert "test.add" in {tool.name for tool in (await client.list_tools()).tools}
            assert (await client.call_tool("test.add", {"left": 3})).structured_content == {"total": 3}
            asked = await client.call_tool("test.ask", {"question": "Which?"})
            assert asked.structured_content == {"answer": {"word": "old"}}
            site.slow.go_on.set()
            slow = await client.call_tool("test.slow", {"left": 1}, progress_callback=note)
            assert slow.structured_content == {"total": 1}
            assert seen == [1, 2]
        assert [seen.name for seen in await site.clients.list(site.owner)] == ["mcp"]


@pytest.mark.contract("XM-18")
async def test_the_streamable_transport_is_not_offered_then(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database, settings=LEGACY) as site, site.raw(await site.key()) as raw:
        assert (await raw.initialize()).status_code == 405
        assert (await raw.modern_request("server/discover")).status_code == 405


async def test_messages_of_a_thief_do_not_reach_the_session(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database, settings=LEGACY) as site:
        mine, thiefs = await site.key("mine"), await site.key("thief")
        async with site.raw(mine) as owner, site.raw(thiefs) as thief:
            endpoint: list[str] = []

            async def read() -> None:
                async with owner.http.stream("GET", site.url) as stream:
                    async for line in stream.aiter_lines():
                        endpoint.append(line)

            reading = asyncio.create_task(read())
            await until(lambda: any(line.startswith("data: ") for line in endpoint))
            path = next(line[6:] for line in endpoint if line.startswith("data: "))
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await thief.http.post(site.root + path, json=message)).status_code == 404
            assert (await owner.http.post(site.root + path, json=message)).status_code == 202
            await until(lambda: any('"result"' in line for line in endpoint))
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
