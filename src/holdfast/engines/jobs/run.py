"""Owns one attempt at a job as its handler sees it: steps that run once, progress, cancellation."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.engines.jobs import store
from holdfast.engines.jobs.model import Claim, Job, LeaseLost
from holdfast.storage.database import Database, Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
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
        self.unsaved: Progress | None = None

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
            kept: T = self._steps[name]
            return kept
        result = await work()
        text = json.dumps(result)
        await self._database.write(lambda tx: self._keep(tx, name, text))
        self._steps[name] = json.loads(text)
        return result

    async def commit(self, name: str, work: Callable[[Tx], T]) -> T:
        """Run `work` in the transaction that marks the step as finished: its effect happens exactly once."""
        if name in self._steps:
            kept: T = self._steps[name]
            return kept
        result, text = await self._database.write(lambda tx: self._work(tx, name, work))
        self._steps[name] = json.loads(text)
        return result

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is; shown within half a second, and cheap to call often."""
        self.unsaved = Progress(done, total, message)

    def _keep(self, tx: Tx, name: str, text: str) -> None:
        self._hold(tx)
        store.finish_step(tx, self.job.id, name, text)

    def _work(self, tx: Tx, name: str, work: Callable[[Tx], T]) -> tuple[T, str]:
        self._hold(tx)
        result = work(tx)
        text = json.dumps(result)
        store.finish_step(tx, self.job.id, name, text)
        return result, text

    def _hold(self, tx: Tx) -> None:
        if not store.hold(tx, self.fence):
            raise LeaseLost(self.job.id)
