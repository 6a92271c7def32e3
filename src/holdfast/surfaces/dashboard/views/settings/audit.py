"""Owns `/settings/audit`: what happened, by whom, filtered; as a file; and the proof that nobody changed it."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from holdfast.core.access import ADMINISTER, Access
from holdfast.core.clock import iso_or_none, parse_moment
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.audit.model import AuditFilter, Outcome
from holdfast.features.audit.service import Audit
from holdfast.features.identity.service import Identity
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_PATH = "/settings/audit"
_VERIFY = Access("organization", "management", role="admin")
_FILTERS = ("actor", "action", "outcome", "workspace_id", "since", "until")
_OUTCOMES: tuple[Outcome, ...] = ("allowed", "denied")
_PAGE = 100
_DAY_MILLIS = 86_400_000
pages = Pages(NavRow("Audit", _PATH, "audit", "settings", 50, ADMINISTER, administers=True))


@pages.get(_PATH, ADMINISTER)
async def audit_page(view: PageView, audit: Audit, identity: Identity) -> Reply:
    given = {name: view.query.get(name, "").strip()[:400] for name in _FILTERS}
    wanted = await _by_address(view, _filter(given), identity)
    page = await audit.list(view.principal, wanted, cursor=view.query.get("cursor") or None, limit=_PAGE)
    kept = {name: value for name, value in given.items() if value}
    more = f"{_PATH}?{urlencode({**kept, 'cursor': page.next_cursor})}" if page.next_cursor else ""
    context: dict[str, Any] = {"events": page.items, "more": more, "filtered": bool(kept)}
    if view.is_part and view.query.get("cursor"):
        return view.part("settings/audit_rows.html", **context)
    return view.page(
        "settings/audit.html",
        "Audit",
        **context,
        given=given,
        same_url=f"{_PATH}?{urlencode(kept)}",
        outcomes=_OUTCOMES,
        export_url=f"/api/audit/export?{urlencode(_exported(wanted))}",
        may_verify=view.may(_VERIFY),
    )


@pages.post(_PATH + "/verify", _VERIFY)
async def verify(view: PageView, audit: Audit) -> Reply:
    """Reads the whole chain, so it is a button and no part of the page."""
    found = await audit.verify(view.principal.organization_id)
    return view.page("settings/audit_verified.html", "Audit", verification=found)


async def _by_address(view: PageView, wanted: AuditFilter, identity: Identity) -> AuditFilter:
    """The filter by the id of whoever has the address that was written; people know no ids."""
    if wanted.actor is None or "@" not in wanted.actor:
        return wanted
    member = await identity.member_by_email(view.principal, wanted.actor)
    return wanted if member is None else replace(wanted, actor=member.id)


def _exported(wanted: AuditFilter) -> dict[str, str]:
    """The same filter for REST, to which a day without a time is its beginning."""
    given = {"actor": wanted.actor, "action": wanted.action, "outcome": wanted.outcome}
    given |= {
        "workspace_id": wanted.workspace_id,
        "since": iso_or_none(wanted.since),
        "until": iso_or_none(wanted.until),
    }
    return {name: value for name, value in given.items() if value}


def _filter(given: dict[str, str]) -> AuditFilter:
    outcome = next((each for each in _OUTCOMES if each == given["outcome"]), None)
    if given["outcome"] and outcome is None:
        problem = f"choose from {', '.join(_OUTCOMES)}"
        raise Invalid("The outcome cannot be read.", fields=[FieldError("outcome", problem)])
    until = parse_moment(given["until"], "until") if given["until"] else None
    if until is not None and len(given["until"]) == 10:
        until += _DAY_MILLIS  # a day stands for its end
    return AuditFilter(
        actor=given["actor"] or None,
        action=given["action"] or None,
        workspace_id=given["workspace_id"] or None,
        outcome=outcome,
        since=parse_moment(given["since"], "since") if given["since"] else None,
        until=until,
    )
