"""Owns `/w/{ws}/settings/secrets`: names in three states, and values that go in and never come out."""

from collections.abc import Mapping

from holdfast.core.access import ADMINISTER
from holdfast.core.errors import Conflict, Invalid
from holdfast.features.secrets.service import Secrets
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.lists import ROWS, next_of
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/w/{ws}/settings/secrets"
pages = Pages(NavRow("Secrets", _PATH, "secret", "workspace", 80, ADMINISTER, administers=True))


@pages.get(_PATH, ADMINISTER)
async def secrets_page(view: PageView, secrets: Secrets) -> Reply:
    return await _shown(view, secrets)


@pages.post(_PATH, ADMINISTER)
async def set_secret(view: PageView, secrets: Secrets) -> Reply:
    name = view.given("name")
    # As it was typed: a value may begin or end with a space.
    value = next(iter(view.form.get("value", ())), "")
    hosts = view.given("hosts").replace(",", " ").split()
    try:
        await secrets.set(view.principal, view.ws.id, name, value, hosts or None)
    except (Conflict, Invalid) as error:
        return await _shown(view, secrets, errors=field_errors(error), status=error.status)
    return view.go(_url(view), "Saved.")


@pages.post(_PATH + "/{name}/clear", ADMINISTER)
async def clear_secret(view: PageView, secrets: Secrets) -> Reply:
    await secrets.clear(view.principal, view.ws.id, view.path["name"])
    return view.go(_url(view))


async def _shown(
    view: PageView,
    secrets: Secrets,
    *,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Reply:
    found = await secrets.page(view.principal, view.ws.id, limit=ROWS, cursor=view.query.get("cursor"))
    return view.page(
        "settings/secrets.html",
        "Secrets",
        status=status,
        secrets=found.items,
        next_url=next_of(found, _url(view)),
        may_change=view.administers,
        replacing=view.query.get("replace", "") if view.administers else "",
        name=view.given("name"),
        errors=errors,
        url=_url(view),
    )


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/settings/secrets"
