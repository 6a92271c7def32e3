"""What an MCP server keeps in its own directory is there after a stop and a restart, bounded, gone with its entry."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.mcp_client.base import ServerFailed
from holdfast.features.catalog.model import CatalogEntry, NewEntry, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.catalog.servers.states import ServerStates
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.execution.counting import counting
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow


async def register(server: TestServer, new: NewEntry) -> CatalogEntry:
    services, workspace = server.services, server.start.workspace_id
    made = await services[ServerCatalog].register(server.owner, workspace, new)
    await services[ToolPins].probe(server.owner, workspace, new.name)
    await services[ToolPins].set(server.owner, workspace, new.name, "count", ToolChange(policy="auto"))
    return made


async def count(server: TestServer, name: str) -> None:
    workspace = server.start.workspace_id
    request = InvocationRequest(
        principal=server.owner, workspace_id=workspace, tool_name="demo.count", arguments={"name": name}, source="mcp"
    )
    asked = (await server.services[Execution].invoke(request)).invocation
    ended = await server.services[Execution].wait(
        server.owner, workspace, asked.id, seconds=60, until=lambda now: now.finished
    )
    assert ended.status == "succeeded", ended.error


def lines(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.iterdir() if path.is_file())


async def test_what_a_server_keeps_is_there_after_a_stop_a_change_and_a_restart_until_its_entry_goes(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    async with serving(sqlite_database, data_dir=tmp_path) as server:
        entry = await register(server, counting(COUNT_DIR="/work"))
        kept = tmp_path / "servers" / "state" / entry.id
        await count(server, "first")
        assert lines(kept) == 1 and kept.stat().st_mode & 0o077 == 0
        await server.services[ServerConnections].retire(entry.id)
        await count(server, "second")
        spec = replace(entry.spec, env={"COUNT_DIR": "/work", "MORE": "[]"})
        await server.services[ServerCatalog].change(server.owner, server.start.workspace_id, "demo", spec)
        await count(server, "third")
    async with serving(sqlite_database, data_dir=tmp_path) as server:
        await count(server, "fourth")
        assert lines(kept) == 4
        await server.services[ServerCatalog].reset(server.owner, server.start.workspace_id, "demo")
        assert not kept.exists()
        await count(server, "fifth")
        assert lines(kept) == 1
        await server.services[ServerCatalog].remove(server.owner, server.start.workspace_id, "demo")
        assert not kept.exists()


async def test_another_environment_does_not_see_what_the_entry_keeps(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    async with serving(sqlite_database, data_dir=tmp_path) as server:
        entry = await register(server, counting(COUNT_DIR="/work"))
        own = await server.services[ServerStarts].of(server.owner, entry.id)
        other = replace(own, durable=False)
        assert own.durable and own.key != other.key
        async with server.services[ServerConnections].connection(other) as connection:
            await connection.call("count", {"name": "elsewhere"})
        assert lines(tmp_path / "servers" / "state" / entry.id) == 0


async def test_a_server_that_keeps_more_than_it_may_is_stopped_and_says_so(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    async with serving(sqlite_database, data_dir=tmp_path, server_state_mb=1) as server:
        entry = await register(server, counting(COUNT_DIR="/work"))
        (tmp_path / "servers" / "state" / entry.id / "heap").write_bytes(b"x" * (2 << 20))
        start = await server.services[ServerStarts].of(server.owner, entry.id)
        with pytest.raises(ServerFailed, match="keeps more than 1 MiB in its directory"):
            async with server.services[ServerConnections].connection(start) as connection:
                await connection.call("slow", {"seconds": 60})


async def test_a_directory_whose_entry_is_gone_is_swept_away_at_the_next_start(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    async with serving(sqlite_database, data_dir=tmp_path) as server:
        entry = await server.services[ServerCatalog].register(server.owner, server.start.workspace_id, counting())
        states = server.services[ServerStates]
        kept, left = (states.mounted(id).source for id in (entry.id, "mcp_gone"))
    async with serving(sqlite_database, data_dir=tmp_path), asyncio.timeout(60):
        while left.exists():
            await asyncio.sleep(0.05)
        assert kept.is_dir()
