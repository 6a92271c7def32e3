"""Both protocol eras on one endpoint, with the official Python SDK 2.x client."""

import pytest

from holdfast.storage.database import Database
from tests.surfaces.mcp.harness import ERAS, serve_site


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.contract("XM-1")
async def test_a_client_lists_and_calls_tools(database: Database, era: str) -> None:
    async with serve_site(database) as site:
        key = await site.key()
        async with site.client(key, era) as client:
            listed = await client.list_tools()
            names = [tool.name for tool in listed.tools]
            assert "test.add" in names and "xerotier.session.init" in names
            result = await client.call_tool("test.add", {"left": 2, "right": 3})
            assert result.structured_content == {"total": 5}
            assert not result.is_error
