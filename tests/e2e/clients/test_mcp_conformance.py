"""The official conformance suite, both requirement sets, against the whole server: its gate, admission and gateway."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from starlette.types import ASGIApp

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import serving
from tests.support.services import Start
from tests.surfaces.mcp.conformance.feature import FEATURE
from tests.surfaces.mcp.conformance.proxy import KeyProxy

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
    def with_a_key(app: ASGIApp, start: Start) -> ASGIApp:
        return KeyProxy(app, start.api_key or "", start.workspace_id)

    async with serving(sqlite_database, features=[FEATURE], around=with_a_key) as server:
        listed = {tool.name for tool in server.services.gateway.listed("mcp")}
        assert {"test_simple_text", "xerotier.memory.save"} < listed
        passed, output = await run_suite(f"{server.url}/{server.start.project_id}/v1/mcp", revision)
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
