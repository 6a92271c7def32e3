"""Owns the tour of the Zero mount by the Python SDK 1.x; run by .cache/mcp1's Python, it prints what it saw."""

# mypy: ignore-errors
# Typed against the first major version, which this project does not install beside the second.

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl


async def main() -> None:
    env = json.loads(os.environ["TOUR"])
    heard: list[str] = []

    async def hear(message: Any) -> None:
        params = getattr(getattr(message, "root", None), "params", None)
        if getattr(params, "uri", None) is not None:
            heard.append(str(params.uri))

    headers = {"Authorization": f"Bearer {env['key']}"}
    async with (
        streamablehttp_client(env["url"], headers=headers) as (read, write, _),
        ClientSession(read, write, message_handler=hear) as client,
    ):
        await client.initialize()
        seen: dict[str, Any] = {"tools": [tool.name for tool in (await client.list_tools()).tools]}
        seen["templates"] = [each.uriTemplate for each in (await client.list_resource_templates()).resourceTemplates]
        resources = (await client.list_resources()).resources
        seen["resources"] = [str(each.uri) for each in resources]
        uri = seen["resources"][0]
        content = (await client.read_resource(AnyUrl(uri))).contents[0]
        seen["read"] = json.loads(content.text)["title"]
        await client.subscribe_resource(AnyUrl(uri))
        case_id = uri.removeprefix("zero://cases/")
        claimed = await client.call_tool("zero_claim_case", {"case_id": case_id})
        fence = claimed.structuredContent["claim"]["fence"]
        proof = {"case_id": case_id, "kind": "reported", "outcome": "passed", "fence": fence}
        async with asyncio.timeout(20):
            while uri not in heard:
                await client.call_tool("zero_add_proof", proof)
                await asyncio.sleep(0.05)
        seen["heard"] = True
        moved = await client.call_tool("zero_move_case", {"case_id": case_id, "state": "PLANNING", "fence": fence})
        seen["state"] = moved.structuredContent["state"]
        refused = await client.call_tool("zero_move_case", {"case_id": case_id, "state": "DONE", "fence": fence})
        seen["refused"] = refused.isError and "IMPLEMENTING" in refused.content[0].text
    sys.stdout.write(json.dumps(seen))


asyncio.run(main())
