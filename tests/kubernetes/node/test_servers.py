"""Owns the proof that servers of governed calls are pods on a real node: kept warm, bounded, and gone when idle."""

import asyncio
from pathlib import Path
from typing import Any

from holdfast.core.settings import Settings
from holdfast.storage.sqlite import SqliteDatabase
from tests.kubernetes.node.conftest import PATIENCE_SECONDS, SETTINGS, objects
from tests.support.execution.counting import enrolled
from tests.surfaces.mcp.harness import serve_site


async def until_pods(count: int) -> list[dict[str, Any]]:
    """The servers' pods that are not on their way out, once there are so many."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [each for each in objects("pods") if "deletionTimestamp" not in each["metadata"]]
            if len(found) == count:
                return found
            await asyncio.sleep(0.3)


async def test_a_server_has_one_warm_pod_which_gives_way_to_another_and_ends_when_idle(
    sqlite_database: SqliteDatabase, tmp_path: Path, program: None
) -> None:
    settings = Settings(**SETTINGS, server_most=1, server_idle_seconds=20)
    async with serve_site(sqlite_database, data_dir=tmp_path, settings=settings) as site:
        await enrolled(site.services, site.owner, site.workspace)
        await enrolled(site.services, site.owner, site.workspace, "other")
        async with site.client(await site.key(tier="exec"), "legacy") as client:
            answers = [await client.call_tool("demo.add", {"left": 2, "right": right}) for right in (3, 4)]
            assert [each.structured_content for each in answers] == [{"total": 5}, {"total": 6}]
            (first,) = await until_pods(1)
            assert first["metadata"]["labels"]["holdfast.dev/kind"] == "server"
            again = await client.call_tool("demo.add", {"left": 2, "right": 5})
            assert again.structured_content == {"total": 7}
            assert [each["metadata"]["uid"] for each in await until_pods(1)] == [first["metadata"]["uid"]]
            assert (await client.call_tool("other.add", {"left": 1, "right": 1})).structured_content == {"total": 2}
            (second,) = await until_pods(1)
            assert second["metadata"]["uid"] != first["metadata"]["uid"]
            await until_pods(0)
