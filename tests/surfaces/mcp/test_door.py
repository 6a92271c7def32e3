"""The endpoint as the server mounts it: behind the gate, with every tool of the product."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.core.principal import Tier
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.cli.mcp import tools_page
from tests.support.server import TestServer, serving
from tests.surfaces.mcp.harness import ERAS

ROOT = Path(__file__).parents[3]

TIERS: dict[Tier, int] = {"core": 10, "exec": 14, "intel": 25, "all": 29}


def _url(server: TestServer) -> str:
    return f"{server.url}/{server.start.project_id}/v1/mcp"


def _headers(server: TestServer, key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "X-Xerotier-Workspace": server.start.workspace_id}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.contract("XM-10")
@pytest.mark.contract("XM-3")
async def test_every_tier_has_its_number_of_tools(sqlite_server: TestServer, era: str) -> None:
    for tier, count in TIERS.items():
        minted = await sqlite_server.mint(tier=tier, name=f"{tier} {era}")
        async with (
            httpx2.AsyncClient(headers=_headers(sqlite_server, minted.secret)) as http,
            Client(streamable_http_client(_url(sqlite_server), http_client=http), mode=era) as client,
        ):
            tools = (await client.list_tools()).tools
            assert len(tools) == count
            assert all(tool.name.startswith("xerotier.") for tool in tools)
            result = await client.call_tool("xerotier.calc.evaluate", {"expression": "6 * 7"})
            assert (result.structured_content or {})["result"] == 42


async def test_nothing_well_known_is_here(sqlite_server: TestServer) -> None:
    async with sqlite_server.stranger() as stranger:
        for path in ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration"):
            assert (await stranger.get(f"/.well-known/{path}")).status_code == 404
            answer = await stranger.get(f"/.well-known/{path}/{sqlite_server.start.project_id}/v1/mcp")
            assert answer.status_code == 404
        assert (await stranger.post(f"/{sqlite_server.start.project_id}/v1/mcp")).status_code == 401


@pytest.mark.contract("XM-22")
async def test_what_clients_declare_is_shown_beside_what_is_documented(server: TestServer) -> None:
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"sampling": {}, "roots": {"listChanged": True}},
        "clientInfo": {"name": "some-editor", "version": "9.1", "title": "Some Editor"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    async with server.client(**accept) as client:
        assert (await client.post(_url(server), json=body)).status_code == 200
        matrix = (await client.get("/api/clients")).json()
    seen = next(each for each in matrix["seen"] if each["name"] == "some-editor")
    assert (seen["version"], seen["title"], seen["protocol_version"]) == ("9.1", "Some Editor", "2025-06-18")
    assert (seen["sampling"], seen["elicitation"], seen["roots"]) == (True, False, True)
    documented = {each["client"] for each in matrix["documented"]}
    assert documented == {"claude-code", "opencode", "cursor", "vscode", "claude-desktop", "codex"}


async def test_what_another_organization_connected_is_not_shown(sqlite_server: TestServer) -> None:
    other = await sqlite_server.another_tenant()
    minted = await sqlite_server.mint(owner=other.owner, project_id=other.project_id)
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "theirs", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    async with sqlite_server.client(minted.secret, **headers) as client:
        url = f"{sqlite_server.url}/{other.project_id}/v1/mcp"
        assert (await client.post(url, json=body)).status_code == 200
    async with sqlite_server.client() as client:
        assert "theirs" not in str((await client.get("/api/clients")).json()["seen"])


async def test_a_stopping_server_ends_open_streams(sqlite_database: SqliteDatabase) -> None:
    async with httpx2.AsyncClient(timeout=30) as http:
        async with serving(sqlite_database) as server:
            headers = {**_headers(server, server.key), "Accept": "application/json, text/event-stream"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            opened = await http.post(_url(server), json=body, headers=headers)
            headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            request = http.build_request("GET", _url(server), headers=headers)
            stream = await http.send(request, stream=True)
        async with asyncio.timeout(20):
            try:
                await stream.aread()
            except httpx2.HTTPError:
                return
            finally:
                await stream.aclose()


async def test_the_page_of_tools_is_what_the_tools_say(sqlite_server: TestServer) -> None:
    written = (ROOT / "docs" / "tools.md").read_text()
    assert tools_page(sqlite_server.services.gateway.listed("mcp")) == written, (
        "run: holdfast mcp tools --markdown > docs/tools.md"
    )


async def test_the_list_is_small_enough_with_every_tool(sqlite_server: TestServer) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    async with sqlite_server.client(**headers) as client:
        info = {"name": "x", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        opened = await client.post(_url(sqlite_server), json=body)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        listed = await client.post(
            _url(sqlite_server), json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=session
        )
        tools = listed.json()["result"]["tools"]
    assert len(tools) == 29
    assert len(json.dumps(tools, ensure_ascii=False, separators=(",", ":"))) / 4 < 8_000
