"""Owns `/settings/people`: who belongs to the organization and as what, and how others come in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import Access, at_least
from holdfast.core.errors import Conflict, FieldError, Forbidden, HoldfastError, Invalid
from holdfast.core.principal import ROLES, Role
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/settings/people"
_ONE = _PATH + "/{user_id}"
_MANAGE = Access("organization", "management", role="admin", people_only=True)
_PAGE = 50
pages = Pages(NavRow("People", _PATH, "people", "settings", 20, _MANAGE))


@dataclass(frozen=True, slots=True)
class FreshLink:
    """A link that is shown this once: whom it is for, and what it does."""

    who: str
    url: str
    invites: bool


@pages.get(_PATH, _MANAGE)
async def people_page(view: PageView, identity: Identity, invitations: Invitations) -> Reply:
    if view.is_part and view.query.get("invited"):
        return view.part("settings/invited_rows.html", **await _invited(view, invitations))
    if view.is_part and view.query.get("cursor"):
        page = await identity.users(view.principal, limit=_PAGE, cursor=view.query["cursor"])
        return view.part("settings/people_rows.html", people=page.items, next=page.next_cursor, roles=_roles(view))
    return await _shown(view, identity, invitations)


@pages.post(_PATH, _MANAGE)
async def invite(view: PageView, identity: Identity, invitations: Invitations) -> Reply:
    try:
        made = await invitations.invite(
            view.principal, email=view.given("email"), name=view.given("name"), role=_role(view.given("role"))
        )
    except (Conflict, Forbidden, Invalid) as error:
        return await _refused(view, identity, invitations, error)
    link = FreshLink(made.invitation.email, f"{view.public_url}/join?invitation={made.secret}", invites=True)
    return await _shown(view, identity, invitations, link=link)


@pages.post(_ONE + "/role", _MANAGE)
async def change_role(view: PageView, identity: Identity, invitations: Invitations) -> Reply:
    try:
        await identity.set_role(view.principal, view.path["user_id"], _role(view.given("role")))
    except (Conflict, Forbidden, Invalid) as error:
        return await _refused(view, identity, invitations, error)
    return view.go(_PATH, "Changed.")


@pages.post(_ONE + "/link", _MANAGE)
async def sign_in_link(view: PageView, identity: Identity, invitations: Invitations, sign_in: SignIn) -> Reply:
    person = await identity.user(view.principal, view.path["user_id"])
    try:
        made = await sign_in.new_link(view.principal, person.id)
    except (Conflict, Forbidden) as error:
        return await _refused(view, identity, invitations, error)
    link = FreshLink(person.email, f"{view.public_url}/sign-in?link={made.secret}", invites=False)
    return await _shown(view, identity, invitations, link=link)


@pages.post(_ONE + "/remove", _MANAGE)
async def remove(view: PageView, identity: Identity, invitations: Invitations, keys: Keys) -> Reply:
    """The keys that they made go on, unless the form asks to revoke them too."""
    try:
        made = await identity.remove_user(view.principal, view.path["user_id"])
    except (Conflict, Forbidden) as error:
        return await _refused(view, identity, invitations, error)
    if view.given("revoke_keys"):
        for key in made:
            await keys.revoke(view.principal, key.id)
    return view.go(_PATH, "They no longer belong to the organization.")


@pages.post(_PATH + "/invitations/{id}/withdraw", _MANAGE)
async def withdraw(view: PageView, invitations: Invitations) -> Reply:
    await invitations.withdraw(view.principal, view.path["id"])
    return view.go(_PATH, "The invitation no longer works.")


async def _refused(view: PageView, identity: Identity, invitations: Invitations, error: HoldfastError) -> Reply:
    return await _shown(view, identity, invitations, errors=field_errors(error), status=error.status)


async def _shown(
    view: PageView,
    identity: Identity,
    invitations: Invitations,
    *,
    link: FreshLink | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Reply:
    page = await identity.users(view.principal, limit=_PAGE)
    context: dict[str, Any] = {
        "people": page.items,
        "next": page.next_cursor,
        **await _invited(view, invitations),
        "roles": _roles(view),
        "link": link,
        "errors": errors,
        "given": {name: view.given(name) if errors else "" for name in ("email", "name", "role")},
    }
    return view.page("settings/people.html", "People", status=status, **context)


async def _invited(view: PageView, invitations: Invitations) -> dict[str, Any]:
    page = await invitations.list(view.principal, limit=_PAGE, cursor=view.query.get("invited") or None)
    more = f"{_PATH}?invited={page.next_cursor}" if page.next_cursor else ""
    return {"invited": page.items, "more_invited": more}


def _roles(view: PageView) -> list[Role]:
    """What one may hand out: nothing above one's own."""
    return [role for role in ROLES if at_least(view.principal.role, role)]


def _role(given: str) -> Role:
    for role in ROLES:
        if role == given:
            return role
    raise Invalid("No such role.", fields=[FieldError("role", f"choose from {', '.join(ROLES)}")])
