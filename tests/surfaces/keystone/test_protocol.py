"""Every revision of the protocol on one path, without sessions, and what is no message at all."""

import json
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import serving
from tests.surfaces.keystone.harness import serve_keystone
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository
from tests.surfaces.mcp.harness import ERAS, MODERN

pytestmark = pytest.mark.contract("KS-1")

TOOLS = ["list_projects", "ask", "search_memory", "get_project_status"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_agreed_on(sqlite_database: SqliteDatabase, version: str) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        await at.add("my-api")
        result = (await http.initialize(version)).json()["result"]
        assert result["protocolVersion"] == version and result["capabilities"] == {"tools": {}}
        assert ("instructions" in result) == (version != "2025-03-26")
        told = {"MCP-Protocol-Version": version}
        assert (await http.send("ping", headers=told)).json()["result"] == {}
        listed = (await http.send("tools/list", headers=told)).json()["result"]["tools"]
        assert [tool["name"] for tool in listed] == TOOLS
        found = await http.result("list_projects", headers=told)
        projects = json.loads(found["content"][0]["text"])
        assert [each["slug"] for each in projects] == ["my-api"]
        if version >= "2025-06-18":
            assert found["structuredContent"] == {"projects": projects}
            assert listed[0]["outputSchema"]["type"] == "object"
        else:
            assert set(found) == {"content"} and "outputSchema" not in listed[0]


async def test_the_stateless_revision_needs_no_handshake(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        await at.add("my-api", "Retry uploads three times")
        found = (await http.modern("server/discover")).json()["result"]
        assert MODERN in found["supportedVersions"] and found["capabilities"] == {"tools": {}}
        asked = {"projectSlugs": ["my-api"], "query": "retry uploads"}
        called = await http.modern("tools/call", {"name": "search_memory", "arguments": asked})
        result = called.json()["result"]
        assert result["structuredContent"]["matches"] == json.loads(result["content"][0]["text"])
        assert called.headers["x-ratelimit-limit"] == "60"
        mismatch = await http.modern("tools/list", {}, {"Mcp-Method": "tools/call"})
        assert mismatch.status_code == 400
        assert (await http.modern("prompts/list")).status_code == 404


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_uses_every_tool(database: Database, era: str, tmp_path: Path) -> None:
    repository = small_repository(tmp_path / "my-api")
    async with serve_keystone(database, data_dir=tmp_path) as at, at.client(await at.key(), era) as client:
        await ingest(at.services, at.owner, at.start.workspace_id, repository, "my-api")
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        asked = {"projectSlugs": ["my-api"]}
        listed = await client.call_tool("list_projects", {})
        found = await client.call_tool("search_memory", {**asked, "query": "sessions in the database"})
        status = await client.call_tool("get_project_status", {"projectSlug": "my-api"})
        answer = await client.call_tool("ask", {**asked, "question": WHY})
        assert (listed.structured_content or {})["projects"][0]["slug"] == "my-api"
        assert (found.structured_content or {})["matches"][0]["repo"] == "my-api"
        assert (status.structured_content or {})["ingestionCompleted"] is True
        assert "[1]" in answer.content[0].text and not answer.is_error  # type: ignore[union-attr]
        refused = await client.call_tool("get_project_status", {"projectSlug": "nope"})
        assert refused.is_error
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("xerotier.memory.save", {"content": "x"})


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json;q=0.9", "application/*"])
async def test_programs_that_take_only_json_get_json(sqlite_database: SqliteDatabase, accept: str) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key(), Accept=accept) as http:
        for answer in (
            await http.initialize(),
            await http.send("tools/list"),
            await http.call("list_projects"),
            await http.modern("tools/list"),
        ):
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert "result" in answer.json()


async def test_what_is_not_a_message_is_refused_politely(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:

        async def status(content: bytes, **headers: str) -> int:
            merged = {"Content-Type": "application/json", **headers}
            answer = await http.client.post(at.url, content=content, headers=merged)
            assert "error" in answer.json()
            return answer.status_code

        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        assert await status(b"{") == 400
        assert await status(b"[" + ping + b"]") == 400
        assert await status(b'{"jsonrpc":"1.0","id":1,"method":"ping"}') == 400
        assert await status(b'{"jsonrpc":"2.0","id":null,"method":"ping"}') == 400
        assert await status(ping, **{"Content-Type": "text/plain"}) == 400
        assert await status(ping, Accept="text/html") == 406
        assert await status(ping, **{"MCP-Protocol-Version": "1999-01-01"}) == 400
        assert await status(b" " * (5 * 1024 * 1024)) == 413
        for method in ("GET", "DELETE", "PUT"):
            answer = await http.client.request(method, at.url)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        for method in ("no/such/method", "prompts/list", "resources/list", "resources/subscribe"):
            unknown = (await http.send(method, {"uri": "x://y"})).json()
            assert unknown["error"]["code"] == -32601, method
        wrong = (await http.send("tools/call", {"name": "no_such_tool", "arguments": {}})).json()
        assert wrong["error"]["code"] == -32602
        assert (await http.send("tools/list", {"cursor": "x"})).json()["error"]["code"] == -32602


async def test_a_session_that_somebody_made_up_changes_nothing(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database) as at, at.http(await at.key()) as http:
        made_up = {"Mcp-Session-Id": "made-up"}
        assert (await http.send("tools/list", headers=made_up)).status_code == 200
        state = {"name": "list_projects", "arguments": {}, "requestState": "made up", "inputResponses": {}}
        assert "result" in (await http.modern("tools/call", state)).json()
        rows = await at.services.database.read(lambda tx: tx.all("SELECT id FROM mcp_session"))
        assert rows == []


async def test_the_mount_stands_behind_the_gate_beside_the_management_api(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server, server.client() as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_projects", "arguments": {}}}
        answer = await client.post("/api/mcp", json=body)
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "[]"}]
        assert answer.headers["x-request-id"]
        evil = await client.post("/api/mcp", json=body, headers={"Origin": "https://evil.example.com"})
        assert evil.status_code == 403
        assert (await client.post("/api/mcp", json=body, headers={"Host": "evil.example.com"})).status_code == 421
        assert (await client.get("/api/workspaces/nothing-here")).status_code == 404
        async with server.stranger() as stranger:
            assert (await stranger.post("/api/mcp", json=body)).status_code == 401


async def test_a_disabled_mount_does_not_exist(sqlite_database: SqliteDatabase) -> None:
    async with serve_keystone(sqlite_database, mcp_enabled=False) as at, at.http(await at.key()) as http:
        assert (await http.initialize()).status_code == 404
