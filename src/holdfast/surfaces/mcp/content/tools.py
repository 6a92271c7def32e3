"""Owns tools on the wire: the list that a key sees, calls and their results, and the two-tool catalog."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult

from holdfast.core.errors import Conflict, HoldfastError
from holdfast.core.principal import Principal
from holdfast.core.text import jsontext
from holdfast.core.tools.enrolled import MAX_LIST_CHARACTERS
from holdfast.core.tools.finding import FIND_TOOL
from holdfast.core.tools.gateway import Gateway, ToolRefused, ToolUnknown
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import AnyTool, Consumer, ToolCall
from holdfast.features.clients.service import Clients
from holdfast.surfaces.http.admission import WorkspaceFinder
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.content.asking import InputNeeded, asker
from holdfast.surfaces.mcp.content.placing import placing

CALL_TOOL = "call_tool"
COMPLETE = {"resultType": "complete"}
"""What the stateless revision wants on every result; the older ones are served without it."""

Context = ServerRequestContext[Any, Admitted]


class ToolHandlers:
    """Serves tools/list and tools/call from a gateway."""

    def __init__(
        self, gateway: Gateway, clients: Clients, workspaces: WorkspaceFinder | None, consumer: Consumer = "mcp"
    ) -> None:
        """Without `workspaces`, as for an organization's tools, every key sees the tools themselves, and none asks."""
        self._workspaces = workspaces
        self._consumer = consumer
        self._gateway = gateway
        self._clients = clients
        self._wire = {tool.name: tool.described() for tool in gateway.listed(self._consumer)}
        self._mirrored = {name: wire["inputSchema"] for name, wire in self._wire.items() if _mirrors(wire)}

    def listed(self, principal: Principal, enrolled: Sequence[AnyTool] = ()) -> dict[str, Any]:
        """The result of tools/list for this principal: ours, then as many enrolled tools as a context has room for."""
        if self._by_catalog(principal):
            return {"tools": _CATALOG, **COMPLETE}
        own = [self._wire[tool.name] for tool in self._gateway.visible(principal, self._consumer)]
        more = [tool.described() for tool in enrolled]
        if more:
            more = _within(MAX_LIST_CHARACTERS - _size(own), more)
        return {"tools": [*own, *more], **COMPLETE}

    async def enrolled(self, admitted: Admitted) -> Sequence[AnyTool]:
        """The tools of other servers that a request's workspace lists."""
        if self._workspaces is None or self._by_catalog(admitted.principal):
            return ()
        return await self._gateway.enrolled(admitted.principal, admitted.workspace_id)

    def param_schema(self, principal: Principal, name: str) -> Mapping[str, Any] | None:
        """The schema of a tool that mirrors arguments in headers."""
        return self._mirrored.get(name)

    async def call(self, ctx: Context, params: CallToolRequestParams) -> Any:
        """The result of tools/call: a tool's own errors are results that say so, for the model to act on."""
        name = params.name
        arguments: Mapping[str, Any] = params.arguments or {}
        consumer = self._consumer
        if self._workspaces is not None:
            # Also for a key that is shown the tools: those that its list has no room for are found like this.
            if name == CALL_TOOL:
                name, arguments = _chosen(arguments)
            elif name == FIND_TOOL:
                consumer = "catalog"
        try:
            outcome = await self._gateway.call(await self._call(ctx, params, consumer), name, arguments)
        except InputNeeded as pause:
            return pause.result
        except (ToolUnknown, ToolRefused) as error:
            raise MCPError(code=INVALID_PARAMS, message=error.message, data={"code": error.code}) from None
        except HoldfastError as error:
            return error_result(error)
        tool = self._gateway.get(name)
        if outcome.served is not None:
            return {**outcome.served, **COMPLETE}
        if tool is not None and issubclass(tool.output, CallToolResult):
            # A tool that speaks the protocol itself: its answer goes on as it is.
            return CallToolResult.model_validate(outcome.data)
        return _result(outcome)

    async def _call(self, ctx: Context, params: CallToolRequestParams, consumer: Consumer) -> ToolCall:
        admitted = _admitted(ctx)
        if self._workspaces is None:
            return ToolCall(admitted.principal, admitted.workspace_id, consumer, turn=ctx, progress=_progress(ctx))
        asking = asker(ctx, self._clients, params.input_responses, params.request_state)
        return ToolCall(
            principal=admitted.principal,
            workspace_id=admitted.workspace_id,
            consumer=consumer,
            project_id=admitted.project_id,
            session_id=admitted.session.id if admitted.session else None,
            turn=ctx,
            progress=_progress(ctx),
            ask=asking,
            send_to_page=asking.send_to_page,
            ask_model=asking.ask_model,
            bind=None if admitted.session is None else _binder(admitted, self._clients),
            place=placing(admitted, self._workspaces),
        )

    def _by_catalog(self, principal: Principal) -> bool:
        return principal.catalog_search and self._consumer == "mcp"


def error_result(error: HoldfastError) -> dict[str, Any]:
    """A failed call, in words that let a model mend it."""
    found = (f"{field.field}: {field.message}" for field in error.fields)
    lines = [error.message, *(f"- {line}" for line in found if line not in error.message)]
    return {**_error_text("\n".join(lines)), "_meta": {"holdfast/code": error.code}}


def _result(outcome: Outcome) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": outcome.text}]
    result: dict[str, Any] = {"content": content, "structuredContent": outcome.data, **COMPLETE}
    if outcome.spilled is not None:
        spilled = outcome.spilled
        content[0]["text"] += f"\n\n[Shortened. The whole result, {spilled.bytes} bytes, is at {spilled.uri}]"
        content.append({"type": "resource_link", "uri": spilled.uri, "name": spilled.artifact_id})
        result["_meta"] = {"holdfast/spilled": {"uri": spilled.uri, "artifact_id": spilled.artifact_id}}
    return result


def _error_text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True, **COMPLETE}


def _size(tools: Sequence[Mapping[str, Any]]) -> int:
    return len(jsontext.dumps(list(tools)).decode())


def _within(room: int, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools that fit; where not all do, the two that find and call the others come along."""
    if _size(tools) <= room:
        return tools
    room -= _size(_MORE)
    fitting: list[dict[str, Any]] = []
    for tool in tools:
        room -= _size([tool])
        if room < 0:
            break
        fitting.append(tool)
    return [*fitting, *_MORE]


def _chosen(arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    name, given = arguments.get("name"), arguments.get("arguments", {})
    if not isinstance(name, str) or not isinstance(given, dict):
        raise MCPError(code=INVALID_PARAMS, message="call_tool takes name (text) and arguments (an object).")
    return name, given


def _admitted(ctx: Context) -> Admitted:
    if ctx.request is None:
        raise AssertionError("every request was admitted")
    return ctx.request


def _progress(ctx: Context) -> Any:
    async def progress(done: float, total: float | None, message: str) -> None:
        await ctx.session.report_progress(done, total, message or None)

    return progress


def _binder(admitted: Admitted, clients: Clients) -> Any:
    async def bind(workspace_id: str) -> None:
        if admitted.session is None or workspace_id == admitted.workspace_id:
            return
        if admitted.is_pinned:
            raise Conflict(
                "The header X-Xerotier-Workspace pins this connection to another workspace; change the header instead."
            )
        await clients.bind(admitted.session, workspace_id)
        admitted.workspace_id = workspace_id

    return bind


def _mirrors(tool: Mapping[str, Any]) -> bool:
    return "x-mcp-header" in repr(tool["inputSchema"])


_CATALOG: list[dict[str, Any]] = [
    {
        "name": FIND_TOOL,
        "title": "Find a tool",
        "description": (
            "Find tools of this server by what they do. Use it first: the catalog is not listed. Gives names, "
            'descriptions and argument schemas. Example: {"query": "record a decision"}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want to do; empty for everything"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 20,
                    "default": 5,
                    "description": "How many at most",
                },
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    },
    {
        "name": CALL_TOOL,
        "title": "Call a tool",
        "description": (
            "Call a tool that find_tool named, with arguments that follow its schema. Gives that tool's result. "
            'Example: {"name": "xerotier.memory.recall", "arguments": {"query": "deploy steps"}}'
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name"},
                "arguments": {"type": "object", "description": "Its arguments"},
            },
            "required": ["name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": True,
        },
    },
]

_MORE: list[dict[str, Any]] = [
    {
        "name": FIND_TOOL,
        "title": "Find a tool",
        "description": 'Find tools that this list has no room for. Example: {"query": "create an issue"}',
        "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": CALL_TOOL,
        "title": "Call a tool",
        "description": 'Call a tool that find_tool named. Example: {"name": "git.git_status", "arguments": {}}',
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name"],
        },
        "annotations": {"readOnlyHint": False},
    },
]
