"""Owns what every page stands in: navigation, who is signed in, language and theme, and the headers that guard it."""

from collections.abc import Sequence
from typing import Any

from holdfast.surfaces.dashboard.shell.declarations import NavRow
from holdfast.surfaces.dashboard.shell.templates import environment
from holdfast.surfaces.dashboard.shell.view import PageView, Rendered
from holdfast.surfaces.dashboard.shell.words import LANGUAGES

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def markup(view: PageView, places: Sequence[NavRow], reply: Rendered, notice: str, path: str) -> bytes:
    """The page or its part, whole and encoded."""
    template = environment(view.language).get_template(reply.template)
    return template.render(**_around(view, places, notice, path), **reply.context).encode()


def _around(view: PageView, places: Sequence[NavRow], notice: str, path: str) -> dict[str, Any]:
    shown = [place for place in places if view.may(place.access) and (view.administers or not place.administers)]
    return {
        "view": view,
        "me": view.session,
        "csrf": view.session.csrf,
        "notice": notice,
        "here": path,
        "languages": LANGUAGES,
        "navigation": {group: _rows(view, shown, group, path) for group in ("top", "workspace", "settings")},
    }


def _rows(view: PageView, places: Sequence[NavRow], group: str, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place in sorted((each for each in places if each.group == group), key=lambda each: each.order):
        if "{ws}" in place.path and view.workspace is None:
            continue
        url = place.path.replace("{ws}", view.workspace.slug if view.workspace else "")
        current = path == url or (url != "/" and path.startswith(url + "/"))
        rows.append({"title": place.title, "url": url, "icon": place.icon, "current": current})
    return rows
