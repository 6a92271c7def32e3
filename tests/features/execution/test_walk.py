"""The thinnest whole path: an entry, a probe, a call over MCP, its result."""

from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.execution.counting import enrolled
from tests.surfaces.mcp.harness import ERAS, serve_site


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_registered_servers_tool_answers_through_mcp(
    sqlite_database: SqliteDatabase, tmp_path: Path, era: str
) -> None:
    async with serve_site(sqlite_database, data_dir=tmp_path) as site:
        probed = await enrolled(site.services, site.owner, site.workspace)
        assert [tool.xem_name for tool in probed.tools][:2] == ["demo.add", "demo.count"]
        async with site.client(await site.key(tier="exec"), era) as client:
            asked = {"tool_name": "demo.add", "arguments": {"left": 2, "right": 3}}
            result = await client.call_tool("xerotier.exec.invoke_blocking", asked)
            print(result)
            assert result.structured_content is not None
            assert result.structured_content["status"] == "succeeded"
            assert result.structured_content["result"]["structuredContent"] == {"total": 5}
            direct = await client.call_tool("demo.add", {"left": 2, "right": 4})
            assert direct.structured_content == {"total": 6}
