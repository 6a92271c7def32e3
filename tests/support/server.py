"""Owns a real server for tests: every service, behind the gate, on a free port of this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.principal import SCOPES, Principal, Scope, Tier
from holdfast.core.settings import Settings
from holdfast.features.identity.model import MintedKey, NewKey
from holdfast.features.identity.service import local_principal
from holdfast.registry.feature import Feature
from holdfast.server.lifecycle import configuration
from holdfast.server.routes import build_gate
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, Start, background, build_services, first_start
from tests.support.stores.workers import WORKERS, another, in_turns, ownership


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization of its own with a project, a workspace and keys."""

    organization_id: str
    project_id: str
    workspace_id: str
    owner: Principal


@dataclass(frozen=True, slots=True)
class TestServer:
    """A started server and its first tenant. `key` has every scope."""

    __test__ = False

    url: str
    key: str
    start: Start
    services: Services

    @property
    def owner(self) -> Principal:
        return local_principal(self.start.organization_id)

    async def link(self, user_id: str, owner: Principal | None = None) -> str:
        """The secret of a sign-in link, as the operator makes one."""
        return (await self.services.sign_in.new_link(owner or self.owner, user_id)).secret

    async def browser(self, user_id: str, owner: Principal | None = None) -> httpx.AsyncClient:
        """An HTTP client of a signed-in person: the session's cookie, and its token for changes."""
        signed_in = await self.services.sign_in.by_link(await self.link(user_id, owner))
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"X-CSRF-Token": signed_in.session.csrf},
            cookies={"holdfast_session": signed_in.cookie},
            timeout=60,
            trust_env=False,
        )

    def client(self, key: str | None = None, **headers: str) -> httpx.AsyncClient:
        """An HTTP client with a key (the first one where none is given)."""
        headers.setdefault("Authorization", f"Bearer {key or self.key}")
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    def stranger(self) -> httpx.AsyncClient:
        """An HTTP client that has no credential."""
        return httpx.AsyncClient(base_url=self.url, timeout=60, trust_env=False)

    async def mint(
        self,
        *scopes: Scope,
        tier: Tier = "all",
        owner: Principal | None = None,
        project_id: str | None = None,
        workspace_ids: frozenset[str] | None = None,
        **more: Any,
    ) -> MintedKey:
        """Another project key."""
        new = NewKey(
            name=more.pop("name", "test"),
            project_id=project_id or self.start.project_id,
            scopes=frozenset(scopes or SCOPES),
            tier=tier,
            workspace_ids=workspace_ids,
            **more,
        )
        return await self.services.keys.create(owner or self.owner, new)

    async def another_tenant(self, name: str = "Other") -> Tenant:
        """A second organization, with nothing in common with the first."""
        organization = await self.services.identity.create_organization(self.owner, name)
        owner = local_principal(organization.id)
        project = await self.services.identity.create_project(owner, name)
        workspace = await self.services.workspaces.create(owner, project.id, name)
        return Tenant(organization.id, project.id, workspace.id, owner)


@asynccontextmanager
async def serving(
    database: Database,
    *,
    clock: Clock | None = None,
    data_dir: Path | None = None,
    features: Sequence[Feature] = (),
    around: Callable[[ASGIApp, Start], ASGIApp] = lambda app, start: app,
    instead: Mapping[type[Any], object] = {},
    workers: int = WORKERS,
    **settings: Any,
) -> AsyncIterator[TestServer]:
    """A server on this event loop, with a deterministic embedder; settings as an operator would set them.

    `features` come after the product's own; `around` stands between the connections and the gate; `instead` takes the
    place of what would be built. Of several `workers` each request reaches the next.
    """
    settings.setdefault("secrets_master_key", MASTER_KEY)
    settings.setdefault("shutdown_seconds", 2.0)
    configured = Settings(data_dir=data_dir or NOWHERE, port=0, workers=workers, **settings)
    services = build_services(configured, database, clock or SystemClock(), WordEmbedder(), features, instead)
    # With its protocol named, asyncio sends at once; without, an answer may wait 40 ms for the one before.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with AsyncExitStack() as running:
            await running.enter_async_context(background(services, ownership(database, workers)))
            start = await first_start(services)
            gates = [build_gate(configured, services, url)]
            for _ in range(1, workers):
                store = another(database)
                running.push_async_callback(store.close)
                other = build_services(configured, store, clock or SystemClock(), WordEmbedder(), features, instead)
                await running.enter_async_context(background(other, ownership(store, workers)))
                await other.search.load()
                gates.append(build_gate(configured, other, url))
                for made in (other.models, other.web, other.git):
                    running.push_async_callback(made.close)
            gate = gates[0]
            config = configuration(configured, gate)
            config.app = around(gate if workers == 1 else in_turns(gates), start)
            server = _QuietServer(config)
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await server.listening.wait()
            # As after a start's first second: what is saved has its vector at once.
            await services.search.load()
            try:
                yield TestServer(url, start.api_key or "", start, services)
            finally:
                server.should_exit = True
                await task
                await services.models.close()
                await services.web.close()
                await services.git.close()


class _QuietServer(uvicorn.Server):
    """Leaves the process's signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
