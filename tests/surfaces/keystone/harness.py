"""Owns what the Keystone tests stand on: the product's services and its mount behind a real HTTP server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal, Scope
from holdfast.core.settings import Settings
from holdfast.engines.search import Entry
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.features.repositories import store
from holdfast.features.repositories.model import Repository
from holdfast.server.keystone import build_keystone
from holdfast.storage.database import Database
from holdfast.surfaces.http.authentication import Authenticator
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, Start, background, build_services, first_start
from tests.surfaces.mcp.harness import MODERN, serve_asgi

PATH = "/api/mcp"
DOCUMENTED = "2025-03-26"


@dataclass
class Keystone:
    """A running mount and what a test does with it."""

    url: str
    services: Services
    start: Start
    clock: Clock

    @property
    def owner(self) -> Principal:
        return local_principal(self.start.organization_id)

    async def key(self, *scopes: Scope, owner: Principal | None = None, **more: Any) -> str:
        """An organization's key; a project's where one is named."""
        kind: Any = "project" if "project_id" in more else "organization"
        new = NewKey(name="agent", kind=kind, scopes=frozenset(scopes or ("inference",)), **more)
        return (await self.services.keys.create(owner or self.owner, new)).secret

    async def add(self, slug: str, *texts: str, owner: Start | None = None, **known: Any) -> Repository:
        """A repository as a sync would leave it, with these texts as its commits."""
        now, start = self.clock.now(), owner or self.start
        made = Repository(
            id=new_id("repo"),
            organization_id=start.organization_id,
            project_id=start.project_id,
            workspace_id=known.pop("workspace_id", start.workspace_id),
            slug=slug,
            name=known.pop("name", slug.replace("-", " ").title()),
            location=f"https://github.com/acme/{slug}.git",
            is_local=False,
            host="github",
            full_name=f"acme/{slug}",
            state="ready",
            ingested=True,
            last_synced_at=now,
            synthesis_status="completed",
            synthesis_progress=100,
            synthesised_at=now,
            entries=len(texts),
            created_by="local",
            created_by_name="local",
            created_at=now,
            updated_at=now,
        )
        # Passages with a vector, beside those that have words of their own.
        texts = (*texts, *(f"Passage {number}" for number in range(len(texts), known.pop("vectors", 0))))
        made = replace(made, **{"entries": len(texts), **known})
        entries = [self._commit(made, number, text) for number, text in enumerate(texts)]
        vectors = await self.services.search.embed([entry.text for entry in entries])

        def work(tx: Any) -> None:
            assert store.insert(tx, made)
            if entries:
                self.services.search.put(tx, entries, vectors)

        await self.services.database.write(work)
        return made

    @staticmethod
    def _commit(repository: Repository, number: int, text: str) -> Entry:
        sha = f"{number:040x}"
        return Entry(
            workspace_id=repository.workspace_id,
            type="commit",
            id=f"{repository.id}/{sha}",
            collection=repository.id,
            title=text.splitlines()[0],
            text=text,
            learned_at=repository.created_at,
            occurred_at=repository.created_at,
            author="Ada Lovelace",
            meta={"repository": repository.slug, "sha": sha, "files": ["src/app.py"]},
        )

    @asynccontextmanager
    async def http(self, key: str | None, **headers: str) -> AsyncIterator["Plain"]:
        """A program that knows only the document."""
        if key is not None:
            headers.setdefault("Authorization", f"Bearer {key}")
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
            yield Plain(self.url, client)

    @asynccontextmanager
    async def client(self, key: str, era: str) -> AsyncIterator[Client]:
        """The SDK's own client in an era."""
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era) as client,
        ):
            yield client


@dataclass
class Plain:
    """JSON-RPC over HTTP, with the envelope filled in."""

    url: str
    client: httpx2.AsyncClient
    _id: int = 0

    async def send(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] = {}
    ) -> httpx2.Response:
        """One request."""
        self._id += 1
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": self._id, "method": method}
        if params is not None:
            body["params"] = dict(params)
        return await self.client.post(self.url, json=body, headers=dict(headers))

    async def initialize(self, version: str = DOCUMENTED) -> httpx2.Response:
        info = {"name": "claude-code", "version": "1.0"}
        return await self.send("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, headers: Mapping[str, str] = {}
    ) -> httpx2.Response:
        """A tool call as it is documented."""
        return await self.send("tools/call", {"name": name, "arguments": dict(arguments or {})}, headers)

    async def result(
        self, name: str, arguments: Mapping[str, Any] | None = None, headers: Mapping[str, str] = {}
    ) -> dict[str, Any]:
        """What a call gave."""
        answer = await self.call(name, arguments, headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["result"])

    async def modern(
        self, method: str, params: Mapping[str, Any] = {}, headers: Mapping[str, str] = {}
    ) -> httpx2.Response:
        """A request of the stateless revision."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "plain", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        named = {"Mcp-Name": params["name"]} if "name" in params else {}
        told = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named, **headers}
        return await self.send(method, {**params, "_meta": meta}, told)


@asynccontextmanager
async def serve_keystone(
    database: Database, *, clock: Clock | None = None, data_dir: Path | None = None, **settings: Any
) -> AsyncIterator[Keystone]:
    """The mount on a database; its minutes pass by the given clock."""
    settings.setdefault("secrets_master_key", MASTER_KEY)
    configured = Settings(data_dir=data_dir or NOWHERE, **settings)
    clock = clock or SystemClock()
    services = build_services(configured, database, clock, WordEmbedder())
    async with background(services):
        start = await first_start(services)
        authenticator = Authenticator(
            services.keys,
            services.sign_in,
            services.tokens,
            services.limiter,
            services.audit,
            configured.requests_per_minute,
            usage=services.usage,
        )
        surface = build_keystone(configured, services, authenticator, clock=clock)
        async with serve_asgi(surface) as root:
            yield Keystone(root + PATH, services, start, clock)
        await services.models.close()
        await services.web.close()
