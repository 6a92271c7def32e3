"""Owns one attempt at a job as its handler sees it: steps that run once, progress, cancellation."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from holdfast.engines.jobs import store
from holdfast.engines.jobs.model import Claim, Job, LeaseLost
from holdfast.storage.database import Database, Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    done: float
    total: float | None
    message: str


class JobRun:
    """An attempt. Steps have names that are unique within the job; their results are plain JSON."""

    def __init__(self, database: Database, claim: Claim) -> None:
        self._database = database
        self._steps = dict(claim.steps)
        self.fence = claim.fence
        self.job: Job = claim.job
        self.cancel_requested = claim.cancel_requested
        self.unsaved: JobProgress | None = None
        self._at_end: Callable[[Tx], object] | None = None

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the job was enqueued with."""
        return self.job.payload

    @property
    def workspace_id(self) -> str:
        """The job's workspace; for kinds that always have one."""
        if self.job.workspace_id is None:
            raise LookupError(f"The job {self.job.id} belongs to no workspace.")
        return self.job.workspace_id

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` unless it finished in an earlier attempt; its result either way.

        If the process dies during `work`, it runs again: its effects outside this store should bear that.
        """
        if name in self._steps:
            return cast("T", self._steps[name])
        text = json.dumps(await work())
        await self._database.write(lambda tx: self._keep(tx, name, text))
        return cast("T", self._kept(name, text))

    async def commit(self, name: str, work: Callable[[Tx], T]) -> T:
        """Run `work` in the transaction that marks the step as finished: its effect happens exactly once."""
        if name in self._steps:
            return cast("T", self._steps[name])
        text = await self._database.write(lambda tx: self._work(tx, name, work))
        return cast("T", self._kept(name, text))

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction of its own, provided that the job is still ours; no step is kept of it.

        For effects that show by themselves that they happened: a later attempt runs it again.
        """

        def held(tx: Tx) -> T:
            self._hold(tx)
            return work(tx)

        return await self._database.write(held)

    def at_end(self, work: Callable[[Tx], object]) -> None:
        """Have `work` run in the transaction that ends the job, if the handler succeeds and the job is still ours."""
        self._at_end = work

    def end(self, tx: Tx) -> None:
        """Within the transaction that ends the job: what the handler left for it."""
        if self._at_end is not None:
            self._at_end(tx)

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is; shown within half a second, and cheap to call often."""
        self.unsaved = JobProgress(done, total, message)

    def _kept(self, name: str, text: str) -> Any:
        """The result as a later attempt would find it: a tuple is a list from the first time on."""
        self._steps[name] = json.loads(text)
        return self._steps[name]

    def _keep(self, tx: Tx, name: str, text: str) -> None:
        self._hold(tx)
        store.finish_step(tx, self.job.id, name, text)

    def _work(self, tx: Tx, name: str, work: Callable[[Tx], object]) -> str:
        self._hold(tx)
        text = json.dumps(work(tx))
        store.finish_step(tx, self.job.id, name, text)
        return text

    def _hold(self, tx: Tx) -> None:
        if not store.hold(tx, self.fence):
            raise LeaseLost(self.job.id)
