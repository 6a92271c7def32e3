"""Owns who gets into a project's paths: credential, limit, scope, project and workspace, before any protocol work."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Scope

from holdfast.core.access import RUN
from holdfast.core.errors import Forbidden, HoldfastError, NotFound
from holdfast.core.principal import Principal
from holdfast.features.usage.model import Limit, Taken
from holdfast.features.workspaces.model import Workspace
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.http.authentication import Authenticator

WORKSPACE_HEADER = b"x-xerotier-workspace"
# Who gets in at all; each tool and route says the rest.
ENTER = RUN


class CallerCheck(Protocol):
    """Who is asking, and whether they may ask now."""

    async def authenticate(self, scope: Scope) -> Principal: ...

    async def limit(self, principal: Principal) -> Mapping[str, str]: ...

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None: ...


class WorkspaceFinder(Protocol):
    """Finds workspaces that the principal may see."""

    async def get(self, principal: Principal, workspace_id: str, *, project_id: str | None = None) -> Workspace: ...

    async def seen(self, principal: Principal, project_id: str | None, limit: int = 10) -> Sequence[Workspace]: ...


ProjectCheck = Callable[[Principal, str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class AdmittedProject:
    """Who came in, to which project, and into which workspace if the request named one."""

    principal: Principal
    project_id: str
    workspace_id: str | None
    headers: Mapping[str, str]
    """What the limiter wants told."""


class Counts(Protocol):
    """Counts towards a limit."""

    async def take(self, key: str, limit: Limit) -> Taken: ...


class LimitedCallers:
    """The same credentials as everywhere, with a limit of its own for each way in."""

    def __init__(
        self, authenticator: Authenticator, limiter: Counts, per_minute: int, source: str, *, bucket: str = ""
    ) -> None:
        """`source` is the way in: `mcp`, `chat`; `bucket` tells two ways in of one source apart."""
        self._authenticator = authenticator
        self._limiter = limiter
        self._limit = Limit(per_minute, 60)
        self._source = source
        self._bucket = bucket or source

    async def authenticate(self, scope: Scope) -> Principal:
        """Who sent this request."""
        return await self._authenticator.authenticate(scope)

    async def limit(self, principal: Principal) -> Mapping[str, str]:
        """Count one request; RateLimited beyond the minute's share."""
        taken = await self._limiter.take(f"{self._bucket} {principal.actor}", self._limit)
        taken.check()
        self._authenticator.count(principal, "requests", source=self._source)
        return taken.headers()

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Put a refusal into the audit log."""
        await self._authenticator.denied(principal, action, error)


class ProjectAdmission:
    """Admits requests to `/{project_id}/…`, which need the scope `inference`."""

    def __init__(
        self, gate: CallerCheck, workspaces: WorkspaceFinder, project_exists: ProjectCheck, action: str
    ) -> None:
        """`action` is what a refusal is called in the audit log."""
        self._gate = gate
        self._workspaces = workspaces
        self._project_exists = project_exists
        self._action = action

    async def admit(self, scope: Scope, project_id: str) -> AdmittedProject:
        """Unauthenticated, Forbidden, RateLimited or NotFound unless the request may go on."""
        principal = await self._gate.authenticate(scope)
        headers = await self._gate.limit(principal)
        try:
            ENTER.check(principal)
        except Forbidden as error:
            await self._gate.denied(principal, self._action, error)
            raise
        if not principal.sees_project(project_id) or not await self._known(principal, project_id):
            raise NotFound("project", project_id[:80])
        wanted = header(scope, WORKSPACE_HEADER)
        if not wanted:
            return AdmittedProject(principal, project_id, None, headers)
        workspace = await self._workspaces.get(principal, wanted[:80], project_id=project_id)
        return AdmittedProject(principal, project_id, workspace.id, headers)

    async def count(self, principal: Principal) -> Mapping[str, str]:
        """Count one more request of somebody who is in; RateLimited beyond their share."""
        return await self._gate.limit(principal)

    async def again(self, scope: Scope, workspace_id: str | None) -> Principal:
        """The principal as the store knows them now: a revoked key raises, a changed tier shows."""
        principal = await self._gate.authenticate(scope)
        ENTER.check(principal)
        if workspace_id is not None:
            await self._workspaces.get(principal, workspace_id)
        return principal

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Record that somebody known was refused."""
        await self._gate.denied(principal, action, error)

    async def _known(self, principal: Principal, project_id: str) -> bool:
        # A project key proves that its project exists; an organization's key does not.
        return principal.project_id == project_id or await self._project_exists(principal, project_id)
