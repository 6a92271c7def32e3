"""Owns the tour of the Keystone mount by the Python SDK 1.x; run by .cache/mcp1's Python, it prints what it saw."""

# mypy: ignore-errors
# Typed against the first major version, which this project does not install beside the second.

import asyncio
import json
import os
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main() -> None:
    env = json.loads(os.environ["TOUR"])
    headers = {"Authorization": f"Bearer {env['key']}"}
    async with (
        streamablehttp_client(env["url"], headers=headers) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        server = (await session.initialize()).serverInfo
        seen = {"server": {"name": server.name, "version": server.version}, "results": []}
        seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        await session.send_ping()
        for name, arguments in env["calls"]:
            result = await session.call_tool(name, arguments)
            found = {"text": result.content[0].text, "structured": result.structuredContent, "failed": result.isError}
            seen["results"].append(found)
        sys.stdout.write(json.dumps(seen))


asyncio.run(main())
