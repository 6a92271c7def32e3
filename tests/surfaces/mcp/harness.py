"""Owns what the MCP tests stand on: the product's own services and surface behind a real HTTP server, and clients."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, Field

from holdfast.core.access import RUN, RUN_INTEL, Access
from holdfast.core.clock import Clock, SystemClock
from holdfast.core.principal import SCOPES, Principal, Scope, Tier
from holdfast.core.settings import Settings
from holdfast.core.tools.gateway import Catalog
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.clients.service import Clients
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.server.mcp import build_mcp
from holdfast.server.tools import build_gateway
from holdfast.server.tools import catalog as product_catalog
from holdfast.storage.database import Database
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.mcp.surface import McpSurface
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, Start, background, build_services, first_start

MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)


class AddInput(BaseModel):
    left: int = Field(description="One number")
    right: int = Field(default=0, description="Another")


class AddOutput(BaseModel):
    total: int


class LongInput(BaseModel):
    characters: int


class LongOutput(BaseModel):
    text: str


class AskInput(BaseModel):
    question: str


class AskOutput(BaseModel):
    answer: dict[str, Any] | None


async def _add(call: ToolCall, given: AddInput) -> AddOutput:
    return AddOutput(total=given.left + given.right)


async def _stuck(call: ToolCall, given: AddInput) -> AddOutput:
    await asyncio.Event().wait()
    return AddOutput(total=0)


async def _long(call: ToolCall, given: LongInput) -> LongOutput:
    return LongOutput(text="x" * given.characters)


async def _ask(call: ToolCall, given: AskInput) -> AskOutput:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    return AskOutput(answer=await call.ask(given.question, schema))


@dataclass
class Slow:
    """A tool that says how far it is, and ends only when the test lets it."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def handler(self, call: ToolCall, given: AddInput) -> AddOutput:
        self.begun.set()
        try:
            await call.progress(1, 2, "half")
            await self.go_on.wait()
            await call.progress(2, 2, "done")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return AddOutput(total=given.left + given.right)


def _tool(name: str, input: type[BaseModel], output: type[BaseModel], handler: Any, access: Access = RUN) -> AnyTool:
    notes = Annotations(read_only=True, idempotent=True)
    return Tool(name, name, f"{name} of the tests", input, output, handler, notes, access)


@dataclass
class Site:
    """A running server and what a test does with it."""

    url: str
    services: Services
    clients: Clients
    surface: McpSurface
    start: Start
    slow: Slow
    owner: Principal
    root: str

    @property
    def workspace(self) -> str:
        return self.start.workspace_id

    @property
    def project(self) -> str:
        return self.start.project_id

    async def key(
        self,
        name: str = "agent",
        *,
        tier: Tier = "all",
        scopes: Sequence[Scope] = SCOPES,
        workspaces: Sequence[str] | None = None,
        catalog_search: bool = False,
        allow_destructive: bool = False,
    ) -> str:
        """A new key's secret."""
        new = NewKey(
            name=name,
            project_id=self.project,
            scopes=frozenset(scopes),
            tier=tier,
            workspace_ids=None if workspaces is None else frozenset(workspaces),
            allow_destructive=allow_destructive,
            catalog_search=catalog_search,
        )
        return (await self.services.keys.create(self.owner, new)).secret

    def headers(self, key: str, workspace: str | None = "", **more: str) -> dict[str, str]:
        """The headers of a configured client; `workspace` is the default one unless it is None or named."""
        found = {"Authorization": f"Bearer {key}", **more}
        if workspace is not None:
            found["X-Xerotier-Workspace"] = workspace or self.workspace
        return found

    @asynccontextmanager
    async def client(
        self, key: str, mode: str = "legacy", *, workspace: str | None = "", **options: Any
    ) -> AsyncIterator[Client]:
        """An SDK client in an era."""
        async with (
            httpx2.AsyncClient(headers=self.headers(key, workspace), timeout=30) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **options) as client,
        ):
            yield client

    @asynccontextmanager
    async def raw(self, key: str | None, *, workspace: str | None = "") -> AsyncIterator["Raw"]:
        """A client that sends exactly what a test wants."""
        headers = {} if key is None else self.headers(key, workspace)
        headers["Accept"] = "application/json, text/event-stream"
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            yield Raw(self.url, http)


@dataclass
class Raw:
    """Plain HTTP with the JSON-RPC envelope filled in."""

    url: str
    http: httpx2.AsyncClient
    session: str | None = None
    _id: int = 0

    async def initialize(self, version: str = "2025-11-25", capabilities: Mapping[str, Any] = {}) -> httpx2.Response:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": dict(capabilities), "clientInfo": info}
        answer = await self.request("initialize", params)
        self.session = answer.headers.get("mcp-session-id")
        return answer

    def envelope(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self._id += 1
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": self._id, "method": method}
        if params is not None:
            body["params"] = dict(params)
        return body

    def session_headers(self) -> dict[str, str]:
        return {} if self.session is None else {"Mcp-Session-Id": self.session}

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] = {}
    ) -> httpx2.Response:
        """A request of the handshake era."""
        return await self.post(self.envelope(method, params), headers)

    async def post(self, body: Any, headers: Mapping[str, str] = {}) -> httpx2.Response:
        return await self.http.post(self.url, json=body, headers={**self.session_headers(), **headers})

    def modern(
        self, method: str, params: Mapping[str, Any] = {}, **capabilities: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Body and headers of a request of the stateless era."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        body = self.envelope(method, {**params, "_meta": meta})
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        name = params.get("name") or params.get("uri")
        if isinstance(name, str):
            headers["Mcp-Name"] = name
        return body, headers

    async def modern_request(self, method: str, params: Mapping[str, Any] = {}, **capabilities: Any) -> httpx2.Response:
        body, headers = self.modern(method, params, **capabilities)
        return await self.http.post(self.url, json=body, headers=headers)


@asynccontextmanager
async def serve_asgi(app: Any) -> AsyncIterator[str]:
    """A real HTTP server on a free port, in this event loop."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    listener.setblocking(False)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", http="httptools", timeout_graceful_shutdown=2
    )
    server = _Quiet(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(20):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class _Quiet(uvicorn.Server):
    """Leaves the test runner's signals alone."""

    def capture_signals(self) -> Any:
        return nullcontext()


@asynccontextmanager
async def serve_site(
    database: Database,
    *,
    clock: Clock | None = None,
    recheck_seconds: float = 0.2,
    settings: Settings | None = None,
    data_dir: Path = NOWHERE,
    instead: Mapping[type[Any], object] = {},
) -> AsyncIterator[Site]:
    """The product's surface on a database, with the product's tools and a few of the tests' own."""
    settings = settings or Settings(mcp_calls_per_minute=600_000, requests_per_minute=600_000)
    settings = replace(settings, data_dir=data_dir, secrets_master_key=MASTER_KEY)
    clock = clock or SystemClock()
    services = build_services(settings, database, clock, WordEmbedder(64), instead=instead)
    async with background(services):
        start = await first_start(services)
        slow = Slow()
        own = [
            _tool("test.add", AddInput, AddOutput, _add),
            _tool("test.long", LongInput, LongOutput, _long),
            _tool("test.ask", AskInput, AskOutput, _ask),
            _tool("test.slow", AddInput, AddOutput, slow.handler),
            _tool("test.stuck", AddInput, AddOutput, _stuck),
            _tool("test.intel", AddInput, AddOutput, _add, RUN_INTEL),
        ]
        gateway = build_gateway(services, lambda: Catalog([*product_catalog(services).tools, *own]))
        authenticator = Authenticator(
            services.keys,
            services.sign_in,
            services.tokens,
            services.limiter,
            services.audit,
            settings.requests_per_minute,
        )
        surface = build_mcp(
            settings,
            services,
            authenticator,
            gateway,
            recheck_seconds=recheck_seconds,
        )
        async with surface.running(), serve_asgi(surface) as root:
            yield Site(
                url=f"{root}/{start.project_id}/v1/mcp",
                services=services,
                clients=services.clients,
                surface=surface,
                start=start,
                slow=slow,
                owner=local_principal(start.organization_id),
                root=root,
            )
            await surface.stop()


async def until(condition: Any, seconds: float = 20.0) -> None:
    """Wait, bounded, until a condition holds; it may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.02)
