"""Several messages in one POST, as 2025-03-26 has them, and versions that nobody speaks."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.core.settings import Settings
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import MODERN, Raw, serve_site, until

BATCHED = "2025-03-26"
OTHERS = ("2024-11-05", "2025-06-18", "2025-11-25")


def _call(raw: Raw, name: str, **arguments: Any) -> dict[str, Any]:
    return raw.envelope("tools/call", {"name": name, "arguments": arguments})


async def test_a_batch_is_answered_as_a_batch(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key()) as raw:
        await raw.initialize(BATCHED)
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        ping, add, unknown = raw.envelope("ping"), _call(raw, "test.add", left=4), raw.envelope("no/such")
        answer = await raw.post([ping, told, add, unknown])
        assert answer.status_code == 200
        found = {each["id"]: each for each in answer.json()}
        assert list(found) == [ping["id"], add["id"], unknown["id"]]
        assert found[ping["id"]]["result"] == {}
        assert found[add["id"]]["result"]["structuredContent"] == {"total": 4}
        assert found[unknown["id"]]["error"]["code"] == -32601


async def test_messages_of_a_batch_are_done_in_their_order(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        await site.services.workspaces.create(site.owner, site.project, "Other")
        async with site.raw(await site.key(), workspace=None) as raw:
            await raw.initialize(BATCHED)
            init = _call(raw, "xerotier.session.init", workspace_id=site.workspace)
            answer = await raw.post([init, _call(raw, "xerotier.workspace.get")])
            bound, where = (each["result"]["structuredContent"] for each in answer.json())
            assert bound["bound"] is True and where["workspace_id"] == site.workspace


async def test_notifications_alone_are_acknowledged(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize(BATCHED)
        answer = await raw.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        assert (answer.status_code, answer.content) == (202, b"")


async def test_what_cannot_be_read_in_a_batch_fails_alone(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize(BATCHED)
        again = raw.envelope("initialize", {})
        answer = await raw.post([7, raw.envelope("ping"), again])
        broken, ping, refused = answer.json()
        assert broken["id"] is None and broken["error"]["code"] == -32600
        assert ping["result"] == {}
        assert refused["id"] == again["id"] and "batch" in refused["error"]["message"]


@pytest.mark.parametrize("version", OTHERS)
async def test_other_revisions_are_told_to_send_one_message_at_a_time(
    sqlite_database: SqliteDatabase, version: str
) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize(version)
        answer = await raw.post([raw.envelope("ping")])
        assert answer.status_code == 400
        assert version in answer.json()["error"]["message"] and BATCHED in answer.json()["error"]["message"]


async def test_a_batch_needs_a_session(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        without = await raw.post([raw.envelope("ping")])
        assert without.status_code == 400 and "session" in without.json()["error"]["message"]
        stateless = await raw.post([raw.envelope("ping")], {"MCP-Protocol-Version": MODERN})
        assert stateless.status_code == 400 and BATCHED in stateless.json()["error"]["message"]
        empty = await raw.post([])
        assert empty.status_code == 400 and "empty" in empty.json()["error"]["message"]


async def test_every_message_of_a_batch_counts_towards_the_limit(sqlite_database: SqliteDatabase) -> None:
    async with (
        serve_site(sqlite_database, settings=Settings(mcp_calls_per_minute=10)) as site,
        site.raw(await site.key()) as raw,
    ):
        await raw.initialize(BATCHED)
        answer = await raw.post([raw.envelope("ping") for _ in range(20)])
        assert answer.status_code == 429


async def test_a_slow_batch_streams_its_progress_and_then_all_its_answers(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize(BATCHED)
        slow = _call(raw, "test.slow", left=4)
        slow["params"]["_meta"] = {"progressToken": 1}
        posted = asyncio.create_task(raw.post([slow, raw.envelope("ping")]))
        await until(site.slow.begun.is_set)
        site.slow.go_on.set()
        answer = await posted
        assert answer.headers["content-type"].startswith("text/event-stream")
        said = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ") and line[6:]]
        assert [each["params"]["progress"] for each in said[:-1]] == [1, 2]
        assert [each["id"] for each in said[-1]] == [slow["id"], slow["id"] + 1]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_version_that_nobody_speaks_is_named(sqlite_database: SqliteDatabase, method: str) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        headers = {**raw.session_headers(), "MCP-Protocol-Version": "2031-01-01"}
        body = raw.envelope("ping") if method == "POST" else None
        answer = await raw.http.request(method, raw.url, json=body, headers=headers)
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert "2031-01-01" in error["message"] and MODERN in error["message"] and BATCHED in error["message"]
        assert error["data"]["requested"] == "2031-01-01" and set(OTHERS) < set(error["data"]["supported"])


async def test_an_envelope_that_disagrees_with_its_header_is_still_told_so(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        body, headers = raw.modern("tools/list")
        answer = await raw.http.post(raw.url, json=body, headers={**headers, "MCP-Protocol-Version": "2031-01-01"})
        assert answer.status_code == 400 and "does not match" in answer.json()["error"]["message"]
