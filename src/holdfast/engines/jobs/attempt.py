"""Owns the life of one attempt at a job: run the handler, then record how it ended, unless the job is lost."""

import asyncio
import json
import logging
import random
from collections.abc import Callable

from holdfast.core.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.engines.jobs import store
from holdfast.engines.jobs.model import Claim, Fence, Job, JobFailed, JobKind, LeaseLost
from holdfast.engines.jobs.run import JobProgress, JobRun
from holdfast.storage.database import Database, StorageFailed, Tx

MAX_BACKOFF_SECONDS = 300.0
STORE_RETRY_SECONDS = 0.5
MAX_ERROR = 1000
# Trying again does not mend these.
PERMANENT = (JobFailed, Invalid, NotFound, Forbidden, Conflict)

_log = logging.getLogger(__name__)


class Attempt:
    """A claimed job in this process."""

    def __init__(self, database: Database, kind: JobKind, claim: Claim, ended: Callable[[Tx, Job], None]) -> None:
        self._database = database
        self._kind = kind
        self._ended = ended
        self._run = JobRun(database, claim)
        self._giving_back = False
        self._lost = False
        self._recording = False
        self.task: asyncio.Task[None] | None = None

    @property
    def job(self) -> Job:
        return self._run.job

    @property
    def fence(self) -> Fence:
        return self._run.fence

    def start(self, done: Callable[["asyncio.Task[None]"], None]) -> None:
        """Run as a task of its own."""
        self.task = asyncio.create_task(self._perform(), name=f"job {self.job.kind} {self.job.id}")
        self.task.add_done_callback(done)

    def cancel(self) -> None:
        """Somebody does not want it any more."""
        if not self._run.cancel_requested:
            self._run.cancel_requested = True
            self._interrupt()

    def give_back(self) -> None:
        """The server stops: another process, or a later one, goes on from the last finished step."""
        if not self._giving_back:
            self._giving_back = True
            self._interrupt()

    def lose(self) -> None:
        """Another process has taken it over."""
        if not self._lost and not self._recording:
            self._lost = True
            _log.warning("The job %s was taken over by another process.", self.job.id)
            self._interrupt()

    def abandon(self) -> None:
        """The engine was cancelled: leave the job to whoever finds its lease run out."""
        self._lost = True
        if self.task is not None:
            self.task.cancel()

    def save_progress(self, tx: Tx) -> JobProgress | None:
        """Write progress that is not written yet; what was written."""
        progress = self._run.unsaved
        if progress is None or not store.progress(tx, self.fence, progress.done, progress.total, progress.message):
            return None
        if self._run.unsaved is progress:
            self._run.unsaved = None
        return progress

    def _interrupt(self) -> None:
        # Once the handler is through, what it did is written down, whatever happens meanwhile.
        if self.task is not None and not self._recording:
            self.task.cancel()

    async def _perform(self) -> None:
        try:
            end = await self._outcome()
        except LeaseLost:
            _log.warning("The job %s was taken over by another process.", self.job.id)
            return
        if end is not None and not self._lost:
            self._recording = True
            await self._record(end)

    async def _outcome(self) -> "Callable[[Tx], Job | None] | None":
        """Run the handler; how its end is recorded, or None when there is nothing to record."""
        job = self.job
        if self._run.cancel_requested:
            return self._cancelled
        if job.attempts > job.max_attempts:
            reason = f"The process that ran it ended before the job did, {job.max_attempts} times."
            return lambda tx: store.finish(tx, self.fence, "failed", error=job.error or reason)
        try:
            result = json.dumps(await self._kind.handler(self._run))
        except asyncio.CancelledError:
            return self._interrupted()
        except LeaseLost:
            raise
        except PERMANENT as problem:
            message = problem.message
            return lambda tx: store.finish(tx, self.fence, "failed", error=message[:MAX_ERROR])
        except Exception as problem:
            return self._failed(problem)
        return lambda tx: self._succeeded(tx, result)

    def _succeeded(self, tx: Tx, result: str) -> Job | None:
        job = store.finish(tx, self.fence, "succeeded", result=result)
        if job is not None:
            self._run.end(tx)
        return job

    def _interrupted(self) -> "Callable[[Tx], Job | None] | None":
        if self._lost:
            return None
        if self._run.cancel_requested:
            return self._cancelled
        if self._giving_back:
            return lambda tx: store.requeue(tx, self.fence, delay_millis=0, error=None, free_attempt=True)
        return self._failed(RuntimeError("The handler cancelled itself."))

    def _cancelled(self, tx: Tx) -> Job | None:
        return store.finish(tx, self.fence, "cancelled")

    def _failed(self, problem: Exception) -> Callable[[Tx], Job | None]:
        job = self.job
        if isinstance(problem, HoldfastError):
            error = problem.message[:MAX_ERROR]
            _log.info("The job %s (%s) failed at attempt %d: %s", job.id, job.kind, job.attempts, error)
        else:
            error = f"Something went wrong inside ({type(problem).__name__}); the server's log says what."
            _log.error("The job %s (%s) failed at attempt %d.", job.id, job.kind, job.attempts, exc_info=problem)
        if job.attempts >= job.max_attempts:
            return lambda tx: store.finish(tx, self.fence, "failed", error=error)
        delay = min(self._kind.backoff_seconds * 2 ** (job.attempts - 1), MAX_BACKOFF_SECONDS) * random.uniform(
            0.8, 1.2
        )
        delay_millis = round(delay * 1000)
        return lambda tx: store.requeue(tx, self.fence, delay_millis=delay_millis, error=error, free_attempt=False)

    async def _record(self, end: Callable[[Tx], Job | None]) -> None:
        """Write the end, however long the store is away: until then the job stays ours."""

        def write(tx: Tx) -> None:
            self.save_progress(tx)
            job = end(tx)
            if job is not None:
                self._ended(tx, job)
            else:
                _log.warning("The job %s was taken over by another process before its end was written.", self.job.id)

        while not self._lost:
            try:
                await self._database.write(write)
                return
            except StorageFailed as problem:
                _log.warning("The end of the job %s could not be written: %s", self.job.id, problem.message)
                await asyncio.sleep(STORE_RETRY_SECONDS)
