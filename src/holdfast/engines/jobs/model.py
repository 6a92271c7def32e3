"""Owns what a job is, the states it goes through, and how a handler says that it failed for good."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.storage.database import Tx

if TYPE_CHECKING:
    from holdfast.engines.jobs.run import JobRun

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINISHED: frozenset[JobState] = frozenset({"succeeded", "failed", "cancelled"})
Handler = Callable[["JobRun"], Awaitable[object]]
Ended = Callable[[Tx, "Job"], None]
"""Told of a job's end within the transaction that ends it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of background work. `done` of `total` with `message` is its progress."""

    id: str
    kind: str
    workspace_id: str | None
    key: str | None
    payload: Mapping[str, Any]
    state: JobState
    attempts: int
    max_attempts: int
    run_at: int
    done: float
    total: float | None
    message: str
    result: Any
    error: str | None
    created_at: int
    updated_at: int
    finished_at: int | None

    @property
    def finished(self) -> bool:
        return self.state in FINISHED


@dataclass(frozen=True, slots=True)
class JobKind:
    """How jobs of one kind are run: `concurrency` of them at once in each process."""

    handler: Handler
    concurrency: int
    max_attempts: int
    backoff_seconds: float
    every_seconds: float | None = None
    ended: Ended | None = None
    reserved: int = 0
    """How many of them one workspace alone never gets."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What proves that a job is still ours: a later claim has another number."""

    job_id: str
    owner: str
    claim: int

    def params(self) -> dict[str, Any]:
        return {"id": self.job_id, "owner": self.owner, "claim": self.claim}


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this process may run, and what earlier attempts finished of it."""

    job: Job
    fence: Fence
    steps: Mapping[str, Any]
    cancel_requested: bool


class JobNotFound(NotFound):
    """No such job for this caller."""

    def __init__(self, job_id: str) -> None:
        super().__init__("job", job_id)


class JobFailed(HoldfastError):
    """Raised by a handler when trying again cannot help."""

    code = "job_failed"


class LeaseLost(Exception):
    """Another process has the job now; whatever this one still does must leave no trace."""
