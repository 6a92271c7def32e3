"""Owns `/w/{ws}/settings/members`: who sees the workspace, who administers it, its name, and its end."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.errors import FieldError, Forbidden, HoldfastError, Invalid
from holdfast.features.identity.service import Identity
from holdfast.features.workspaces.service import Workspaces
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/w/{ws}/settings/members"
_SEE = Access("workspace", ("read", "management"))
_APPOINT = Access("workspace", "management", role="admin", people_only=True)
_CREATE = Access("project", "management", role="admin")
_PAGE = 100
pages = Pages(NavRow("Members", _PATH, "people", "workspace", 85, _SEE))


@pages.get(_PATH, _SEE)
async def members_page(view: PageView, identity: Identity, workspaces: Workspaces) -> Reply:
    if view.is_part and view.query.get("cursor"):
        return view.part("settings/member_rows.html", **await _people(view, identity, workspaces))
    return await _shown(view, identity, workspaces)


@pages.post(_PATH + "/{user_id}/admin", _APPOINT)
async def appoint(view: PageView, workspaces: Workspaces) -> Reply:
    """Let somebody administer the workspace, or no longer."""
    admin = view.given("admin") == "yes"
    await workspaces.set_admin(view.principal, view.ws.id, view.path["user_id"], admin=admin)
    return view.go(_url(view), "They administer this workspace now." if admin else "They no longer administer it.")


@pages.post(_PATH + "/name", ADMINISTER)
async def rename(view: PageView, identity: Identity, workspaces: Workspaces) -> Reply:
    try:
        await workspaces.rename(view.principal, view.ws.id, view.given("name"))
    except Invalid as error:
        return await _shown(view, identity, workspaces, error)
    return view.go(_url(view), "Changed.")


@pages.post(_PATH + "/delete", ADMINISTER)
async def delete(view: PageView, identity: Identity, workspaces: Workspaces) -> Reply:
    """Whoever ends it writes its name, since nothing brings it back."""
    if view.given("typed") != view.ws.name:
        if not view.administers:
            raise Forbidden("Only an admin of this workspace or of the organization may delete it.")
        problem = f"write {view.ws.name!r}"
        error = Invalid("The name is not the workspace's.", fields=[FieldError("typed", problem)])
        return await _shown(view, identity, workspaces, error)
    await workspaces.delete(view.principal, view.ws.id)
    return view.go("/", "The workspace is gone with everything in it.")


@pages.post(_PATH + "/new", _CREATE)
async def create(view: PageView, identity: Identity, workspaces: Workspaces) -> Reply:
    try:
        made = await workspaces.create(view.principal, view.ws.project_id, view.given("new_name"))
    except Invalid as error:
        return await _shown(view, identity, workspaces, error, {"new_name": error.fields[0].message})
    return view.go(f"/w/{made.slug}/memory", "Here it is: a workspace of its own.")


async def _people(view: PageView, identity: Identity, workspaces: Workspaces) -> dict[str, Any]:
    page = await identity.users(view.principal, limit=_PAGE, cursor=view.query.get("cursor") or None)
    return {
        "people": page.items,
        "next_url": f"{_url(view)}?cursor={page.next_cursor}" if page.next_cursor else "",
        "admins": frozenset(await workspaces.admins(view.principal, view.ws.id)),
        "url": _url(view),
    }


async def _shown(
    view: PageView,
    identity: Identity,
    workspaces: Workspaces,
    error: HoldfastError | None = None,
    fields: Mapping[str, str] = {},
) -> Reply:
    return view.page(
        "settings/members.html",
        "Members",
        status=error.status if error else 200,
        **await _people(view, identity, workspaces),
        may_create=view.may(_CREATE),
        errors={**field_errors(error), **fields} if error else None,
        new_name=view.given("new_name"),
    )


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/settings/members"
