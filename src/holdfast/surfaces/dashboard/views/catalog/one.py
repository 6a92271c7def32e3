"""Owns `/w/{ws}/settings/mcp-servers/{name}`: one server, its tools, and what of them waits for a person."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.errors import Conflict, HoldfastError, Invalid, UpstreamFailed
from holdfast.features.catalog.details import ServerDetails
from holdfast.features.catalog.model import POLICIES, CatalogEntry, EnvRule, PinnedTool, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.pins import changes, description_json, digest_of
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.views.catalog.server_form import SHAPES, filled, read_entry, typed
from holdfast.surfaces.dashboard.views.catalog.servers import MANAGE, PATH, check_administers, url_of

_ONE = PATH + "/{name}"
_ACCEPT = Access("workspace", "management", role="admin", tier="exec", people_only=True)
_SIGNED_IN = Access("workspace", ("read", "inference"), tier="exec", people_only=True, signed_in=True)
_CLAIMS: Mapping[str, bool | None] = {"yes": True, "no": False, "": None}
pages = Pages()


@pages.get(_ONE, READ_EXEC)
async def server_page(view: PageView, details: ServerDetails) -> Reply:
    return await _shown(view, details)


@pages.post(_ONE, MANAGE)
async def change(view: PageView, details: ServerDetails, catalog: ServerCatalog) -> Reply:
    """Say anew what the server is."""
    check_administers(view)
    entry = await catalog.get(view.principal, view.ws.id, view.path["name"])
    try:
        await catalog.change(view.principal, view.ws.id, entry.name, read_entry(view, entry.spec))
    except (Conflict, Invalid) as error:
        return await _shown(view, details, error=error, form=typed(view))
    return view.go(_url(view), "Changed. Probe it to see its tools as they are now.")


@pages.post(_ONE + "/probe", MANAGE)
async def probe(view: PageView, details: ServerDetails, catalog: ServerCatalog, pins: ToolPins) -> Reply:
    """Start it and pin its tools; what could not be installed is installed first, and then probed by that job."""
    check_administers(view)
    entry = await catalog.get(view.principal, view.ws.id, view.path["name"])
    try:
        if entry.install == "failed":
            await catalog.change(view.principal, view.ws.id, entry.name, entry.spec)
            return view.go(_url(view), "It is being installed again.")
        await pins.probe(view.principal, view.ws.id, view.path["name"])
    except (Conflict, Invalid, UpstreamFailed) as error:
        return await _shown(view, details, error=error)
    return view.go(_url(view), "These are its tools now.")


@pages.post(_ONE + "/enabled", MANAGE)
async def switch(view: PageView, catalog: ServerCatalog) -> Reply:
    check_administers(view)
    on = view.given("enabled") == "yes"
    entry = await catalog.get(view.principal, view.ws.id, view.path["name"])
    await catalog.change(view.principal, view.ws.id, entry.name, replace(entry.spec, enabled=on))
    return view.go(_url(view), "It is switched on." if on else "It is switched off.")


@pages.post(_ONE + "/disconnect", _SIGNED_IN)
async def disconnect(view: PageView, catalog: ServerCatalog, logins: RemoteLogins) -> Reply:
    """Forget the login of the person who looks."""
    entry = await catalog.get(view.principal, view.ws.id, view.path["name"])
    await logins.disconnect(view.principal, entry.id)
    return view.go(_url(view), "Your login there is forgotten.")


@pages.post(_ONE + "/remove", MANAGE)
async def remove(view: PageView, catalog: ServerCatalog) -> Reply:
    await catalog.remove(view.principal, view.ws.id, view.path["name"])
    return view.go(url_of(view), "The server and its tools are gone.")


@pages.post(_ONE + "/tools/{tool}", MANAGE)
async def set_tool(view: PageView, details: ServerDetails, pins: ToolPins) -> Reply:
    """How calls of a tool are decided; what is left open goes back to the default."""
    wanted = ToolChange(
        policy=next((each for each in POLICIES if each == view.given("policy")), None),
        destructive=_CLAIMS.get(view.given("destructive")),
        idempotent=view.given("idempotent") == "on",
        scope=view.given("scope") or None,
    )
    cleared = frozenset(name for name in ("policy", "destructive", "scope") if getattr(wanted, name) is None)
    change = replace(wanted, cleared=cleared)
    try:
        await pins.set(view.principal, view.ws.id, view.path["name"], view.path["tool"], change)
    except Invalid as error:
        return await _shown(view, details, error=error, tool=view.path["tool"])
    return view.go(_url(view), "Changed.")


@pages.post(_ONE + "/tools/{tool}/accept", _ACCEPT)
async def accept(view: PageView, details: ServerDetails, pins: ToolPins) -> Reply:
    try:
        seen = view.given("digest")
        await pins.accept(view.principal, view.ws.id, view.path["name"], view.path["tool"], seen=seen)
    except Conflict as error:
        return await _shown(view, details, error=error)
    return view.go(_url(view), "Accepted.")


async def _shown(
    view: PageView,
    details: ServerDetails,
    *,
    error: HoldfastError | None = None,
    form: Mapping[str, str] | None = None,
    tool: str = "",
) -> Reply:
    may_change = view.administers and view.may(MANAGE)
    detail = await details.of(view.principal, view.ws.id, view.path["name"], with_logs=may_change)
    entry = detail.entry
    rules = list(entry.spec.manifest.env.items())
    context: dict[str, Any] = {
        "entry": entry,
        "spec": entry.spec,
        "expects": [each for each in rules if not _is_mere_guess(entry, *each)],
        "may_expect": [each for each in rules if _is_mere_guess(entry, *each)],
        "job": detail.job,
        "tools": detail.tools,
        "waiting": [
            (each, digest_of(each.waiting or each.pinned), _differences(each)) for each in _waiting(detail.tools)
        ],
        "chosen": (tool or view.query.get("tool", "")) if may_change else "",
        "logs": detail.logs,
        "people": detail.people,
        "is_connected": view.principal.actor in [each.standing.user_id for each in detail.people],
        "may_change": may_change,
        "policies": POLICIES,
        "shapes": SHAPES,
        "form": form or filled(entry.spec),
        "errors": field_errors(error) if error else None,
        "login_url": getattr(error, "url", ""),
        "url": _url(view),
    }
    return view.page("catalog/show.html", entry.name, status=_status(error), **context)


def _is_mere_guess(entry: CatalogEntry, name: str, rule: EnvRule) -> bool:
    """Whether nothing but a README speaks of a variable: a server may name fifty that nobody needs."""
    return rule.guessed and not rule.required and not entry.spec.env.get(name)


def _status(error: HoldfastError | None) -> int:
    if error is None:
        return 200
    # What a server elsewhere did wrong is no failure of this page.
    return 409 if isinstance(error, UpstreamFailed) else error.status


def _waiting(tools: Sequence[PinnedTool]) -> list[PinnedTool]:
    return [each for each in tools if each.state == "quarantined"]


def _differences(pin: PinnedTool) -> list[tuple[str, list[tuple[str, str]]]]:
    """By part of the description: its lines, each with what became of it. Everything of a new tool is added."""
    if pin.waiting is not None:
        found = changes(pin.pinned, pin.waiting)
    else:
        found = {
            part: {"before": None, "after": told}
            for part, told in description_json(pin.pinned).items()
            if told not in (None, "", {})
        }
    return [(part, _lines(each["before"], each["after"])) for part, each in found.items()]


def _lines(before: Any, after: Any) -> list[tuple[str, str]]:
    kinds = {"+": "add", "-": "cut", "@": "place"}
    compared = difflib.unified_diff(_text(before).splitlines(), _text(after).splitlines(), lineterm="")
    # Without the two lines that would name files.
    return [(kinds.get(line[:1], "same"), line) for line in list(compared)[2:]]


def _text(told: Any) -> str:
    if told is None:
        return ""
    return told if isinstance(told, str) else json.dumps(told, indent=2, ensure_ascii=False)


def _url(view: PageView) -> str:
    return f"{url_of(view)}/{view.path['name']}"
