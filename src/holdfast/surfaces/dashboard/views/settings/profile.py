"""Owns `/settings/profile`: one's own name, password and sessions, and how this browser shows the pages."""

from collections.abc import Mapping

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.surfaces.dashboard.shell.app import SINGLE_KEYS, THEME, setting_cookie
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.shell.words import LANGUAGE, LANGUAGES

_PATH = "/settings/profile"
_OWN = Access("self", "management", people_only=True)
_THEMES = ("light", "dark")
pages = Pages(NavRow("Profile", _PATH, "profile", "settings", 90, _OWN))


@pages.get(_PATH, _OWN)
async def profile_page(view: PageView, identity: Identity, sign_in: SignIn) -> Reply:
    return await _shown(view, identity, sign_in)


@pages.post(_PATH + "/name", _OWN)
async def rename(view: PageView, identity: Identity, sign_in: SignIn) -> Reply:
    try:
        await identity.rename_user(view.principal, view.given("name"))
    except Invalid as error:
        return await _shown(view, identity, sign_in, errors=field_errors(error), status=error.status)
    return view.go(_PATH, "Saved.")


@pages.post(_PATH + "/password", _OWN)
async def change_password(view: PageView, identity: Identity, sign_in: SignIn) -> Reply:
    typed = {name: next(iter(view.form.get(name, ())), "") for name in ("password", "current")}
    try:
        await identity.set_password(
            view.principal,
            view.principal.actor,
            typed["password"],
            current=typed["current"] or None,
            cookie=view.cookie,
        )
    except (Forbidden, Invalid) as error:
        return await _shown(view, identity, sign_in, errors=field_errors(error), status=error.status)
    return view.go(_PATH, "Saved. Every other session of yours has ended.")


@pages.post(_PATH + "/sessions", _OWN)
async def sign_out_elsewhere(view: PageView, sign_in: SignIn) -> Reply:
    await sign_in.sign_out_elsewhere(view.cookie)
    return view.go(_PATH, "Every other session of yours has ended.")


@pages.post(_PATH + "/organization", _OWN)
async def switch_organization(view: PageView, sign_in: SignIn) -> Reply:
    await sign_in.switch(view.principal, view.cookie, view.given("organization_id"))
    return view.go("/")


@pages.post(_PATH + "/look", _OWN)
async def change_look(view: PageView) -> Reply:
    theme, language = view.given("theme"), view.given("language")
    return view.go(
        _PATH,
        "Saved.",
        setting_cookie(THEME, theme if theme in _THEMES else ""),
        setting_cookie(LANGUAGE, language if language in LANGUAGES else ""),
        setting_cookie(SINGLE_KEYS, "" if view.given("single_keys") else "off"),
    )


async def _shown(
    view: PageView,
    identity: Identity,
    sign_in: SignIn,
    *,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Reply:
    return view.page(
        "settings/profile.html",
        "Profile",
        status=status,
        person=await identity.user(view.principal, view.principal.actor),
        organizations=await identity.organizations_of(view.principal.actor),
        sessions=await sign_in.sessions(view.cookie),
        themes=_THEMES,
        errors=errors,
    )
