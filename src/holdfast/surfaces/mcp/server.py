"""Owns the SDK's low-level server: our handlers, and the middleware that every request of both eras goes through."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import holdfast
from holdfast.core.errors import NotFound
from holdfast.core.tools.gateway import seen_as
from holdfast.core.tools.tool import Consumer
from holdfast.features.clients.service import Clients
from holdfast.registry.methods import Method, Methods
from holdfast.registry.prompts import PromptRefused, Prompts, PromptUnknown
from holdfast.registry.resources import ResourceRefused, Resources
from holdfast.surfaces.mcp.admission import Admitted, McpAdmission
from holdfast.surfaces.mcp.content.asking import STATE_SECONDS
from holdfast.surfaces.mcp.content.prompts import PromptHandlers
from holdfast.surfaces.mcp.content.resources import ResourceHandlers
from holdfast.surfaces.mcp.content.tools import Context, ToolHandlers
from holdfast.surfaces.mcp.transport.exchange import AnyServer
from holdfast.surfaces.mcp.transport.listening import Listening
from holdfast.surfaces.mcp.transport.wire import NOT_FOUND

INSTRUCTIONS = (
    "Holdfast is this project's shared memory: what people and agents decided, learned and made. "
    "Before you ask the user about the project, look: xerotier.memory.search for anything, "
    "xerotier.intelligence.brief for the state of things. When something is decided or learned that the next "
    "session needs, save it with xerotier.memory.save or xerotier.intelligence.track_decision. "
    "If a tool says that no workspace is bound, call xerotier.session.init, or name one in each call "
    "as workspace (id or slug). Where find_tool is listed, there are more tools than the list shows, those of the "
    "workspace's MCP servers among them: find one by what it does, and run it with call_tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """What a place where MCP is served says of itself, and whose tools are there."""

    name: str
    title: str
    instructions: str
    consumer: Consumer = "mcp"
    has_prompts: bool = True


XEROTIER = Mount(name="holdfast", title="Holdfast", instructions=INSTRUCTIONS)
MAX_URI = 2_000
MAX_COMPLETIONS = 100
MAX_COMPLETED = 200
"""What nobody's name is longer than."""


class Handlers:
    """Every method we serve."""

    def __init__(
        self,
        tools: ToolHandlers,
        prompts: PromptHandlers,
        resources: ResourceHandlers,
        completing: "Completing",
        clients: Clients,
        doorkeeper: McpAdmission,
    ) -> None:
        self._tools = tools
        self._prompts = prompts
        self._resources = resources
        self._completing = completing
        self._clients = clients
        self._doorkeeper = doorkeeper

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams | None) -> Any:
        _refuse_cursor(params)
        admitted = _admitted(ctx)
        return self._tools.listed(admitted.principal, await self._tools.enrolled(admitted))

    async def enrolled(self, admitted: Admitted) -> Sequence[object]:
        return await self._tools.enrolled(admitted)

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> Any:
        return await self._tools.call(ctx, params)

    async def list_prompts(self, ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        _refuse_cursor(params)
        return ListPromptsResult(prompts=self._prompts.listed(_admitted(ctx).principal))

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> Any:
        try:
            return await self._prompts.get(ctx, _admitted(ctx), params)
        except PromptUnknown as unknown:
            raise MCPError(code=INVALID_PARAMS, message=unknown.message) from None
        except PromptRefused as refused:
            await self._doorkeeper.denied(_admitted(ctx).principal, f"prompts/get {params.name[:80]}", refused)
            raise MCPError(code=INVALID_PARAMS, message=refused.message) from None

    async def list_resources(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await self._resources.listed(_admitted(ctx), params.cursor if params else None)

    async def list_templates(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        _refuse_cursor(params)
        return ListResourceTemplatesResult(resource_templates=self._resources.templates(_admitted(ctx).principal))

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        try:
            return await self._resources.read(_admitted(ctx), uri)
        except NotFound:
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND
            message = f"Resource not found: {uri[:200]}"
            raise MCPError(code=code, message=message, data={"uri": uri[:500]}) from None
        except ResourceRefused as refused:
            await self._doorkeeper.denied(_admitted(ctx).principal, f"resources/read {uri[:200]}", refused)
            raise MCPError(code=INVALID_PARAMS, message=refused.message) from None

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        admitted, uri = _admitted(ctx), str(params.uri)
        if admitted.session is None:
            raise MCPError(code=INVALID_REQUEST, message="Subscriptions need a session.")
        if len(uri) > MAX_URI or not self._resources.watchable(admitted.principal, uri):
            raise MCPError(code=INVALID_PARAMS, message=f"Resource not found: {uri[:200]}")
        await self._clients.subscribe(admitted.session.id, uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        admitted = _admitted(ctx)
        if admitted.session is not None:
            await self._clients.unsubscribe(admitted.session.id, str(params.uri))
        return EmptyResult()

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        found = await self._completing.found(_admitted(ctx), params)
        return CompleteResult(completion=Completion(values=list(found)[:MAX_COMPLETIONS], total=len(found)))


class Completing:
    """Completes what prompts and templates of resources take."""

    def __init__(self, prompts: Prompts, resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources

    async def found(self, admitted: Admitted, params: CompleteRequestParams) -> Sequence[str]:
        """What begins like the value, in the bound workspace."""
        if admitted.workspace_id is None:
            return ()
        reference, argument = params.ref, params.argument
        complete, named = (
            (self._prompts.complete, reference.name)
            if isinstance(reference, PromptReference)
            else (self._resources.complete, str(reference.uri))
        )
        value = argument.value[:MAX_COMPLETED]
        return await complete(admitted.principal, admitted.workspace_id, named, argument.name, value)


class ListingCache:
    """Keeps the wire form of tools/list: it is the largest answer, the same for every key of a kind."""

    def __init__(self, enrolled: Callable[[Admitted], Awaitable[Sequence[object]]] | None = None) -> None:
        """`enrolled` gives the tools that the list has beside those that are the same for every key of a kind."""
        self._enrolled = enrolled
        self._kept: dict[tuple[object, ...], dict[str, Any]] = {}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/list" or ctx.request_id is None or (ctx.params or {}).get("cursor") is not None:
            return await call_next(ctx)
        if self._enrolled is not None and await self._enrolled(_admitted(ctx)):
            return await call_next(ctx)
        principal = _admitted(ctx).principal
        key = (ctx.protocol_version, principal.catalog_search, *seen_as(principal))
        kept = self._kept.get(key)
        if kept is None:
            result = await call_next(ctx)
            if not isinstance(result, dict):
                return result
            # Ready to be written: turning so much into JSON anew would cost as much as a call.
            kept = self._kept[key] = {**result, "tools": orjson.Fragment(orjson.dumps(result["tools"]))}
        return kept


def build_server(
    handlers: Handlers,
    listening: Listening,
    state_key: bytes,
    methods: Methods,
    *,
    mount: Mount = XEROTIER,
    with_tracing: bool,
) -> AnyServer:
    """The server that both eras run requests through."""
    hint = CacheHint(ttl_ms=60_000, scope="private")
    server: Server[Any] = _DecidedServer(
        mount.name,
        version=holdfast.__version__,
        title=mount.title,
        instructions=mount.instructions,
        cache_hints={"tools/list": hint, "prompts/list": hint, "resources/templates/list": hint},
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts if mount.has_prompts else None,
        on_get_prompt=handlers.get_prompt if mount.has_prompts else None,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=listening,
        on_completion=handlers.complete,
    )
    if not with_tracing:
        server.middleware.clear()
    security = RequestStateSecurity(keys=[state_key], ttl=STATE_SECONDS, bind_principal=_bound_to)
    server.middleware.append(RequestStateBoundary(security, default_audience="holdfast"))
    server.middleware.append(ListingCache(handlers.enrolled))
    for method in methods.all.values():
        server.add_request_handler(method.name, RequestParams, _answering(method))
    return server


def _answering(method: Method) -> Callable[[Context, RequestParams], Awaitable[dict[str, Any]]]:
    async def answer(ctx: Context, params: RequestParams) -> dict[str, Any]:
        return dict(await method.answer(_admitted(ctx).principal, ctx.params or {}))

    return answer


class _DecidedServer(Server[Any]):
    """Tells at the handshake, too, that lists change: a key's tier can."""

    def create_initialization_options(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("notification_options", NotificationOptions(True, True, True))
        return super().create_initialization_options(*args, **kwargs)


def _bound_to(ctx: ServerRequestContext[Any, Any]) -> str:
    """A request state is good only for the credential and the workspace that it was made for."""
    admitted = _admitted(ctx)
    return f"{admitted.principal.actor} {admitted.project_id} {admitted.workspace_id}"


def _admitted(ctx: ServerRequestContext[Any, Any]) -> Admitted:
    if not isinstance(ctx.request, Admitted):
        raise AssertionError("every request was admitted")
    return ctx.request


def _refuse_cursor(params: PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message="This list has one page; leave the cursor out.")
