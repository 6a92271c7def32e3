"""Owns `/settings/keys`: who holds a key, what a new one would see, and minting, rotating and revoking them."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class KeyPreview:
    """Says what a key that is not made yet would see."""

    gateway: Gateway
    prompts: Prompts
    resources: Resources

    async def of(self, view: PageView, new: NewKey) -> SeenByKey:
        """In the first workspace that it is confined to; else in the one that is looked at, if it is its project's."""
        at = next(iter(sorted(new.workspace_ids or ())), None)
        if at is None and view.workspace is not None and view.workspace.project_id == new.project_id:
            at = view.workspace.id
        at = at if any(each.id == at for each in view.workspaces) else None
        return await seen_by(new, view.principal.organization_id, at, self.gateway, self.prompts, self.resources)


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
    return await _shown(view, keys, identity, clock, KeyPreview(gateway, prompts, resources))


@pages.post("/settings/keys/seen", MANAGE)
async def seen_page(view: PageView, clock: Clock, gateway: Gateway, prompts: Prompts, resources: Resources) -> Reply:
    new = _read(view, clock.now())
    seen = await KeyPreview(gateway, prompts, resources).of(view, new)
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
    """The key, once, above a form for another one."""
    new, preview = _read(view, clock.now()), KeyPreview(gateway, prompts, resources)
    try:
        minted = await keys.create(view.principal, new)
    except (Invalid, Forbidden) as error:
        return await _shown(view, keys, identity, clock, preview, new=new, error=error)
    return await _shown(view, keys, identity, clock, preview, minted=minted)


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
    preview = KeyPreview(gateway, prompts, resources)
    try:
        minted = await keys.rotate_in_place(view.principal, view.path["key_id"])
    except (Conflict, Invalid) as error:
        return await _shown(view, keys, identity, clock, preview, error=error)
    return await _shown(view, keys, identity, clock, preview, minted=minted)


@pages.post("/settings/keys/{key_id}/revoke", MANAGE)
async def revoke(view: PageView, keys: Keys) -> Reply:
    await keys.revoke(view.principal, view.path["key_id"])
    return view.go("/settings/keys", "Revoked. Whoever uses the key is refused from now on.")


async def _shown(
    view: PageView,
    keys: Keys,
    identity: Identity,
    clock: Clock,
    preview: KeyPreview,
    *,
    new: NewKey | None = None,
    minted: MintedKey | None = None,
    error: HoldfastError | None = None,
) -> Reply:
    found = await keys.list(view.principal, limit=_PAGE)
    projects = (await identity.projects(view.principal, limit=200)).items
    form = new or NewKey(name="", project_id=projects[0].id if projects else None)
    context: dict[str, Any] = {
        "keys": found.items,
        "next": found.next_cursor,
        "projects": projects,
        "scopes": SCOPES,
        "tiers": TIERS,
        "days": _DAYS,
        "chosen_days": view.given("days") if new else "",
        "new": form,
        "seen": await preview.of(view, form),
        "minted": minted,
        "errors": field_errors(error) if error else None,
        "now": clock.now(),
    }
    return view.page("settings/keys.html", "API keys", status=error.status if error else 200, **context)


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
