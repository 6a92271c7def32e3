"""Owns the proof that the Zero document's examples work as they stand there."""

import asyncio
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.server import TestServer

KEYS = {"uri", "name", "mimeType", "description"}


@pytest.fixture
async def case(server: TestServer) -> dict[str, Any]:
    async with server.client() as client:
        body = {"title": "Fix auth token expiry", "body": "Reproducing session token expiry " * 20, "kind": "bug"}
        answer = await client.post(f"/api/workspaces/{server.start.workspace_id}/cases", json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.mark.contract("ZE-1")
async def test_resources_are_listed_as_documented(server: TestServer, case: dict[str, Any]) -> None:
    async with server.client() as client:
        found = (await client.get("/mcp/resources")).json()
    assert list(found) == ["resources"]
    (listed,) = found["resources"]
    assert listed.keys() == KEYS
    assert (listed["uri"], listed["name"]) == (f"zero://cases/{case['id']}", "Fix auth token expiry")
    assert listed["mimeType"] == "application/json"
    assert listed["description"].startswith("OPEN — Reproducing session") and listed["description"].endswith(" …")


@pytest.mark.contract("ZE-1")
@pytest.mark.contract("ZE-2")
@pytest.mark.parametrize("kind", ["cases", "proofs"])
@pytest.mark.parametrize("encoded", [False, True])
async def test_a_resource_is_read_by_its_address_raw_and_encoded(
    server: TestServer, case: dict[str, Any], kind: str, encoded: bool
) -> None:
    uri = f"zero://{kind}/{case['id']}"
    path = f"{server.url}/mcp/resources/{quote(uri, safe='') if encoded else uri}"
    # curl sends what it is given; HTTP libraries may tidy a path up.
    command = f"curl -sS --fail -H {shlex.quote(f'Authorization: Bearer {server.key}')} {shlex.quote(path)}"
    ran = await _run(command)
    (content,) = json.loads(ran)["contents"]
    assert content.keys() == {"uri", "mimeType", "text"}
    assert (content["uri"], content["mimeType"]) == (uri, "application/json")
    record = json.loads(content["text"])
    if kind == "cases":
        assert (record["id"], record["state"], record["history"][0]["action"]) == (case["id"], "OPEN", "add")
    else:
        assert record == {"case_id": case["id"], "proofs": []}


@pytest.mark.contract("ZE-1")
async def test_tools_are_listed_with_the_documented_keys_and_schemas(server: TestServer) -> None:
    async with server.client() as client:
        tools = (await client.get("/mcp/tools")).json()["tools"]
    assert [tool["name"] for tool in tools] == [
        "zero_list_cases",
        "zero_get_case",
        "zero_run_session",
        "zero_claim_case",
        "zero_move_case",
        "zero_add_proof",
        "zero_run_proof",
    ]
    assert all(tool.keys() == {"name", "description", "inputSchema"} for tool in tools)
    assert [tool["description"] for tool in tools[:3]] == [
        "List all Work items with their state and title",
        "Get full details of a specific Work item by ID",
        "Run an agent session on a Work item with a given prompt",
    ]
    assert tools[0]["inputSchema"] == {"type": "object", "properties": {"state_filter": {"type": "string"}}}
    assert tools[1]["inputSchema"] == {
        "type": "object",
        "properties": {"case_id": {"type": "string"}},
        "required": ["case_id"],
    }
    assert tools[2]["inputSchema"] == {
        "type": "object",
        "properties": {"case_id": {"type": "string"}, "prompt": {"type": "string"}},
        "required": ["case_id", "prompt"],
    }


@pytest.mark.parametrize("below", ["resources", "tools", "resources/zero://cases/{id}"])
async def test_the_head_alone_has_the_length_of_the_whole(server: TestServer, case: dict[str, Any], below: str) -> None:
    async with server.client() as client:
        path = f"/mcp/{below.format(id=case['id'])}"
        whole, head = await client.get(path), await client.head(path)
    assert head.content == b"" and len(whole.content) > 2
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.content))


async def test_what_is_not_there_and_who_is_not_known_get_the_usual_answers(server: TestServer) -> None:
    async with server.stranger() as stranger, server.client() as client:
        for path in ("/mcp/resources", "/mcp/tools", "/mcp/resources/zero://cases/x", "/mcp"):
            assert (await stranger.get(path)).status_code == 401
        for path in (
            "/mcp/resources/zero://cases/case_1",
            "/mcp/resources/zero://nothing/x",
            "/mcp/resources/file:///etc/passwd",
            "/mcp/resources/xerotier://workspace/current/brief",
            "/mcp/other",
        ):
            assert (await client.get(path)).status_code == 404, path
        refused = await client.post("/mcp/resources", json={})
        assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


async def test_the_project_is_the_keys_and_the_header_narrows(server: TestServer, case: dict[str, Any]) -> None:
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Second")
    async with server.client() as client:
        made = await client.post(f"/api/workspaces/{other.id}/cases", json={"title": "In the second"})
    second = made.json()["id"]
    thieves = await server.another_tenant("Thieves")
    thief = await server.mint(owner=thieves.owner, project_id=thieves.project_id)
    confined = await server.mint("read", workspace_ids=frozenset({other.id}))
    async with (
        server.client() as whole,
        server.client(**{"X-Xerotier-Workspace": other.id}) as narrow,
        server.client(confined.secret) as reader,
        server.client(thief.secret) as stranger,
    ):
        assert await _ids(whole) == {case["id"], second}
        assert await _ids(narrow) == {second}
        assert await _ids(reader) == {second}
        assert await _ids(stranger) == set()
        for client in (narrow, reader, stranger):
            assert (await client.get(f"/mcp/resources/zero://cases/{case['id']}")).status_code == 404
        gone = await stranger.get("/mcp/resources", headers={"X-Xerotier-Workspace": other.id})
        assert gone.status_code == 404
        shown = (await reader.get("/mcp/tools")).json()["tools"]
        assert [tool["name"] for tool in shown] == ["zero_list_cases", "zero_get_case"]


async def _ids(client: httpx.AsyncClient) -> set[str]:
    found = (await client.get("/mcp/resources")).json()["resources"]
    return {each["uri"].removeprefix("zero://cases/") for each in found}


async def _run(command: str) -> bytes:
    process = await asyncio.create_subprocess_shell(command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0, command
    return out


def test_no_session_is_promised_before_there_are_agents() -> None:
    source = Path(__file__).parents[3] / "src/holdfast/features/cases"
    assert not any("zero_run_session" in file.read_text() for file in source.rglob("*.py"))
