"""Owns who may see and cancel the background jobs of a workspace."""

from holdfast.core.ids import is_id
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.engines.jobs import Job, JobEngine, JobNotFound, JobState
from holdfast.features.audit.service import Audit
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


class JobService:
    """The jobs of workspaces that the principal sees."""

    def __init__(self, database: Database, audit: Audit, workspaces: Workspaces, jobs: JobEngine) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._jobs = jobs

    async def list(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[Job]:
        """A workspace's jobs, newest first."""
        principal.require_any("read", "inference", "management")

        def work(tx: Tx) -> Page[Job]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return self._jobs.page(tx, workspace.id, state=state, kind=kind, cursor=cursor, limit=limit)

        return await self._database.read(work)

    async def get(self, principal: Principal, workspace_id: str, job_id: str) -> Job:
        """One job of a workspace."""
        principal.require_any("read", "inference", "management")
        return await self._database.read(lambda tx: self._find(tx, principal, workspace_id, job_id))

    async def cancel(self, principal: Principal, workspace_id: str, job_id: str) -> Job:
        """End a queued job, or ask a running one to stop; a finished one stays as it is."""
        principal.require_any("inference", "management")

        def work(tx: Tx) -> Job:
            job = self._find(tx, principal, workspace_id, job_id)
            if job.finished:
                return job
            self._audit.record(
                tx,
                principal,
                "job.cancel",
                resource="job",
                resource_id=job.id,
                workspace_id=job.workspace_id,
                detail={"kind": job.kind},
            )
            return self._jobs.cancel(tx, job.id)

        return await self._database.write(work)

    def _find(self, tx: Tx, principal: Principal, workspace_id: str, job_id: str) -> Job:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        if not is_id("job", job_id):
            raise JobNotFound(job_id)
        return self._jobs.find(tx, job_id, workspace.id)
