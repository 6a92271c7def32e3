"""Owns which workspace a tool call works in: the header's, the one that it names, the session's."""

from collections.abc import Awaitable, Callable

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.core.tools.tool import WORKSPACE
from holdfast.surfaces.http.admission import WorkspaceFinder
from holdfast.surfaces.mcp.admission import Admitted

MAX_NAMED = 10


def placing(admitted: Admitted, workspaces: WorkspaceFinder) -> Callable[[str | None], Awaitable[str]]:
    """Finds the workspace of a call, by its argument if it has one; errors name those that there are."""

    async def place(named: str | None) -> str:
        if named is None:
            if admitted.workspace_id is not None:
                return admitted.workspace_id
            problem = await _choices(admitted, workspaces)
            raise Invalid("No workspace is bound to this session.", fields=[FieldError(WORKSPACE, problem)])
        try:
            found = await workspaces.get(admitted.principal, named[:80], project_id=admitted.project_id)
        except NotFound as error:
            error.fields = (FieldError(WORKSPACE, await _choices(admitted, workspaces)),)
            raise
        if admitted.is_pinned and found.id != admitted.workspace_id:
            raise Conflict(
                "The header X-Xerotier-Workspace pins this connection to another workspace; leave the argument "
                "workspace out, or change the header."
            )
        return found.id

    return place


async def _choices(admitted: Admitted, workspaces: WorkspaceFinder) -> str:
    seen = await workspaces.seen(admitted.principal, admitted.project_id, MAX_NAMED + 1)
    if not seen:
        return "this key sees no workspace; ask whoever made it"
    names = ", ".join(f"{each.slug} ({each.name})" for each in seen[:MAX_NAMED])
    more = "" if len(seen) <= MAX_NAMED else ", and more that xerotier.workspace.list shows"
    bound = (
        "or call xerotier.session.init once with it as workspace_id"
        if admitted.session is not None
        else "or have the header X-Xerotier-Workspace set"
    )
    return f"call again with the argument workspace set to one of {names}{more}; {bound}"
