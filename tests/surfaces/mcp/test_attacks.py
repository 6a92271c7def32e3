"""What somebody with a key, or a stolen session id, must not achieve."""

import asyncio
import gc
import json
from typing import Any

import httpx2
import pytest

from holdfast.core.principal import Principal
from holdfast.core.resources import BRIEF
from holdfast.core.settings import Settings
from holdfast.features.audit.model import AuditFilter
from holdfast.features.clients.model import NewClient
from holdfast.features.memory.model import MemoryChange, NewMemory
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.mcp.content.tools import ToolHandlers
from holdfast.surfaces.mcp.transport import listening
from tests.surfaces.mcp.harness import ERAS, MODERN, Raw, Site, serve_site, until

ASK = {"name": "test.ask", "arguments": {"question": "Really?"}}
ACCEPT = {"action": "accept", "content": {"word": "yes"}}


async def _key_id(site: Site, name: str) -> str:
    page = await site.services.keys.list(site.owner)
    return next(key.id for key in page.items if key.name == name)


async def _events(response: httpx2.Response, into: list[dict[str, Any]]) -> None:
    """Read a stream to its end."""
    async for line in response.aiter_lines():
        if line.startswith("data: ") and line != "data: ":
            into.append(json.loads(line[6:]))


async def test_a_stolen_session_id_is_worth_nothing(database: Database) -> None:
    async with serve_site(database) as site:
        mine, thiefs = await site.key("mine"), await site.key("thief")
        async with site.raw(mine) as owner, site.raw(thiefs) as thief:
            await owner.initialize()
            thief.session = owner.session
            for answer in (
                await thief.request("tools/list"),
                await thief.http.get(site.url, headers=thief.session_headers()),
                await thief.http.delete(site.url, headers=thief.session_headers()),
            ):
                assert answer.status_code == 404
            made_up = await thief.request("tools/list", headers={"Mcp-Session-Id": "made-up"})
            assert made_up.json() == (await thief.request("tools/list")).json()
            assert (await owner.request("tools/list")).status_code == 200


async def test_a_session_does_not_follow_to_another_workspace(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        other = await site.services.workspaces.create(site.owner, site.project, "Other")
        async with site.raw(await site.key()) as raw:
            await raw.initialize()
            moved = await raw.request("tools/list", headers={"X-Xerotier-Workspace": other.id})
            assert moved.status_code == 404


async def test_another_sessions_events_cannot_be_resumed(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key()
        async with site.raw(key) as first, site.raw(key) as second:
            await first.initialize()
            await second.initialize()
            event = await site.clients.append(first.session or "", "standalone", "{}")
            headers = {**second.session_headers(), "Last-Event-ID": str(event)}
            assert (await second.http.get(site.url, headers=headers)).status_code == 422
            for wrong in ("-1", "x", "9" * 30):
                headers["Last-Event-ID"] = wrong
                assert (await second.http.get(site.url, headers=headers)).status_code == 422


async def _asked(raw: Raw) -> tuple[str, str]:
    """Ask a question in the stateless era: its key and the state."""
    result = (await raw.modern_request("tools/call", ASK, elicitation={})).json()["result"]
    assert result["resultType"] == "input_required"
    return next(iter(result["inputRequests"])), result["requestState"]


async def test_unsolicited_answers_are_not_taken(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key()) as raw:
        question, _ = await _asked(raw)
        forged = {**ASK, "inputResponses": {question: ACCEPT}}
        result = (await raw.modern_request("tools/call", forged, elicitation={})).json()["result"]
        assert result["resultType"] == "input_required"


async def test_a_request_state_is_good_once_and_only_for_whom_and_what_it_was_made(database: Database) -> None:
    async with serve_site(database) as site:
        other = await site.services.workspaces.create(site.owner, site.project, "Other")
        key, stranger = await site.key("one"), await site.key("two")
        async with site.raw(key) as raw:
            question, state = await _asked(raw)
        retry = {**ASK, "inputResponses": {question: ACCEPT}, "requestState": state}

        async def outcome(key: str, params: dict[str, Any], workspace: str = "") -> Any:
            async with site.raw(key, workspace=workspace) as raw:
                answer = (await raw.modern_request("tools/call", params, elicitation={})).json()
            return answer.get("error", {}).get("message") or answer["result"].get("structuredContent")

        refused = "Invalid or expired requestState"
        assert await outcome(stranger, retry) == refused
        assert await outcome(key, retry, other.id) == refused
        assert await outcome(key, {**retry, "arguments": {"question": "Other?"}}) == refused
        assert await outcome(key, {**retry, "name": "test.add", "arguments": {"left": 1}}) == refused
        assert await outcome(key, {**retry, "requestState": state[:-2] + "AA"}) == refused
        assert await outcome(key, retry) == {"answer": {"word": "yes"}}
        assert await outcome(key, retry) == refused


@pytest.mark.parametrize("era", ERAS)
async def test_a_revoked_key_stops_at_once(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        key = await site.key("doomed")
        async with site.raw(key) as raw:
            if era == "legacy":
                await raw.initialize()
            await site.services.keys.revoke(site.owner, await _key_id(site, "doomed"))
            answer = await raw.request("tools/list") if era == "legacy" else await raw.modern_request("tools/list")
            assert answer.status_code == 401


async def test_an_open_stream_ends_when_its_key_is_revoked(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key("doomed")) as raw:
        await raw.initialize()
        async with raw.http.stream("GET", site.url, headers=raw.session_headers()) as response:
            assert response.status_code == 200
            await site.services.keys.revoke(site.owner, await _key_id(site, "doomed"))
            async with asyncio.timeout(20):
                await _events(response, [])


async def test_a_listen_stream_ends_when_its_key_is_revoked(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key("doomed")) as raw:
        body, headers = raw.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        heard: list[dict[str, Any]] = []
        async with raw.http.stream("POST", site.url, json=body, headers=headers) as response:
            assert response.status_code == 200
            await site.services.keys.revoke(site.owner, await _key_id(site, "doomed"))
            async with asyncio.timeout(20):
                await _events(response, heard)
        assert heard[0]["method"] == "notifications/subscriptions/acknowledged"


async def test_one_key_cannot_hold_every_listen_stream(
    sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MAX_STREAMS_EACH", 1)
    async with (
        serve_site(sqlite_database) as site,
        site.raw(await site.key()) as greedy,
        site.raw(await site.key()) as modest,
    ):
        body, headers = greedy.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with greedy.http.stream("POST", site.url, json=body, headers=headers) as first:
            assert first.status_code == 200
            refused = await greedy.modern_request("subscriptions/listen", body["params"])
            assert "1 listen streams open" in refused.text
            body, headers = modest.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            async with modest.http.stream("POST", site.url, json=body, headers=headers) as other:
                assert "acknowledged" in await anext(other.aiter_text())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.contract("XM-10")
async def test_a_narrowed_tier_is_told_and_refused(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.raw(await site.key("narrow")) as raw:
        if era == "legacy":
            await raw.initialize()
            stream = raw.http.stream("GET", site.url, headers=raw.session_headers())
        else:
            body, headers = raw.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            stream = raw.http.stream("POST", site.url, json=body, headers=headers)
        heard: list[dict[str, Any]] = []
        async with stream as response:
            reading = asyncio.create_task(_events(response, heard))
            await site.services.keys.update(site.owner, await _key_id(site, "narrow"), tier="core")
            await until(lambda: any(event.get("method") == "notifications/tools/list_changed" for event in heard))
            reading.cancel()
        call = {"name": "test.intel", "arguments": {"left": 1}}
        ask = raw.request if era == "legacy" else raw.modern_request
        names = [tool["name"] for tool in (await ask("tools/list")).json()["result"]["tools"]]
        assert "test.intel" not in names and "test.add" in names
        refused = (await ask("tools/call", call)).json()["error"]
        assert "tier 'core'" in refused["message"]
        denied = await site.services.audit.list(site.owner, AuditFilter(action="tool.call", outcome="denied"))
        assert [event.resource_id for event in denied.items] == ["test.intel"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_narrowed_tier_is_told_of_nothing_beyond_it(database: Database, era: str) -> None:
    async with serve_site(database) as site, site.raw(await site.key("narrow")) as raw:
        memory = site.services.memory
        saved = (await memory.save(site.owner, site.workspace, NewMemory(content="Bees live on the roof"))).memory
        assert saved is not None
        own = f"xerotier://memory/{saved.slug}"
        if era == "legacy":
            await raw.initialize()
            for uri in (own, BRIEF):
                assert "result" in (await raw.request("resources/subscribe", {"uri": uri})).json()
            stream = raw.http.stream("GET", site.url, headers=raw.session_headers())
        else:
            wanted = {"toolsListChanged": True, "resourceSubscriptions": [own, BRIEF]}
            body, headers = raw.modern("subscriptions/listen", {"notifications": wanted})
            stream = raw.http.stream("POST", site.url, json=body, headers=headers)
        heard: list[dict[str, Any]] = []

        def updates(uri: str) -> int:
            return sum(event.get("params", {}).get("uri") == uri for event in heard)

        async with stream as response:
            reading = asyncio.create_task(_events(response, heard))
            await site.services.keys.update(site.owner, await _key_id(site, "narrow"), tier="core")
            await until(lambda: any(event.get("method") == "notifications/tools/list_changed" for event in heard))
            before = updates(BRIEF)
            # Each edit changes both; when the second of one is heard, the first of the other would have been.
            for number in (1, 2):
                await memory.edit(site.owner, site.workspace, saved.slug, MemoryChange(title=f"Bees {number}"))
            await until(lambda: updates(own) >= 2)
            reading.cancel()
        assert updates(BRIEF) == before


@pytest.mark.parametrize("era", ERAS)
async def test_a_deleted_workspace_ends_what_was_bound_to_it(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        doomed = await site.services.workspaces.create(site.owner, site.project, "Doomed")
        async with site.raw(await site.key(), workspace=doomed.id) as raw:
            if era == "legacy":
                await raw.initialize()
            await site.services.workspaces.delete(site.owner, doomed.id)
            answer = await raw.request("tools/list") if era == "legacy" else await raw.modern_request("tools/list")
            assert answer.status_code == 404


async def test_a_session_bound_by_init_ends_with_its_workspace(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        doomed = await site.services.workspaces.create(site.owner, site.project, "Doomed")
        async with site.raw(await site.key(), workspace=None) as raw:
            await raw.initialize()
            bind = {"name": "xerotier.session.init", "arguments": {"workspace_id": doomed.id}}
            assert (await raw.request("tools/call", bind)).json()["result"]["structuredContent"]["bound"]
            await site.services.workspaces.delete(site.owner, doomed.id)
            assert (await raw.request("tools/list")).status_code == 404


@pytest.mark.slow
async def test_ten_thousand_idle_sessions_cost_no_memory_and_no_task(sqlite_database: SqliteDatabase) -> None:
    settings = Settings(mcp_calls_per_minute=600_000, mcp_max_sessions_each=20_000)
    async with serve_site(sqlite_database, settings=settings) as site:
        key = await site.key()
        async with site.raw(key) as raw:
            await raw.initialize()
            principal = await site.services.keys.authenticate(key)
            client = NewClient("idle", "1", "2025-11-25", "", {"elicitation": {}})
            gc.collect()
            objects, tasks = len(gc.get_objects()), len(asyncio.all_tasks())
            for _ in range(20):
                opening = (site.clients.open(principal, site.project, site.workspace, client) for _ in range(500))
                sessions = await asyncio.gather(*opening)
            last = sessions[-1].id
            del sessions
            gc.collect()
            assert len(asyncio.all_tasks()) <= tasks + 10
            assert len(gc.get_objects()) - objects < 20_000
            raw.session = last
            assert (await raw.request("tools/list")).status_code == 200


async def test_a_client_that_stops_reading_blocks_nobody_else(sqlite_database: SqliteDatabase) -> None:
    async with (
        serve_site(sqlite_database) as site,
        site.raw(await site.key()) as lazy,
        site.raw(await site.key()) as busy,
    ):
        await lazy.initialize()
        await busy.initialize()
        async with lazy.http.stream("GET", site.url, headers=lazy.session_headers()):
            # Far more than the sockets' buffers hold, and nobody reads it.
            for _ in range(40):
                await site.clients.append(lazy.session or "", "standalone", json.dumps({"big": "x" * 200_000}))
            async with asyncio.timeout(10):
                answer = await busy.request("tools/call", {"name": "test.add", "arguments": {"left": 1}})
            assert answer.json()["result"]["structuredContent"] == {"total": 1}


async def test_a_dropped_stream_is_resumed_where_it_broke(database: Database) -> None:
    async with serve_site(database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        params = {"name": "test.slow", "arguments": {"left": 7}, "_meta": {"progressToken": "p"}}
        body = raw.envelope("tools/call", params)
        version = {"MCP-Protocol-Version": "2025-11-25"}
        last = ""
        async with raw.http.stream("POST", site.url, json=body, headers={**raw.session_headers(), **version}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("id: "):
                    last = line[4:]
                if "notifications/progress" in line:
                    break
        site.slow.go_on.set()
        heard: list[dict[str, Any]] = []
        headers = {**raw.session_headers(), **version, "Last-Event-ID": last}
        async with asyncio.timeout(20), raw.http.stream("GET", site.url, headers=headers) as stream:
            await _events(stream, heard)
        assert [event.get("method") for event in heard] == ["notifications/progress", None]
        assert heard[-1]["id"] == body["id"]
        assert heard[-1]["result"]["structuredContent"] == {"total": 7}


async def test_what_a_standalone_stream_missed_is_told_on_resuming(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        first = await site.clients.append(raw.session or "", "standalone", '{"n":1}')
        await site.clients.append(raw.session or "", "standalone", '{"n":2}')
        heard: list[dict[str, Any]] = []
        headers = {**raw.session_headers(), "Last-Event-ID": str(first)}
        async with raw.http.stream("GET", site.url, headers=headers) as response:
            reading = asyncio.create_task(_events(response, heard))
            await until(lambda: heard)
            await site.clients.append(raw.session or "", "standalone", '{"n":3}')
            await until(lambda: len(heard) == 2)
            reading.cancel()
        assert heard == [{"n": 2}, {"n": 3}]


async def test_a_second_standalone_stream_takes_over_from_the_first(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        await raw.initialize()
        old: list[dict[str, Any]] = []
        new: list[dict[str, Any]] = []
        async with raw.http.stream("GET", site.url, headers=raw.session_headers()) as first:
            reading_old = asyncio.create_task(_events(first, old))
            await until(lambda: site.surface.live._standing)
            async with raw.http.stream("GET", site.url, headers=raw.session_headers()) as second:
                reading_new = asyncio.create_task(_events(second, new))
                async with asyncio.timeout(20):
                    await reading_old
                await site.clients.append(raw.session or "", "standalone", '{"n":1}')
                await until(lambda: new)
                reading_new.cancel()
        assert (old, new) == ([], [{"n": 1}])


async def test_a_tool_above_the_tier_is_not_even_a_header_schema(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key(tier="core")
        async with site.raw(key) as raw:
            call = {"name": "test.intel", "arguments": {"left": 1}}
            answer = await raw.modern_request("tools/call", call)
            assert answer.status_code == 400
            assert "needs the tier 'intel' or 'all'" in answer.json()["error"]["message"]


async def test_a_stateless_call_does_not_list_the_tools_first(
    sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = 0
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        listed = ToolHandlers.listed

        def counted(handlers: ToolHandlers, principal: Principal, *more: Any) -> dict[str, Any]:
            nonlocal listings
            listings += 1
            return listed(handlers, principal, *more)

        monkeypatch.setattr(ToolHandlers, "listed", counted)
        call = {"name": "test.add", "arguments": {"left": 1}}
        assert (await raw.modern_request("tools/call", call)).status_code == 200
        assert listings == 0
        assert (await raw.modern_request("tools/list")).status_code == 200
        assert listings == 1


async def test_a_progress_token_of_another_kind_is_ignored(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site, site.raw(await site.key()) as raw:
        body, headers = raw.modern("tools/call", {"name": "test.add", "arguments": {"left": 1}})
        body["params"]["_meta"]["progressToken"] = True
        answer = await raw.http.post(site.url, json=body, headers=headers)
        assert answer.status_code in (200, 400)
        assert MODERN in headers.values()
