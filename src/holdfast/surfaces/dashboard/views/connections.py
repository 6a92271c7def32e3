"""Owns `/connect/{server}`: a person signs in at a remote MCP server, and comes back."""

from holdfast.core.access import Access
from holdfast.core.errors import HoldfastError
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_SIGNED_IN = Access("workspace", ("read", "inference"), tier="exec", people_only=True, signed_in=True)
pages = Pages()


@pages.get("/connect/callback", _SIGNED_IN)
async def callback(view: PageView, logins: RemoteLogins) -> Reply:
    try:
        entry = await logins.finish(
            view.principal, view.query.get("state", ""), view.query.get("code", ""), view.query.get("iss")
        )
    except HoldfastError as problem:
        return view.go("/approvals", problem.message)
    workspace = next(each for each in view.workspaces if each.id == entry.workspace_id)
    return view.go(f"/w/{workspace.slug}/settings/mcp-servers/{entry.name}", "Connected.")


@pages.get("/connect/{server}", _SIGNED_IN)
async def begin(view: PageView, logins: RemoteLogins) -> Reply:
    try:
        return view.go(await logins.begin(view.principal, view.path["server"]))
    except HoldfastError as problem:
        return view.go("/approvals", problem.message)
