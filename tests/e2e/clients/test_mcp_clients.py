"""Other people's clients against the product: Python SDK 1.x, TypeScript SDK 1.x and 2.x, the Inspector."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.harness import MODERN, Site, serve_site
from tests.surfaces.mcp.test_tools_served import CALLS

ROOT = Path(__file__).parents[3]
NODE = ROOT / "tests" / "node"
NODE_PROGRAM = str(NODE / "node_modules" / ".bin" / "node")

pytestmark = [pytest.mark.slow, pytest.mark.contract("XM-1")]


async def run(*command: str, env: dict[str, str] | None = None) -> str:
    """What a program printed; its complaints where it failed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=NODE,
        env={**os.environ, **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()[-3000:] + out.decode()[-2000:]
    return out.decode()


async def tour(site: Site, command: list[str], *, sdk: int, era: str = "legacy") -> dict[str, Any]:
    """Send a client around, with everything that it needs to know."""
    site.slow.go_on.set()
    env = {
        "url": site.url,
        "key": await site.key(),
        "workspace": site.workspace,
        "calls": CALLS,
        "sdk": sdk,
        "era": era,
    }
    return dict(json.loads(await run(*command, env={"TOUR": json.dumps(env)})))


async def check(site: Site, seen: dict[str, Any], client: str, version: str) -> None:
    """That it saw what there is, and that we saw it."""
    assert seen["failed"] == []
    assert {name for name, _ in CALLS} <= set(seen["tools"])
    assert seen["sum"] == 5
    assert seen["asked"] == {"answer": {"word": "yes"}}
    assert (seen["slow"], seen["progress"]) == (1, [1, 2])
    assert seen["prompts"] == ["session.init", "brief", "onboard", "save-this"]
    assert seen["read"] == 4
    assert seen["templates"] == 3
    assert seen["completed"] >= 1
    assert seen["heard"] is True
    assert seen["cancelled"] is True
    known = {(each.name, each.protocol_version): each for each in await site.clients.list(site.owner)}
    assert "elicitation" in known[client, version].capabilities


async def test_the_first_python_sdk(sqlite_database: SqliteDatabase) -> None:
    python = str(ROOT / ".cache" / "mcp1" / "bin" / "python")
    async with serve_site(sqlite_database) as site:
        seen = await tour(site, [python, str(Path(__file__).with_name("mcp1_tour.py"))], sdk=1)
        await check(site, seen, "mcp", "2025-11-25")


async def test_the_first_typescript_sdk(sqlite_database: SqliteDatabase) -> None:
    async with serve_site(sqlite_database) as site:
        seen = await tour(site, [NODE_PROGRAM, "mcp_sdk1.mjs"], sdk=1)
        await check(site, seen, "tour-ts-1", "2025-11-25")


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_the_second_typescript_sdk(sqlite_database: SqliteDatabase, era: str) -> None:
    async with serve_site(sqlite_database) as site:
        seen = await tour(site, [NODE_PROGRAM, "mcp_sdk2.mjs"], sdk=2, era=era)
        await check(site, seen, "tour-ts-2", "2025-11-25" if era == "legacy" else MODERN)


async def test_the_inspector(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    async with serve_site(sqlite_database) as site:
        key = await site.key()

        async def inspect(*more: str) -> Any:
            headers = [f"{name}: {value}" for name, value in site.headers(key).items()]
            options = [part for each in headers for part in ("--header", each)]
            program = str(NODE / "node_modules" / ".bin" / "mcp-inspector")
            command = [NODE_PROGRAM, program, "--cli", site.url, "--transport", "http", *options, *more]
            return json.loads(await run(*command, env={"HOME": str(tmp_path)}))

        tools = await inspect("--method", "tools/list", "--strict")
        assert "xerotier.memory.save" in {tool["name"] for tool in tools["tools"]}
        called = await inspect("--method", "tools/call", "--tool-name", "test.add", "--tool-arg", "left=4")
        assert called["structuredContent"] == {"total": 4}
        prompts = await inspect("--method", "prompts/list")
        assert len(prompts["prompts"]) == 4
        resources = await inspect("--method", "resources/list")
        assert len(resources["resources"]) >= 2
