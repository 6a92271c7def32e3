"""`holdfast mcp`: the tools and the clients on the command line."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.features.clients.model import NewClient
from holdfast.main import cli
from holdfast.surfaces.cli.frame import ProgramEntry
from tests.support.services import Services, open_local


def _never(settings: Settings, announce: Callable[[Any], None]) -> None:
    raise AssertionError("no command here starts a server")


def _run(directory: Path, *words: str) -> str:
    @asynccontextmanager
    async def opens(data_dir: Path | None, begins: bool) -> AsyncIterator[tuple[Services, Principal]]:
        async with open_local(Settings(data_dir=directory)) as opened:
            yield opened

    result = CliRunner().invoke(cli, ["mcp", *words], obj=ProgramEntry(opens, _never), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tools_of_a_tier_are_listed(sqlite_path: Path) -> None:
    everything = json.loads(_run(sqlite_path.parent, "tools", "--json"))
    core = json.loads(_run(sqlite_path.parent, "tools", "--tier", "core", "--json"))
    assert (len(everything), len(core)) == (29, 10)
    assert {"name", "tier", "title", "writes", "description", "input_schema", "output_schema"} <= set(core[0])
    assert "xerotier.memory.save" in _run(sqlite_path.parent, "tools")


@pytest.mark.contract("XM-22")
def test_the_clients_that_came_are_listed_before_the_documented_ones(sqlite_path: Path) -> None:
    async def connect() -> None:
        async with open_local(Settings(data_dir=sqlite_path.parent)) as (services, principal):
            await services.clients.see(principal, NewClient("ed", "1.2", "2025-11-25", "Ed", {"elicitation": {}}))

    asyncio.run(connect())
    rows = json.loads(_run(sqlite_path.parent, "clients", "--json"))
    assert (rows[0]["client"], rows[0]["version"], rows[0]["elicitation"], rows[0]["sampling"]) == (
        "ed",
        "1.2",
        "yes",
        "no",
    )
    assert [row["source"] for row in rows] == ["declared here", *["documented"] * 6]
    assert "Claude Code" in _run(sqlite_path.parent, "clients")
