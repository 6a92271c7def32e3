"""Owns the SDK's server of the Keystone mount: tools and nothing else, introduced as its clients expect."""

from collections.abc import Mapping
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    PaginatedRequestParams,
    ServerCapabilities,
    ToolsCapability,
)
from mcp_types.version import is_version_at_least

from holdfast.surfaces.mcp.content.tools import Context, ToolHandlers
from holdfast.surfaces.mcp.server import ListingCache
from holdfast.surfaces.mcp.transport.exchange import AnyServer

NAME, VERSION = "keystone", "1.0.0"
DOCUMENTED = "2025-03-26"
"""The revision whose handshake is documented to the letter; instructions came into use with later ones."""
STRUCTURED = "2025-06-18"
"""The revision that brought titles and structured results."""
INSTRUCTIONS = (
    "Keystone remembers the history of this organization's repositories: commits, pull requests, issues, docs, code. "
    "Call list_projects once to learn the slugs. Before you change code that you do not know, use ask with a question "
    "in plain words, naming every project that it concerns; use search_memory when you want to read the sources "
    "yourself, and get_project_status when answers seem thin or old."
)


def build_keystone_server(tools: ToolHandlers, *, with_tracing: bool) -> AnyServer:
    """The server that both eras run requests through."""

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> Any:
        if params is not None and params.cursor is not None:
            raise MCPError(code=INVALID_PARAMS, message="This list has one page; leave the cursor out.")
        if ctx.request is None:
            raise AssertionError("every request was admitted")
        return tools.listed(ctx.request.principal)

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> Any:
        return await tools.call(ctx, params)

    server: Server[Any] = _KeystoneServer(
        NAME,
        version=VERSION,
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=60_000, scope="private")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    if not with_tracing:
        server.middleware.clear()
    # The list is kept in the words of each revision: what is nearer to the handlers goes last.
    server.middleware.append(ListingCache())
    server.middleware.append(_as_documented)
    return server


class _KeystoneServer(Server[Any]):
    """Serves four tools that do not change, and says so in the fewest words."""

    def get_capabilities(self, *_: Any, **__: Any) -> ServerCapabilities:
        return ServerCapabilities(tools=ToolsCapability())


async def _as_documented(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Leave out what a revision does not know: a program may have been written to the letter of it."""
    result = await call_next(ctx)
    if not isinstance(result, dict):
        return result
    if ctx.method == "initialize" and result.get("protocolVersion") == DOCUMENTED:
        return _without(result, "instructions")
    if is_version_at_least(ctx.protocol_version, STRUCTURED):
        return result
    if ctx.method == "tools/list":
        return {**result, "tools": [_without(tool, "title", "outputSchema") for tool in result["tools"]]}
    return _without(result, "structuredContent") if ctx.method == "tools/call" else result


def _without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name not in names}
