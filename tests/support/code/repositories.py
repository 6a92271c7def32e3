"""Owns remembered repositories for tests: the services on a database, and syncs that are over when they return."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.jobs import Job
from holdfast.engines.search.model import Hit, Query
from holdfast.features.identity.service import local_principal
from holdfast.features.repositories.model import SYNTHESIS_KIND, NewRepository, Repository, Sync
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.services import Services, build_services, first_start


@dataclass(frozen=True, slots=True)
class RepositoryWorld:
    """One organization's services, with jobs that run inside `working`."""

    services: Services
    principal: Principal
    workspace_id: str
    clock: MovableClock

    async def add(
        self, source: GitRepo | Path | str, *, slug: str | None = None, branch: str = "", embed: bool = False
    ) -> Repository:
        """Remember a repository and read it, with `embed` also its vectors; its row once that is over."""
        location = str(source.path if isinstance(source, GitRepo) else source)
        new = NewRepository(location, slug=slug, branch=branch)
        added = await self.services.repositories.add(self.principal, self.workspace_id, new)
        assert added.job_id is not None
        await self.job(added.job_id)
        if embed:
            await self.services.search.tend()
        return await self.get(added.slug)

    async def sync(self, slug: str) -> Repository:
        """Bring it up to date; its row once that is over."""
        asked = await self.services.repositories.sync(self.principal, slug)
        assert asked.job_id is not None
        await self.job(asked.job_id)
        return await self.get(slug)

    async def get(self, slug: str) -> Repository:
        """Its row."""
        return await self.services.repositories.get(self.principal, slug)

    async def job(self, job_id: str) -> Job:
        """The job once it has ended."""
        return await self.services.jobs.wait(job_id, timeout_seconds=60)

    async def last_sync(self, slug: str) -> Sync:
        """The newest entry of its log."""
        return (await self.services.repositories.syncs(self.principal, slug, limit=1)).items[0]

    async def hits(self, text: str, *types: str, limit: int = 10) -> Sequence[Hit]:
        """What search finds in the workspace."""
        wanted = frozenset(types) or None
        return await self.services.search.search(Query(self.workspace_id, text, types=wanted, limit=limit))

    async def pending(self) -> int:
        """Entries that wait for a vector."""
        return (await self.services.search.progress()).pending


@asynccontextmanager
async def repository_world(
    database: Database,
    clock: MovableClock,
    data_dir: Path,
    *,
    working: bool = True,
    synthesis: bool = False,
    **settings: object,
) -> AsyncIterator[RepositoryWorld]:
    """Services as the server builds them; with `working`, jobs run until the end, with `synthesis` also that one."""
    built = build_services(Settings(data_dir=data_dir, **settings), database, clock, WordEmbedder())  # type: ignore[arg-type]
    if not synthesis:
        # What is derived would come into the index at some moment between two looks at it.
        built.jobs.kinds.pop(SYNTHESIS_KIND)
    start = await first_start(built)
    world = RepositoryWorld(built, local_principal(start.organization_id), start.workspace_id, clock)
    running = asyncio.create_task(built.jobs.run()) if working else None
    try:
        yield world
    finally:
        if running is not None:
            await built.jobs.stop()
            await running
        await built.models.close()
        await built.web.close()
        await built.git.close()
