"""Owns `/settings/profile`: one's own name and password, and how this browser shows the pages."""

from collections.abc import Mapping

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.identity.service import Identity
from holdfast.surfaces.dashboard.shell.app import LANGUAGE, THEME, setting_cookie
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.shell.words import LANGUAGES

_PATH = "/settings/profile"
_OWN = Access("self", "management", people_only=True)
_THEMES = ("light", "dark")
pages = Pages(NavRow("Profile", _PATH, "profile", "settings", 90, _OWN))


@pages.get(_PATH, _OWN)
async def profile_page(view: PageView, identity: Identity) -> Reply:
    return await _shown(view, identity)


@pages.post(_PATH + "/name", _OWN)
async def rename(view: PageView, identity: Identity) -> Reply:
    try:
        await identity.rename_user(view.principal, view.given("name"))
    except Invalid as error:
        return await _shown(view, identity, errors=field_errors(error), status=error.status)
    return view.go(_PATH)


@pages.post(_PATH + "/password", _OWN)
async def change_password(view: PageView, identity: Identity) -> Reply:
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
        return await _shown(view, identity, errors=field_errors(error), status=error.status)
    return view.go(_PATH)


@pages.post(_PATH + "/look", _OWN)
async def change_look(view: PageView) -> Reply:
    theme, language = view.given("theme"), view.given("language")
    return view.go(
        _PATH,
        "",
        setting_cookie(THEME, theme if theme in _THEMES else ""),
        setting_cookie(LANGUAGE, language if language in LANGUAGES else ""),
    )


async def _shown(
    view: PageView, identity: Identity, *, errors: Mapping[str, str] | None = None, status: int = 200
) -> Reply:
    person = await identity.user(view.principal, view.principal.actor)
    return view.page("settings/profile.html", "Profile", status=status, person=person, themes=_THEMES, errors=errors)
