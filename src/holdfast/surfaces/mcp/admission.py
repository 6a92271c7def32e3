"""Owns who gets in: credential, scope, limit, project and workspace, all before any protocol work."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from starlette.types import Scope

from holdfast.core.errors import Forbidden, HoldfastError, NotFound
from holdfast.core.principal import Principal
from holdfast.features.clients.model import Session
from holdfast.features.workspaces.model import Workspace
from holdfast.surfaces.http.asgi import header

WORKSPACE_HEADER = b"x-xerotier-workspace"
LOCAL_ORIGINS = ("http://localhost", "http://127.0.0.1", "http://[::1]", "https://localhost", "https://127.0.0.1")


class Gate(Protocol):
    """Who is asking, and whether they may ask now."""

    async def authenticate(self, scope: Scope) -> Principal: ...

    async def limit(self, principal: Principal) -> Mapping[str, str]: ...

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None: ...


class WorkspaceFinder(Protocol):
    """Finds a workspace that the principal may see."""

    async def get(self, principal: Principal, workspace_id: str) -> Workspace: ...


ProjectCheck = Callable[[Principal, str], Awaitable[bool]]


@dataclass(slots=True)
class Admitted:
    """One admitted request: who, in which project and workspace, and of which session."""

    scope: Scope
    principal: Principal
    project_id: str
    workspace_id: str | None
    is_pinned: bool
    """Whether the workspace came with the header, which nothing said later in the session overrides."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the limiter wants told."""
    session: Session | None = None


class Doorkeeper:
    """Admits requests, and asks again on behalf of streams that stay open."""

    def __init__(
        self,
        gate: Gate,
        workspaces: WorkspaceFinder,
        project_exists: ProjectCheck,
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self._gate = gate
        self._workspaces = workspaces
        self._project_exists = project_exists
        self._allowed_origins = frozenset(origin.rstrip("/") for origin in allowed_origins)

    async def admit(self, scope: Scope, project_id: str) -> Admitted:
        """Unauthenticated, Forbidden, RateLimited or NotFound unless the request may go on."""
        self._check_origin(scope)
        principal = await self._gate.authenticate(scope)
        headers = await self._gate.limit(principal)
        try:
            principal.require("inference")
        except Forbidden as error:
            await self._gate.denied(principal, "mcp", error)
            raise
        if not principal.sees_project(project_id) or not await self._known(principal, project_id):
            raise NotFound("project", project_id[:80])
        wanted = header(scope, WORKSPACE_HEADER)
        if not wanted:
            return Admitted(scope, principal, project_id, None, False, headers)
        workspace = await self._workspaces.get(principal, wanted[:80])
        if workspace.project_id != project_id:
            raise NotFound("workspace", wanted[:80])
        return Admitted(scope, principal, project_id, workspace.id, True, headers)

    async def again(self, admitted: Admitted) -> Principal:
        """The principal as the store knows them now: a revoked key raises, a changed tier shows."""
        principal = await self._gate.authenticate(admitted.scope)
        principal.require("inference")
        if admitted.workspace_id is not None:
            await self._workspaces.get(principal, admitted.workspace_id)
        return principal

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Record that somebody known was refused."""
        await self._gate.denied(principal, action, error)

    async def _known(self, principal: Principal, project_id: str) -> bool:
        # A project key proves that its project exists; an organization's key does not.
        return principal.project_id == project_id or await self._project_exists(principal, project_id)

    def _check_origin(self, scope: Scope) -> None:
        """Refuse web pages from elsewhere: browsers send Origin, coding agents do not."""
        origin = header(scope, b"origin")
        if origin is None or origin in self._allowed_origins:
            return
        for local in LOCAL_ORIGINS:
            if origin == local or (origin.startswith(local + ":") and origin[len(local) + 1 :].isdigit()):
                return
        raise Forbidden("This origin may not use the MCP endpoint; the operator can allow it.", code="origin")
