"""Owns who gets into a project's MCP endpoint: what every project path asks for, and no web pages from elsewhere."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.types import Scope

from holdfast.core.errors import Forbidden, HoldfastError
from holdfast.core.principal import Principal
from holdfast.features.clients.model import McpSession
from holdfast.surfaces.http.admission import CallerCheck, ProjectAdmission, ProjectCheck, WorkspaceFinder
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.mcp.transport.live import Reach

LOCAL_ORIGINS = ("http://localhost", "http://127.0.0.1", "http://[::1]", "https://localhost", "https://127.0.0.1")


@dataclass(slots=True)
class Admitted:
    """One admitted request: who, in which project and workspace, and of which session.

    At an endpoint of the whole organization `project_id` is the credential's own, or empty.
    """

    scope: Scope
    principal: Principal
    project_id: str
    workspace_id: str | None
    is_pinned: bool
    """Whether the workspace came with the header, which nothing said later in the session overrides."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the limiter wants told."""
    session: McpSession | None = None
    everywhere: bool = False
    """Whether a request without a workspace is about every one that the principal sees in the project."""

    @property
    def reach(self) -> Reach:
        """Whose changes it hears."""
        return Reach(self.workspace_id, self.principal if self.everywhere else None, self.project_id)


class McpAdmission:
    """Admits requests, and asks again on behalf of streams that stay open."""

    def __init__(
        self,
        gate: CallerCheck,
        workspaces: WorkspaceFinder,
        project_exists: ProjectCheck,
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self._admission = ProjectAdmission(gate, workspaces, project_exists, "mcp")
        self._workspaces = workspaces
        self._allowed_origins = origins(allowed_origins)

    async def admit(self, scope: Scope, project_id: str) -> Admitted:
        """Unauthenticated, Forbidden, RateLimited or NotFound unless the request may go on."""
        check_origin(scope, self._allowed_origins)
        entry = await self._admission.admit(scope, project_id)
        is_pinned = entry.workspace_id is not None
        return Admitted(scope, entry.principal, project_id, entry.workspace_id, is_pinned, entry.headers)

    async def count(self, admitted: Admitted) -> Mapping[str, str]:
        """Count one more request; RateLimited beyond the key's share."""
        return await self._admission.count(admitted.principal)

    async def place(self, admitted: Admitted) -> None:
        """Put a request that names no workspace into the only one that its key sees in the project."""
        if admitted.workspace_id is None:
            seen = await self._workspaces.seen(admitted.principal, admitted.project_id, 2)
            if len(seen) == 1:
                admitted.workspace_id = seen[0].id

    async def again(self, admitted: Admitted) -> Principal:
        """The principal as the store knows them now: a revoked key raises, a changed tier shows."""
        return await self._admission.again(admitted.scope, admitted.workspace_id)

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Record that somebody known was refused."""
        await self._admission.denied(principal, action, error)


def check_origin(scope: Scope, allowed: Collection[str]) -> None:
    """Refuse web pages from elsewhere: browsers send Origin, coding agents do not."""
    origin = header(scope, b"origin")
    if origin is None or origin in allowed:
        return
    for local in LOCAL_ORIGINS:
        if origin == local or (origin.startswith(local + ":") and origin[len(local) + 1 :].isdigit()):
            return
    raise Forbidden("This origin may not use the MCP endpoint; the operator can allow it.", code="origin")


def origins(allowed: Sequence[str]) -> frozenset[str]:
    """Origins as browsers spell them."""
    return frozenset(origin.rstrip("/") for origin in allowed)
