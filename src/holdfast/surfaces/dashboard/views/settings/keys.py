"""Owns `/settings/keys`: who holds a key, what a new one would see, and minting, rotating and revoking them."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.access import Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, Forbidden, HoldfastError, Invalid
from holdfast.core.principal import SCOPES, TIERS
from holdfast.core.tools.gateway import Gateway
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import MintedKey, NewKey
from holdfast.features.identity.service import Identity
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resources
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.views.settings.seen_by_key import SeenByKey, seen_by

MANAGE = Access("project", "management", role="admin")
_PAGE = 100
_DAY_MILLIS = 86_400_000
_DAYS = ("30", "90", "365")
pages = Pages(NavRow("API keys", "/settings/keys", "key", "settings", 10, MANAGE))


@pages.get("/settings/keys", MANAGE)
async def keys_page(
    view: PageView,
    keys: Keys,
    identity: Identity,
    clock: Clock,
    gateway: Gateway,
    prompts: Prompts,
    resources: Resources,
) -> Reply:
    if view.is_part and view.query.get("cursor"):
        found = await keys.list(view.principal, limit=_PAGE, cursor=view.query["cursor"])
        return view.part("settings/key_rows.html", keys=found.items, next=found.next_cursor, now=clock.now())
    projects = (await identity.projects(view.principal, limit=1)).items
    new = NewKey(name="", project_id=projects[0].id if projects else None)
    seen = seen_by(new, view.principal.organization_id, gateway, prompts, resources)
    return await _shown(view, keys, identity, clock, new=new, seen=seen)


@pages.post("/settings/keys/seen", MANAGE)
async def seen_page(view: PageView, clock: Clock, gateway: Gateway, prompts: Prompts, resources: Resources) -> Reply:
    new = _read(view, clock.now())
    seen = seen_by(new, view.principal.organization_id, gateway, prompts, resources)
    return view.part("settings/key_seen.html", seen=seen, new=new)


@pages.post("/settings/keys", MANAGE)
async def mint(
    view: PageView,
    keys: Keys,
    identity: Identity,
    clock: Clock,
    gateway: Gateway,
    prompts: Prompts,
    resources: Resources,
) -> Reply:
    new = _read(view, clock.now())
    seen = seen_by(new, view.principal.organization_id, gateway, prompts, resources)
    try:
        minted = await keys.create(view.principal, new)
    except (Invalid, Forbidden) as error:
        return await _shown(
            view, keys, identity, clock, new=new, seen=seen, errors=field_errors(error), status=error.status
        )
    return await _shown(view, keys, identity, clock, new=NewKey(name=""), seen=seen, minted=minted)


@pages.post("/settings/keys/{key_id}/rotate", MANAGE)
async def rotate(
    view: PageView,
    keys: Keys,
    identity: Identity,
    clock: Clock,
    gateway: Gateway,
    prompts: Prompts,
    resources: Resources,
) -> Reply:
    new = NewKey(name="")
    seen = seen_by(new, view.principal.organization_id, gateway, prompts, resources)
    try:
        minted = await keys.rotate_in_place(view.principal, view.path["key_id"])
    except (Conflict, Invalid) as error:
        return await _shown(
            view, keys, identity, clock, new=new, seen=seen, errors=_only_message(error), status=error.status
        )
    return await _shown(view, keys, identity, clock, new=new, seen=seen, minted=minted)


@pages.post("/settings/keys/{key_id}/revoke", MANAGE)
async def revoke(view: PageView, keys: Keys) -> Reply:
    revoked = await keys.revoke(view.principal, view.path["key_id"])
    return view.go("/settings/keys", f"{revoked.name} · {revoked.prefix}…")


async def _shown(
    view: PageView,
    keys: Keys,
    identity: Identity,
    clock: Clock,
    *,
    new: NewKey,
    seen: SeenByKey,
    minted: MintedKey | None = None,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
) -> Reply:
    found = await keys.list(view.principal, limit=_PAGE)
    context: dict[str, Any] = {
        "keys": found.items,
        "next": found.next_cursor,
        "projects": (await identity.projects(view.principal, limit=200)).items,
        "scopes": SCOPES,
        "tiers": TIERS,
        "days": _DAYS,
        "chosen_days": view.given("days"),
        "new": new,
        "seen": seen,
        "minted": minted,
        "errors": errors,
        "now": clock.now(),
    }
    return view.page("settings/keys.html", "API keys", status=status, **context)


def _read(view: PageView, now: int) -> NewKey:
    """The form as it stands; the service says what is wrong with it."""
    organization = view.given("kind") == "organization"
    tier = view.given("tier")
    days = view.given("days")
    workspaces = frozenset(view.all_given("workspaces"))
    return NewKey(
        name=view.given("name"),
        kind="organization" if organization else "project",
        project_id=None if organization else view.given("project_id") or None,
        scopes=frozenset(each for each in SCOPES if each in view.all_given("scopes")),
        tier=next((each for each in TIERS if each == tier), "core"),
        workspace_ids=None if organization or not workspaces else workspaces,
        allow_destructive=view.given("allow_destructive") == "on",
        expires_at=now + int(days) * _DAY_MILLIS if days in _DAYS else None,
    )


def _only_message(error: HoldfastError) -> dict[str, str]:
    return {"": error.message}
