"""One session, two servers on one store: whichever gets the next request can serve it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.surfaces.mcp.harness import Raw, Site, serve_site, until

pytestmark = pytest.mark.slow

ELICITATION: dict[str, Any] = {"elicitation": {}}


@asynccontextmanager
async def _two(site: Site, other: Site, *, workspace: str | None = "") -> AsyncIterator[tuple[Raw, Raw]]:
    """The same client with one session, talking to both."""
    key = await site.key()
    async with site.raw(key, workspace=workspace) as first, other.raw(key, workspace=workspace) as second:
        await first.initialize(capabilities=ELICITATION)
        second.session = first.session
        yield first, second


@pytest.fixture
async def other_database(database: Database, open_database: OpenDatabase) -> Any:
    opened = open_database()
    yield opened
    await opened.close()


async def test_a_session_is_served_by_another_replica(database: Database, other_database: Database) -> None:
    async with (
        serve_site(database) as site,
        serve_site(other_database) as other,
        _two(site, other) as (first, second),
    ):
        answer = await second.request("tools/call", {"name": "test.add", "arguments": {"left": 9}})
        assert answer.json()["result"]["structuredContent"] == {"total": 9}
        assert (await second.http.delete(second.url, headers=second.session_headers())).status_code == 200
        assert (await first.request("ping")).status_code == 404


async def test_a_binding_made_on_one_replica_holds_on_the_other(database: Database, other_database: Database) -> None:
    async with (
        serve_site(database) as site,
        serve_site(other_database) as other,
        _two(site, other, workspace=None) as (first, second),
    ):
        await first.request("tools/call", {"name": "xerotier.session.init", "arguments": {}})
        got = await second.request("tools/call", {"name": "xerotier.workspace.get", "arguments": {}})
        assert got.json()["result"]["structuredContent"]["workspace_id"] == site.workspace


async def test_an_answer_finds_the_replica_that_asked(database: Database, other_database: Database) -> None:
    async with (
        serve_site(database) as site,
        serve_site(other_database) as other,
        _two(site, other) as (first, second),
    ):
        body = first.envelope("tools/call", {"name": "test.ask", "arguments": {"question": "Which?"}})
        found: list[dict[str, Any]] = []
        async with first.http.stream("POST", site.url, json=body, headers=first.session_headers()) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                found.append(json.loads(line[6:]))
                if found[-1].get("method") == "elicitation/create":
                    result = {"action": "accept", "content": {"word": "far"}}
                    reply = {"jsonrpc": "2.0", "id": found[-1]["id"], "result": result}
                    assert (await second.post(reply)).status_code == 202
        assert found[-1]["result"]["structuredContent"] == {"answer": {"word": "far"}}


async def test_a_cancellation_finds_the_replica_that_works(database: Database, other_database: Database) -> None:
    async with (
        serve_site(database) as site,
        serve_site(other_database) as other,
        _two(site, other) as (first, second),
    ):
        body = first.envelope("tools/call", {"name": "test.slow", "arguments": {"left": 1}})
        calling = asyncio.create_task(first.post(body))
        await until(site.slow.begun.is_set)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": body["id"]}}
        assert (await second.post(cancel)).status_code == 202
        async with asyncio.timeout(20):
            await site.slow.cancelled.wait()
            await calling


async def test_a_dropped_stream_is_resumed_on_another_replica(database: Database, other_database: Database) -> None:
    async with (
        serve_site(database) as site,
        serve_site(other_database) as other,
        _two(site, other) as (first, second),
    ):
        params = {"name": "test.slow", "arguments": {"left": 5}, "_meta": {"progressToken": 1}}
        body = first.envelope("tools/call", params)
        last = ""
        async with first.http.stream("POST", site.url, json=body, headers=first.session_headers()) as stream:
            async for line in stream.aiter_lines():
                last = line[4:] if line.startswith("id: ") else last
                if "notifications/progress" in line:
                    break
        headers = {**second.session_headers(), "Last-Event-ID": last}
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(20), second.http.stream("GET", other.url, headers=headers) as stream:
            site.slow.go_on.set()
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    found.append(json.loads(line[6:]))
        assert found[-1]["result"]["structuredContent"] == {"total": 5}


async def test_a_request_state_is_redeemed_on_another_replica_once(
    database: Database, other_database: Database
) -> None:
    async with serve_site(database) as site, serve_site(other_database) as other:
        key = await site.key()
        call = {"name": "test.ask", "arguments": {"question": "Which?"}}
        async with site.raw(key) as first, other.raw(key) as second:
            asked = (await first.modern_request("tools/call", call, **ELICITATION)).json()["result"]
            question = next(iter(asked["inputRequests"]))
            responses = {question: {"action": "accept", "content": {"word": "hi"}}}
            retry = {**call, "inputResponses": responses, "requestState": asked["requestState"]}
            done = (await second.modern_request("tools/call", retry, **ELICITATION)).json()
            assert done["result"]["structuredContent"] == {"answer": {"word": "hi"}}
            again = (await first.modern_request("tools/call", retry, **ELICITATION)).json()
            assert again["error"]["message"] == "Invalid or expired requestState"


async def test_a_change_made_through_one_replica_is_told_by_the_other(
    database: Database, other_database: Database
) -> None:
    async with serve_site(database) as site, serve_site(other_database) as other:
        await other.services.events.ready()
        async with _two(site, other) as (first, second):
            brief = "xerotier://workspace/current/brief"
            await first.request("resources/subscribe", {"uri": brief})
            heard: list[str] = []

            async def read() -> None:
                async with second.http.stream("GET", other.url, headers=second.session_headers()) as stream:
                    async for line in stream.aiter_lines():
                        heard.append(line)

            reading = asyncio.create_task(read())
            await until(lambda: other.surface.live._standing)
            save = {"name": "xerotier.memory.save", "arguments": {"content": "The cat lives in the barn."}}
            assert not (await first.request("tools/call", save)).json()["result"].get("isError")
            await until(lambda: any(brief in line for line in heard))
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
