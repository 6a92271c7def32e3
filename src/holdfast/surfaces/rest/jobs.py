"""Owns `/api/workspaces/{workspace_id}/jobs`: background work, its progress, and stopping it."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.access import ANY, Access
from holdfast.core.clock import iso, iso_or_none
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.engines.jobs import Job, JobState
from holdfast.features.jobs.service import JobService

Text = Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")]


class JobView(Model):
    id: str
    kind: str
    state: JobState
    attempts: int
    max_attempts: int
    done: float = Field(description="Of `total`, where it is known")
    total: float | None
    message: str
    result: Any
    error: str | None
    run_at: str
    created_at: str
    updated_at: str
    finished_at: str | None


class JobQuery(PageQuery):
    state: JobState | None = None
    kind: Text | None = None


def operations(jobs: JobService) -> list[Operation]:
    """Everything served here."""

    async def list_jobs(call: Call) -> Page[JobView]:
        query: JobQuery = call.query
        found = await jobs.list(
            call.principal,
            call.path["workspace_id"],
            state=query.state,
            kind=query.kind,
            cursor=query.cursor,
            limit=query.limit,
        )
        return found.map(view)

    async def get(call: Call) -> JobView:
        return view(await jobs.get(call.principal, call.path["workspace_id"], call.path["job_id"]))

    async def cancel(call: Call) -> JobView:
        return view(await jobs.cancel(call.principal, call.path["workspace_id"], call.path["job_id"]))

    every = "/api/workspaces/{workspace_id}/jobs"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_jobs,
            tag="jobs",
            access=ANY,
            query=JobQuery,
            answer=JobView,
            paged=True,
            summary="Background jobs, newest first",
        ),
        Operation(
            method="GET",
            path=every + "/{job_id}",
            handler=get,
            tag="jobs",
            access=ANY,
            answer=JobView,
            summary="One background job",
        ),
        Operation(
            method="POST",
            path=every + "/{job_id}/cancel",
            handler=cancel,
            tag="jobs",
            access=Access("workspace", ("inference", "management")),
            answer=JobView,
            summary="Stop a background job",
        ),
    ]


def view(job: Job) -> JobView:
    """A job as the API shows it; its payload stays inside."""
    return JobView(
        id=job.id,
        kind=job.kind,
        state=job.state,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        done=job.done,
        total=job.total,
        message=job.message,
        result=job.result,
        error=job.error,
        run_at=iso(job.run_at),
        created_at=iso(job.created_at),
        updated_at=iso(job.updated_at),
        finished_at=iso_or_none(job.finished_at),
    )
