"""Owns the tour of the Python SDK 1.x; run by .cache/mcp1's Python, it prints what it saw as JSON."""

# mypy: ignore-errors
# Typed against the first major version, which this project does not install beside the second.

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

BRIEF = "xerotier://workspace/current/brief"


async def tour(session: Any, env: dict[str, Any], heard: list[str]) -> dict[str, Any]:
    seen: dict[str, Any] = {"failed": []}
    seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
    for name, arguments in env["calls"]:
        result = await session.call_tool(name, arguments)
        if result.isError or result.structuredContent is None:
            seen["failed"].append([name, str(result.content)])
    seen["sum"] = (await session.call_tool("test.add", {"left": 2, "right": 3})).structuredContent["total"]
    seen["asked"] = (await session.call_tool("test.ask", {"question": "Which?"})).structuredContent
    progress: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    slow = await session.call_tool("test.slow", {"left": 1}, progress_callback=note)
    seen["slow"], seen["progress"] = slow.structuredContent["total"], progress
    seen["prompts"] = []
    for prompt in (await session.list_prompts()).prompts:
        arguments = {argument.name: "barn" for argument in prompt.arguments or []}
        if (await session.get_prompt(prompt.name, arguments)).messages:
            seen["prompts"].append(prompt.name)
    seen["read"], cursor = 0, None
    while True:
        page = await session.list_resources(cursor)
        for resource in page.resources:
            seen["read"] += bool((await session.read_resource(resource.uri)).contents[0].text)
        cursor = page.nextCursor
        if cursor is None:
            break
    seen["templates"] = len((await session.list_resource_templates()).resourceTemplates)
    reference = types.ResourceTemplateReference(type="ref/resource", uri="xerotier://memory/{slug}")
    completed = await session.complete(reference, {"name": "slug", "value": ""})
    seen["completed"] = len(completed.completion.values)
    await session.subscribe_resource(AnyUrl(BRIEF))
    await session.call_tool("xerotier.memory.save", {"content": "Saved by the tour of the first SDK."})
    async with asyncio.timeout(10):
        while BRIEF not in heard:
            await asyncio.sleep(0.05)
    seen["heard"] = True
    await session.send_ping()
    try:
        await session.call_tool("test.stuck", {"left": 1}, read_timeout_seconds=timedelta(seconds=0.3))
        seen["cancelled"] = False
    except Exception:
        seen["cancelled"] = True
    return seen


async def main() -> None:
    env = json.loads(os.environ["TOUR"])
    headers = {"Authorization": f"Bearer {env['key']}", "X-Xerotier-Workspace": env["workspace"]}
    heard: list[str] = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"word": "yes"})

    async def hear(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ResourceUpdatedNotification
        ):
            heard.append(str(message.root.params.uri))

    async with (
        streamablehttp_client(env["url"], headers=headers) as (reading, writing, _),
        ClientSession(reading, writing, elicitation_callback=ask, message_handler=hear) as session,
    ):
        await session.initialize()
        sys.stdout.write(json.dumps(await tour(session, env, heard)))


asyncio.run(main())
