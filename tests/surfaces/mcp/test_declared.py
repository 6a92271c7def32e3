"""What a feature declares is served by the whole server: prompts, resources, and tools through the gateway."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from holdfast.features.audit.model import AuditFilter
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving
from tests.surfaces.mcp.conformance.data import PNG
from tests.surfaces.mcp.conformance.feature import FEATURE
from tests.surfaces.mcp.harness import ERAS

both_eras = pytest.mark.parametrize("era", ERAS)


@asynccontextmanager
async def _client(server: TestServer, key: str, era: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}", "X-Xerotier-Workspace": server.start.workspace_id}
    url = f"{server.url}/{server.start.project_id}/v1/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


@both_eras
async def test_prompts_and_resources_of_a_further_feature_stand_beside_the_products(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serving(sqlite_database, features=[FEATURE]) as server, _client(server, server.key, era) as client:
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert prompts[0] == "test_simple_prompt" and prompts[-1] == "save-this"
        image, words = (await client.get_prompt("test_prompt_with_image")).messages
        assert isinstance(image.content, types.ImageContent) and image.content.data == PNG
        assert isinstance(words.content, types.TextContent)
        uris = {str(each.uri) for each in (await client.list_resources()).resources}
        assert {"test://static-binary", "xerotier://workspace/current/brief"} < uris
        (binary,) = (await client.read_resource("test://static-binary")).contents
        assert isinstance(binary, types.BlobResourceContents)
        assert base64.b64decode(binary.blob).startswith(b"\x89PNG") and binary.mime_type == "image/png"
        (part,) = (await client.read_resource("test://template/7/data")).contents
        assert isinstance(part, types.TextResourceContents) and '"id": "7"' in part.text
        reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        assert (await client.complete(reference, {"name": "arg1", "value": "pari"})).completion.values == ["paris"]
        with pytest.raises(MCPError, match="needs the argument arg2"):
            await client.get_prompt("test_prompt_with_arguments", {"arg1": "x"})


@both_eras
@pytest.mark.one_process("a report lacks the other's last second")
async def test_the_tools_of_a_further_feature_pass_the_gate_and_the_gateway(
    sqlite_database: SqliteDatabase, era: str
) -> None:
    async with serving(sqlite_database, features=[FEATURE]) as server:
        async with server.stranger() as stranger:
            assert (await stranger.post(f"/{server.start.project_id}/v1/mcp")).status_code == 401
        async with _client(server, server.key, era) as client:
            assert not (await client.call_tool("test_simple_text", {})).is_error
            assert (await client.call_tool("test_error_handling", {})).is_error
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("test_no_such_tool", {})
        rows = await server.services.usage.report(server.owner, group_by=("source",))
        assert {row.source: row.amount for row in rows if row.kind == "tool_calls"} == {"mcp": 3}
        core = await server.mint("inference", tier="core")
        async with _client(server, core.secret, era) as client:
            with pytest.raises(MCPError, match="tier 'core'"):
                await client.get_prompt("brief")
        denied = await server.services.audit.list(server.owner, AuditFilter(action="prompts/get brief"))
        assert [event.outcome for event in denied.items] == ["denied"]
