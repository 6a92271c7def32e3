"""Other people's clients and a shell's curl against the Keystone mount, over a repository that was really read."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.test_mcp_clients import NODE_PROGRAM, ROOT, run
from tests.support.code.git import GitRepo
from tests.support.server import TestServer, serving
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository
from tests.surfaces.mcp.harness import MODERN

pytestmark = [pytest.mark.slow, pytest.mark.contract("KS-1")]

TOOLS = ["list_projects", "ask", "search_memory", "get_project_status"]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_projects", {}),
    ("get_project_status", {"projectSlug": "my-api"}),
    ("search_memory", {"projectSlugs": ["my-api"], "query": "why are sessions kept in the database"}),
    ("ask", {"projectSlugs": ["my-api"], "question": WHY}),
    ("get_project_status", {"projectSlug": "nobodys"}),
]


async def tour(server: TestServer, command: list[str], *, sdk: int, era: str = "legacy") -> None:
    """Send a client around, and see that it saw what there is."""
    env = {"url": f"{server.url}/api/mcp", "key": server.key, "calls": CALLS, "sdk": sdk, "era": era}
    seen = json.loads(await run(*command, env={"TOUR": json.dumps(env)}))
    assert seen["tools"] == TOOLS
    assert (seen["server"]["name"], seen["server"]["version"]) == ("keystone", "1.0.0")
    projects, status, matches, answer, unknown = seen["results"]
    assert json.loads(projects["text"]) == projects["structured"]["projects"]
    assert json.loads(projects["text"])[0]["slug"] == "my-api"
    assert json.loads(status["text"]) == status["structured"] and status["structured"]["ingestionCompleted"] is True
    assert json.loads(matches["text"]) == matches["structured"]["matches"]
    assert "revoked" in matches["structured"]["matches"][0]["content"]
    assert "[1]" in answer["text"] and "revoked" in answer["text"] and not answer["failed"]
    assert unknown["failed"] and "list_projects" in unknown["text"]


@pytest.fixture
def repository(tmp_path: Path) -> GitRepo:
    return small_repository(tmp_path / "my-api")


async def test_every_sdk_in_the_field(sqlite_database: SqliteDatabase, sqlite_path: Path, repository: GitRepo) -> None:
    python = str(ROOT / ".cache" / "mcp1" / "bin" / "python")
    async with serving(sqlite_database, data_dir=sqlite_path.parent) as server:
        await ingest(server.services, server.owner, server.start.workspace_id, repository, "my-api")
        await tour(server, [python, str(Path(__file__).with_name("keystone_tour1.py"))], sdk=1)
        await tour(server, [NODE_PROGRAM, "keystone_tour.mjs"], sdk=1)
        await tour(server, [NODE_PROGRAM, "keystone_tour.mjs"], sdk=2)
        await tour(server, [NODE_PROGRAM, "keystone_tour.mjs"], sdk=2, era=MODERN)
        seen = {(each.name, each.protocol_version) for each in await server.services.clients.list(server.owner)}
        assert {("keystone-ts-1", "2025-11-25"), ("keystone-ts-2", MODERN)} <= seen


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_a_shell_with_curl(sqlite_database: SqliteDatabase, sqlite_path: Path, repository: GitRepo) -> None:
    async with serving(sqlite_database, data_dir=sqlite_path.parent) as server:
        await ingest(server.services, server.owner, server.start.workspace_id, repository, "my-api")
        call = {"name": "ask", "arguments": {"projectSlugs": ["my-api"], "question": WHY}}
        body = json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call})
        headers = ["-H", f"Authorization: Bearer {server.key}", "-H", "Content-Type: application/json"]
        said = await run("curl", "-sS", "--noproxy", "*", f"{server.url}/api/mcp", *headers, "-d", body)
        answer = json.loads(said)
        assert answer["id"] == 3 and "revoked" in answer["result"]["content"][0]["text"]


async def test_a_client_that_was_set_up_by_the_command_lists_the_projects(
    sqlite_database: SqliteDatabase, sqlite_path: Path, repository: GitRepo, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with serving(sqlite_database, data_dir=sqlite_path.parent) as server:
        await ingest(server.services, server.owner, server.start.workspace_id, repository, "my-api")
        command = [sys.executable, "-m", "holdfast", "mcp", "setup", "claude-code", "--surface", "keystone"]
        where = ["--write", str(project), "--data-dir", str(sqlite_path.parent), "--url", server.url]
        await run(*command, *where)
        entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["keystone"]
        async with server.stranger() as stranger:
            call = {"name": "list_projects", "arguments": {}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            answer = await stranger.post(entry["url"], json=body, headers=entry["headers"])
        assert json.loads(answer.json()["result"]["content"][0]["text"])[0]["slug"] == "my-api"
