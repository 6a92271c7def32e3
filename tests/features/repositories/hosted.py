"""Owns a small world for tests of what hosts tell: an organization, its secrets, and repositories at a fake host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.code_hosts.patience import Patience
from holdfast.engines.events import EventBus
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.tunnel import Rules
from holdfast.engines.jobs import Job, JobEngine, JobRun
from holdfast.engines.master_key import KeyRing
from holdfast.engines.runtime.kubernetes.kept import kept_secrets
from holdfast.engines.search import Hit, Query, SearchEngine
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.items import HostItems, OperatorAccess
from holdfast.features.repositories.model import SYNC_KIND, Item, ItemKind, NewRepository, Repository, Sync
from holdfast.features.repositories.service import Repositories
from holdfast.features.secrets.service import Secrets
from holdfast.features.secrets.values import SecretValues
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.seals import Seals
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.features.audit import audit_trail
from tests.support.features.library import ALL, settle
from tests.support.services import entities

IMPATIENT = Patience(wait_seconds=0, tries=2, first_seconds=0.01)


@dataclass(slots=True)
class Hosted:
    """The services, who asks, and where."""

    database: Database
    clock: MovableClock
    secrets: Secrets
    search: SearchEngine
    jobs: JobEngine
    repositories: Repositories
    principal: Principal
    workspace_id: str
    accesses: dict[str, OperatorAccess]
    problems: list[HoldfastError]
    """What syncs failed with."""
    seconds: float = 60.0
    allowed: tuple[str, ...] = ()
    """Private places that the guard lets through besides the hosts' own."""

    @property
    def items(self) -> HostItems:
        return HostItems(
            self.database,
            self.secrets,
            self.search,
            self.clock,
            Guard(allow_private=self.allowed),
            self.accesses,
            patience=IMPATIENT,
            seconds=self.seconds,
        )

    async def add(self, location: str, **more: Any) -> Repository:
        """A repository at a host, its first sync out of the way: a test says when to sync."""
        added = await self.repositories.add(self.principal, self.workspace_id, NewRepository(location, **more))
        await self.database.write(lambda tx: self.jobs.cancel(tx, str(added.job_id)))
        return added

    async def keep_secret(self, name: str, value: str) -> None:
        owner = Principal(self.principal.organization_id, "local", "local", False, ALL | {"management"}, role="owner")
        await self.secrets.set(owner, self.workspace_id, name, value)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run jobs meanwhile: a sync reads nothing but the host's items."""
        task = asyncio.create_task(self.jobs.run())
        try:
            yield
        finally:
            await self.jobs.stop()
            await task

    async def sync(self, repository: Repository) -> Job:
        """Sync once, which must be `working`; how the job ended."""
        asked = await self.repositories.sync(self.principal, repository.slug)
        assert asked.job_id is not None
        return await self.jobs.wait(asked.job_id, timeout_seconds=60)

    async def item(self, repository: Repository, kind: ItemKind, number: str) -> Item | None:
        return await self.database.read(lambda tx: item_store.find_item(tx, repository.id, kind, number))

    async def cursor(self, repository: Repository, kind: ItemKind) -> int | None:
        return await self.database.read(lambda tx: item_store.item_cursor(tx, repository.id, kind))

    async def queued(self) -> list[dict[str, Any]]:
        """The syncs that wait, oldest first."""
        jobs = (await self.jobs.list(self.workspace_id, kind=SYNC_KIND, limit=200)).items
        return [dict(job.payload) for job in reversed(jobs) if job.state == "queued"]

    async def found(self, text: str, kind: ItemKind) -> list[Hit]:
        """What search knows in the workspace."""
        return await self.search.search(Query(self.workspace_id, text, types=frozenset({kind})))

    async def read_items(self, run: JobRun) -> object:
        repository = await self.database.read(lambda tx: store.by_id(tx, str(run.payload["repository_id"])))
        assert repository is not None
        log = Sync(f"sync_{run.job.id}", repository.id, run.job.id, "manual", "RUNNING", self.clock.now(), None)
        await run.write(lambda tx: store.insert_sync(tx, log))
        try:
            return await self.items.sync(run, repository)
        except HoldfastError as problem:
            self.problems.append(problem)
            raise


async def hosted(database: Database, clock: MovableClock, directory: Path, **accesses: OperatorAccess) -> Hosted:
    """A founded organization with a workspace; `accesses` are the APIs that its operator configured."""
    organization_id, workspace_id = await database.write(lambda tx: settle(tx, "sea"))
    audit = audit_trail(database, clock)
    workspaces = Workspaces(database, audit, clock, lambda *_: True, lambda *_: True, lambda *_: True)
    keys = KeyRing(directory, None)
    values = SecretValues(database, keys, clock, lambda: kept_secrets(Settings()), "database")
    secrets = Secrets(database, audit, workspaces, keys, clock, Seals(list), values)
    search = SearchEngine(database, WordEmbedder(), clock)
    events = EventBus(database, clock)
    jobs = JobEngine(database, events)
    git = GitEngine(directory / "repositories", Rules(allow_private=("127.0.0.0/8",)))
    urls = {host: access.url for host, access in accesses.items()}
    made = Hosted(
        database=database,
        clock=clock,
        secrets=secrets,
        search=search,
        jobs=jobs,
        repositories=Repositories(
            database, audit, workspaces, secrets, search, events, jobs, git, clock, entities(), host_urls=urls
        ),
        principal=Principal(organization_id, "key_test", "key", False, ALL | {"management"}, name="Kim"),
        workspace_id=workspace_id,
        accesses=dict(accesses),
        problems=[],
    )
    jobs.handle(SYNC_KIND, made.read_items, max_attempts=1)
    return made
