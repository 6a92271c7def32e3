"""Owns reading what a server says of its tools and gives as results, whatever the connection."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdfast.engines.mcp_client.base import CallResult, ServedTool, ServerFailed

MAX_TOOLS = 1_000
_MAX_PAGES = 50
_MAX_NAME = 256

AskPage = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


async def list_tools(server: str, ask: AskPage) -> tuple[ServedTool, ...]:
    """All tools over all pages; ServerFailed where there are absurdly many, or where they can't be told apart."""
    tools: dict[str, ServedTool] = {}
    seen: set[str] = set()
    params: dict[str, Any] = {}
    while True:
        page = await ask(params)
        listed = page.get("tools")
        if not isinstance(listed, list):
            raise ServerFailed(f"{server} answered tools/list without a list of tools.")
        for each in listed:
            tool = _tool(server, each)
            if tool.name in tools:
                raise ServerFailed(f"{server} lists two tools named {tool.name!r}; which one is meant can't be told.")
            tools[tool.name] = tool
        if len(tools) > MAX_TOOLS:
            raise ServerFailed(f"{server} lists more than {MAX_TOOLS:,} tools; no agent could choose among them.")
        cursor = page.get("nextCursor")
        if not cursor:
            return tuple(tools.values())
        if not isinstance(cursor, str) or cursor in seen or len(seen) >= _MAX_PAGES:
            raise ServerFailed(f"{server} lists its tools over pages without end.")
        seen.add(cursor)
        params = {"cursor": cursor}


def _tool(server: str, listed: Any) -> ServedTool:
    name = listed.get("name") if isinstance(listed, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise ServerFailed(f"{server} lists a tool without a name of 1 to {_MAX_NAME} characters.")
    schema, output, annotations = listed.get("inputSchema"), listed.get("outputSchema"), listed.get("annotations")
    if not isinstance(schema, dict):
        raise ServerFailed(f"{server} lists the tool {name!r} without an input schema.")
    title, description = listed.get("title"), listed.get("description")
    return ServedTool(
        name=name,
        title=title if isinstance(title, str) else None,
        description=description if isinstance(description, str) else "",
        input_schema=schema,
        output_schema=output if isinstance(output, dict) else None,
        annotations=annotations if isinstance(annotations, dict) else {},
    )


def call_result(server: str, answer: Mapping[str, Any]) -> CallResult:
    """What `tools/call` gave; ServerFailed where it is not shaped like a result."""
    if answer.get("resultType", "complete") != "complete":
        raise ServerFailed(f"{server} asks for more input in the middle of a call, which is not offered here.")
    content, structured = answer.get("content", []), answer.get("structuredContent")
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ServerFailed(f"{server} answered with content that is not a list of parts.")
    if structured is not None and not isinstance(structured, dict):
        raise ServerFailed(f"{server} answered with structured content that is not an object.")
    return CallResult(tuple(content), structured, answer.get("isError") is True)
