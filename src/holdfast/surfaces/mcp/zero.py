"""Owns the Zero mount: `/mcp` speaks MCP, and its resources and tools are also read with plain GETs below it."""

from collections.abc import Sequence
from typing import Any

from starlette.types import Receive, Scope, Send

from holdfast.core.access import READ
from holdfast.core.errors import FieldError, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.core.text.redaction import redacted_path
from holdfast.core.tools.gateway import Gateway
from holdfast.features.workspaces.model import Workspace
from holdfast.registry.resources import EVERYWHERE, ResourceRefused, Resources
from holdfast.surfaces.http.admission import WORKSPACE_HEADER, CallerCheck, WorkspaceFinder
from holdfast.surfaces.http.asgi import header, send_json, send_problem
from holdfast.surfaces.http.site import MethodNotAllowed
from holdfast.surfaces.mcp.admission import Admitted, McpAdmission, check_origin, origins
from holdfast.surfaces.mcp.content.resources import contents
from holdfast.surfaces.mcp.server import Mount
from holdfast.surfaces.mcp.surface import McpSurface

PATH = "/mcp"
RESOURCES = "/mcp/resources"
TOOLS = "/mcp/tools"
MOST_LISTED = 10_000
_PAGE = 200
_MOST_WORKSPACES = 500
# Who gets in at all; each tool and resource says the rest.
ENTER = READ

ZERO = Mount(
    name="zero",
    title="Zero",
    instructions=(
        "Zero is this project's queue of work items, which people and agents share. zero_list_cases shows them; "
        "zero_claim_case takes one, and gives a fence to send with every write. Move a case one step at a time with "
        "zero_move_case. It becomes DONE only when each criterion is proven: propose the commands that show it with "
        "zero_add_proof, which the server runs itself, and read zero://proofs/{case_id} for the verdicts."
    ),
    consumer="zero",
    has_prompts=False,
)


class ZeroAdmission(McpAdmission):
    """Finds the project by the credential; the workspace header narrows it."""

    def __init__(self, gate: CallerCheck, workspaces: WorkspaceFinder, allowed_origins: Sequence[str] = ()) -> None:
        self._gate = gate
        self._finder = workspaces
        self._origins = origins(allowed_origins)

    async def admit(self, scope: Scope, project_id: str) -> Admitted:
        """Unauthenticated, Forbidden, RateLimited, NotFound, or Invalid where the project is not clear."""
        check_origin(scope, self._origins)
        principal = await self._gate.authenticate(scope)
        limits = await self._gate.limit(principal)
        try:
            ENTER.check(principal)
        except Forbidden as error:
            await self._gate.denied(principal, "zero", error)
            raise
        wanted = header(scope, WORKSPACE_HEADER)
        if wanted:
            found = await self._finder.get(principal, wanted[:80], project_id=principal.project_id)
            return Admitted(scope, principal, found.project_id, found.id, True, limits, everywhere=True)
        project = principal.project_id or _only_project(await self._finder.seen(principal, None, _MOST_WORKSPACES))
        return Admitted(scope, principal, project, None, False, limits, everywhere=True)

    async def count(self, admitted: Admitted) -> Any:
        """Count one more request; RateLimited beyond the key's share."""
        return await self._gate.limit(admitted.principal)

    async def place(self, admitted: Admitted) -> None:
        """Without a workspace a request is about all of the project's."""

    async def again(self, admitted: Admitted) -> Principal:
        """The principal as the store knows them now."""
        principal = await self._gate.authenticate(admitted.scope)
        ENTER.check(principal)
        if admitted.workspace_id is not None:
            await self._finder.get(principal, admitted.workspace_id)
        return principal

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Record that somebody known was refused."""
        await self._gate.denied(principal, action, error)


class ZeroSurface:
    """An ASGI application for `/mcp` and what is below it."""

    def __init__(self, mcp: McpSurface, admission: ZeroAdmission, gateway: Gateway, resources: Resources) -> None:
        self._mcp = mcp
        self._admission = admission
        self._gateway = gateway
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in (PATH, PATH + "/"):
            await self._mcp(scope, receive, send)
            return
        try:
            await self._read(scope, send, path)
        except HoldfastError as error:
            await send_problem(scope, send, error)

    async def stop(self) -> None:
        """End open streams."""
        await self._mcp.stop()

    async def _read(self, scope: Scope, send: Send, path: str) -> None:
        if path not in (RESOURCES, TOOLS) and not path.startswith(RESOURCES + "/"):
            raise NotFound("page", redacted_path(path)[:200])
        admitted = await self._admission.admit(scope, "")
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed("This is read with GET; POST JSON-RPC to /mcp.", headers={"Allow": "GET, HEAD"})
        if path == TOOLS:
            answer = self._tools(admitted.principal)
        elif path == RESOURCES:
            answer = await self._listed(admitted)
        else:
            # The path has been decoded: an address that came percent-encoded reads like one that did not.
            answer = await self._found(admitted, path.removeprefix(RESOURCES + "/"))
        # The server sends the head alone where that is asked for, with the length that GET has.
        await send_json(send, 200, answer, admitted.headers)

    def _tools(self, principal: Principal) -> dict[str, Any]:
        keys = ("name", "description", "inputSchema")
        described = (tool.described() for tool in self._gateway.visible(principal, "zero"))
        return {"tools": [{key: each[key] for key in keys} for each in described]}

    async def _listed(self, admitted: Admitted) -> dict[str, Any]:
        rows: list[dict[str, str]] = []
        cursor: str | None = None
        while len(rows) < MOST_LISTED:
            page = await self._resources.page(admitted.principal, admitted.workspace_id, limit=_PAGE, cursor=cursor)
            rows += [
                {"uri": each.uri, "name": each.name, "mimeType": each.mime_type, "description": each.description}
                for each in page.items
            ]
            cursor = page.next_cursor
            if cursor is None:
                return {"resources": rows}
        # More than anybody reads at once: the rest is in the endpoint's own pages.
        return {"resources": rows, "nextCursor": cursor}

    async def _found(self, admitted: Admitted, uri: str) -> dict[str, Any]:
        try:
            found = self._resources.find(admitted.principal, uri)
        except ResourceRefused as refused:
            await self._admission.denied(admitted.principal, f"resources/read {uri[:200]}", refused)
            raise
        content = await found.read(admitted.principal, admitted.workspace_id or EVERYWHERE)
        return {"contents": [contents(uri, content).model_dump(mode="json", by_alias=True, exclude_none=True)]}


def _only_project(seen: Sequence[Workspace]) -> str:
    projects = sorted({each.project_id for each in seen})
    if len(projects) == 1:
        return projects[0]
    problem = "send the header X-Xerotier-Workspace, or use a project's key"
    raise Invalid("Which project is meant is not clear.", fields=[FieldError("X-Xerotier-Workspace", problem)])
