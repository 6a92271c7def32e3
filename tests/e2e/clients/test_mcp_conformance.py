"""The official conformance suite, both requirement sets, through the product's own door."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from holdfast.storage.sqlite import SqliteDatabase
from tests.surfaces.mcp.fixtures import Fixtures
from tests.surfaces.mcp.harness import serve_asgi, serve_site
from tests.surfaces.mcp.proxy import KeyProxy

NODE = Path(__file__).parents[2] / "node" / "node_modules"
SUITE = NODE / "@modelcontextprotocol" / "conformance"


def required(revision: str) -> list[str]:
    """The scenarios that a server has to pass, as the suite has them."""
    listed = yaml.safe_load((SUITE / "requirements" / f"{revision}.yaml").read_text())["server"]
    return [each if isinstance(each, str) else each["name"] for each in listed]


@pytest.mark.slow
@pytest.mark.contract("XM-1")
@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 30), ("2026-07-28", 37)])
async def test_every_required_scenario_passes(sqlite_database: SqliteDatabase, revision: str, count: int) -> None:
    fixtures = Fixtures()
    async with serve_site(sqlite_database, annex=fixtures, more_tools=fixtures.tools) as site:
        fixtures.live = site.surface.live
        key = await site.key()
        async with site.client(key) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {tool.name for tool in fixtures.tools} < names
        async with serve_asgi(KeyProxy(site.surface, site.headers(key))) as root:
            passed, output = await run_suite(f"{root}/{site.project}/v1/mcp", revision)
    scenarios = required(revision)
    assert len(scenarios) == count
    assert sorted(set(scenarios) - passed) == [], output[-6000:]


async def run_suite(url: str, revision: str) -> tuple[set[str], str]:
    """The scenarios that passed, and all that the suite said."""
    process = await asyncio.create_subprocess_exec(
        str(NODE / ".bin" / "node"),
        str(SUITE / "dist" / "index.js"),
        "server",
        "--url",
        url,
        "--requirements",
        revision,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    raw, _ = await asyncio.wait_for(process.communicate(), 170)
    output = re.sub(r"\x1b\[[0-9;]*m", "", raw.decode())
    return set(re.findall(r"^✓ ([a-z0-9-]+): \d+ passed, 0 failed", output, re.MULTILINE)), output
