"""Owns `/api/workspaces/{workspace_id}/jobs`: background work, its progress, and stopping it."""

from typing import Annotated, Any

from pydantic import Field

from holdfast.core.access import ANY, Access
from holdfast.core.model import Answer, PageQuery, Text, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.engines.jobs import JobState
from holdfast.features.jobs.service import JobService

api = Operations("jobs")

_BASE = "/api/workspaces/{workspace_id}/jobs"


class JobAnswer(Answer):
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
    run_at: Time
    created_at: Time
    updated_at: Time
    finished_at: Time | None


class JobQuery(PageQuery):
    state: JobState | None = None
    kind: Annotated[Text, Field(max_length=100)] | None = None


@api.get(_BASE, ANY, "Background jobs, newest first")
async def page(jobs: JobService, principal: Principal, workspace_id: str, query: JobQuery) -> Page[JobAnswer]:
    found = await jobs.list(
        principal, workspace_id, state=query.state, kind=query.kind, cursor=query.cursor, limit=query.limit
    )
    return found.map(JobAnswer.of)


@api.get(_BASE + "/{job_id}", ANY, "One background job")
async def get(jobs: JobService, principal: Principal, workspace_id: str, job_id: str) -> JobAnswer:
    return JobAnswer.of(await jobs.get(principal, workspace_id, job_id))


@api.post(_BASE + "/{job_id}/cancel", Access("workspace", ("inference", "management")), "Stop a background job")
async def cancel(jobs: JobService, principal: Principal, workspace_id: str, job_id: str) -> JobAnswer:
    return JobAnswer.of(await jobs.cancel(principal, workspace_id, job_id))
