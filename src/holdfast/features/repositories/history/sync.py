"""Owns the job that brings a repository up to date: fetch → commits → files → tags → the host's items → counts.

Every batch is one transaction that shows by itself that it happened: whoever goes on after a kill, a failure or a
cancellation compares what is kept with what is there, and reads only the rest.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import BranchHead, File, GitFailed, Progress
from holdfast.engines.git.transport.address import Location
from holdfast.engines.jobs import Job, JobEngine, JobFailed, JobRun
from holdfast.engines.jobs.model import LeaseLost
from holdfast.engines.search import SearchEngine
from holdfast.features.repositories import store
from holdfast.features.repositories.access import RepositoryTokens
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.keeping import Keeping, RepositoryGone
from holdfast.features.repositories.history.prefetch import ahead
from holdfast.features.repositories.hosts.apis import full_name_of
from holdfast.features.repositories.model import SYNTHESIS_KIND, Repository, State, Sync
from holdfast.features.repositories.service import Repositories
from holdfast.storage.database import Database, StorageFailed, Tx

CONCURRENCY = 2
REMOVED_AT_ONCE = 1_000
PASSAGES_AT_ONCE = 400
"""What one transaction writes: the store is not kept from others for long."""
TELL_SECONDS = 0.5
SHALLOW = "The clone is shallow: commits older than its first are not there to be read."
CANCELLED = "The last sync was cancelled; what it had read is kept."

HostItems = Callable[[JobRun, Repository], Awaitable[int]]
"""Reads what the repository's host has to tell that is new; how many items changed."""
T = TypeVar("T")


@dataclass(slots=True)
class _Visit:
    """One attempt at one repository."""

    run: JobRun
    keeping: Keeping
    repository: Repository
    location: Location
    dirty: bool
    """Whether an earlier sync left off in the middle."""
    told_at: float = float("-inf")

    @property
    def compares(self) -> bool:
        """Whether all that is kept is compared with all that is there: a shallow clone may have been deepened."""
        return self.dirty or not self.repository.ingested or self.repository.reason == SHALLOW


class RepositorySync:
    """Runs `repository.sync` jobs."""

    def __init__(
        self,
        database: Database,
        repositories: Repositories,
        search: SearchEngine,
        jobs: JobEngine,
        git: GitEngine,
        access: RepositoryTokens,
        clock: Clock,
        *,
        items: HostItems | None = None,
    ) -> None:
        self._database = database
        self._repositories = repositories
        self._search = search
        self._jobs = jobs
        self._git = git
        self._access = access
        self._clock = clock
        self._items = items

    async def run(self, run: JobRun) -> object:
        """Bring one repository up to date; what there is of it afterwards."""
        repository_id = str(run.payload["repository_id"])
        try:
            return await self._sync(run, repository_id)
        except RepositoryGone:
            await self._git.forget(repository_id)
            return "removed"
        except GitFailed as problem:
            raise JobFailed(problem.message) from problem
        except (asyncio.CancelledError, LeaseLost):
            # A workspace takes its jobs with it, so its repositories may be gone without a word.
            if await self._database.read(lambda tx: store.by_id(tx, repository_id)) is None:
                await self._git.forget(repository_id)
            raise

    def ended(self, tx: Tx, job: Job) -> None:
        """However a sync ended that did not complete: its repository and its log say so."""
        if job.state == "succeeded":
            return
        repository = store.hold(tx, str(job.payload["repository_id"]))
        if repository is None:
            return
        now = self._clock.now()
        failed = job.state == "failed"
        reason = job.error if failed else CANCELLED
        state: State = "failed" if failed or not repository.ingested else "ready"
        store.update(tx, repository.id, now, {"state": _state(repository, job.id, state), "reason": reason})
        store.end_sync(tx, _sync_id(job), "FAILED" if failed else "CANCELLED", now, reason if failed else None)
        self._repositories.tell(tx, repository, job.state, job_id=job.id, reason=reason)

    async def sweep(self) -> None:
        """Remove mirrors of repositories that went while nobody could say so: with their workspace, or by a kill."""
        mirrored = await self._git.mirrored()
        known = await self._database.read(lambda tx: store.ids(tx)) if mirrored else set()
        for repository_id in mirrored - known:
            await self._git.forget(repository_id)

    async def _sync(self, run: JobRun, repository_id: str) -> object:
        keeping = Keeping(self._search, self._clock, repository_id, _sync_id(run.job))
        repository, dirty = await run.write(lambda tx: self._begin(tx, run, keeping))
        if not repository.is_local and not repository.ingested:
            await self.sweep()
        location, credentials = await self._access.of(repository)
        visit = _Visit(run, keeping, repository, location, dirty)
        await run.progress(0, None, "Fetching")
        head = await self._git.fetch(
            repository_id,
            location,
            branch=repository.branch,
            credentials=credentials,
            progress=partial(self._fetching, run),
        )
        if visit.compares or head.commit != repository.head:
            await self._read_history(visit, head)
            await self._read_files(visit, head)
        tags = await self._git.tags(repository_id, location, head)
        retagged = await run.write(lambda tx: keeping.put_tags(tx, tags))
        items, trouble = await self._read_items(visit)
        return await run.write(lambda tx: self._complete(tx, visit, head, trouble, others=retagged or items > 0))

    def _begin(self, tx: Tx, run: JobRun, keeping: Keeping) -> tuple[Repository, bool]:
        repository = keeping.hold(tx)
        dirty = store.left_unfinished(tx, repository.id)
        now = self._clock.now()
        new = Sync(_sync_id(run.job), repository.id, run.job.id, run.payload["trigger"], "RUNNING", now, None)
        store.insert_sync(tx, new)
        store.update(tx, repository.id, now, {"state": "syncing"})
        self._repositories.tell(tx, repository, "syncing", job_id=run.job.id)
        return repository, dirty

    async def _fetching(self, run: JobRun, progress: Progress) -> None:
        await run.progress(progress.done, progress.total, progress.message)

    async def _read_history(self, visit: _Visit, head: BranchHead) -> None:
        repository = visit.repository
        known_head = "" if visit.compares else repository.head
        changes = self._git.history(
            repository.id, visit.location, head, known_head=known_head, known=partial(self._shas, repository.id)
        )
        done, total = 0, None
        async with aclosing(ahead(changes)) as batches:
            async for batch in batches:
                total = batch.total if total is None else total
                for shas in _parts(batch.removed, REMOVED_AT_ONCE):
                    await visit.run.write(partial(visit.keeping.remove_commits, shas=shas))
                if batch.added:
                    done += len(batch.added)
                    await self._advance(
                        visit, partial(visit.keeping.add_commits, commits=batch.added), done, total, "commits"
                    )

    async def _shas(self, repository_id: str) -> Sequence[str]:
        return await self._database.read(lambda tx: history_store.shas(tx, repository_id))

    async def _read_files(self, visit: _Visit, head: BranchHead) -> None:
        known = await self._database.read(lambda tx: history_store.blobs(tx, visit.repository.id))
        changes = self._git.snapshot(visit.repository.id, visit.location, head, known)
        done, total = 0, None
        async with aclosing(ahead(changes)) as batches:
            async for batch in batches:
                total = batch.total if total is None else total
                for paths in _parts(batch.removed, REMOVED_AT_ONCE):
                    await visit.run.write(partial(visit.keeping.remove_files, paths=paths))
                for files in _by_passages(batch.files):
                    done += len(files)
                    await self._advance(visit, partial(visit.keeping.put_files, files=files), done, total, "files")

    async def _advance(self, visit: _Visit, work: Callable[[Tx], T], done: int, total: int | None, what: str) -> None:
        """Write a batch and say so; events tell it now and then."""
        moment = time.monotonic()
        tells = moment - visit.told_at >= TELL_SECONDS
        message = f"Reading {what}"

        def write(tx: Tx) -> None:
            work(tx)
            if tells:
                facts = {"job_id": visit.run.job.id, "done": done, "total": total, "message": message}
                self._repositories.tell(tx, visit.repository, "progress", **facts)

        await visit.run.write(write)
        if tells:
            visit.told_at = moment
        await visit.run.progress(done, total, message)

    async def _read_items(self, visit: _Visit) -> tuple[int, str | None]:
        """How many of the host's items changed, and why not all could be read.

        The history stands by itself: what the host's API refuses today is asked for at the next sync.
        """
        if self._items is None or not visit.repository.host:
            return 0, None
        try:
            return await self._items(visit.run, visit.repository), None
        except StorageFailed:
            raise
        except HoldfastError as problem:
            return 0, f"The history is up to date, but {visit.repository.host} did not tell the rest: {problem.message}"

    def _complete(
        self, tx: Tx, visit: _Visit, head: BranchHead, trouble: str | None, *, others: bool
    ) -> dict[str, Any]:
        repository = visit.keeping.hold(tx)
        sync = store.find_sync(tx, _sync_id(visit.run.job))
        read = sync is not None and bool(
            sync.commits_added + sync.commits_removed + sync.files_changed + sync.files_removed + sync.items_changed
        )
        changed = visit.dirty or read or others or not repository.ingested
        now = self._clock.now()
        values: dict[str, Any] = {
            "head": head.commit,
            "state": _state(repository, visit.run.job.id, "ready"),
            "reason": trouble or (SHALLOW if head.shallow else None),
            "ingested": 1,
            "last_synced_at": now,
        }
        if repository.is_local:
            values["full_name"] = full_name_of(head.origin, self._access.host_urls)
        if changed:
            values |= visit.keeping.counts(tx)
            self._jobs.enqueue(
                tx,
                SYNTHESIS_KIND,
                {"repository_id": repository.id},
                workspace_id=repository.workspace_id,
                key=repository.id,
            )
        store.update(tx, repository.id, now, values)
        store.end_sync(tx, _sync_id(visit.run.job), "COMPLETED", now, trouble)
        self._repositories.tell(tx, repository, "synced", job_id=visit.run.job.id, head=head.commit, changed=changed)
        return {"head": head.commit, "changed": changed, "reason": trouble}


def _sync_id(job: Job) -> str:
    """All attempts at a job are one sync."""
    return f"sync_{job.id.partition('_')[2]}"


def _state(repository: Repository, job_id: str, state: State) -> State:
    """The state after a sync, unless the next one waits already."""
    return state if repository.job_id in (None, job_id) else "queued"


def _parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _by_passages(files: Sequence[File]) -> Iterator[Sequence[File]]:
    """The files in groups that one transaction writes quickly."""
    group: list[File] = []
    passages = 0
    for file in files:
        if group and passages + len(file.passages) > PASSAGES_AT_ONCE:
            yield group
            group, passages = [], 0
        group.append(file)
        passages += len(file.passages)
    if group:
        yield group
