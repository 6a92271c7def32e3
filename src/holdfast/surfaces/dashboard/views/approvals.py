"""Owns `/approvals` and `/approve/{token}`: calls that wait for a person. Opening a page decides nothing."""

import json
from typing import Any

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.errors import Conflict
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals, PendingCall
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_DECIDE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)
_ROWS = 50
pages = Pages(NavRow("Approvals", "/approvals", "question", "top", 30, READ_EXEC))


@pages.get("/approvals", READ_EXEC)
async def index(view: PageView, approvals: Approvals) -> Reply:
    """What waits in every workspace that this person sees."""
    page = await approvals.pending(view.principal, limit=_ROWS, cursor=view.query.get("cursor") or None)
    names = {workspace.id: workspace.name for workspace in view.workspaces}
    context: dict[str, Any] = {
        "waiting": [(names.get(each.approval.workspace_id, ""), each) for each in page.items],
        "next_url": f"/approvals?cursor={page.next_cursor}" if page.next_cursor else "",
    }
    if view.is_part and view.query.get("cursor"):
        return view.part("approvals/rows.html", **context)
    return view.page("approvals/index.html", "Approvals", **context)


@pages.get("/approve/{token}", READ_EXEC)
async def show(view: PageView, approvals: Approvals) -> Reply:
    return await _shown(view, approvals)


@pages.post("/approve/{token}", _DECIDE)
async def decide(view: PageView, approvals: Approvals) -> Reply:
    said = ApprovalDecision(view.given("decision") == "approve", view.given("note"), bool(view.given("always")))
    try:
        await approvals.decide(view.principal, view.path["token"], said, "page")
    except Conflict as late:
        return await _shown(view, approvals, problem=late.message, status=409)
    return view.go(f"/approve/{view.path['token']}", "Approved." if said.approve else "Denied.")


async def _shown(view: PageView, approvals: Approvals, *, problem: str = "", status: int = 200) -> Reply:
    asked = await approvals.get(view.principal, view.path["token"])
    arguments = dict(asked.invocation.arguments)
    return view.page(
        "approvals/show.html",
        "Approve a call",
        status=status,
        asked=asked,
        call=asked.invocation,
        pretty=json.dumps(arguments, indent=2, ensure_ascii=False),
        raw=json.dumps(arguments, separators=(",", ":"), ensure_ascii=True),
        changed=_changed(asked),
        problem=problem,
        url=f"/approve/{view.path['token']}",
    )


def _changed(asked: PendingCall) -> list[dict[str, str]]:
    """What differs from the last call of the same asker that ran."""
    last = next((each for each in asked.before if each.status == "succeeded"), None)
    if last is None:
        return []
    old, new = dict(last.arguments), dict(asked.invocation.arguments)
    return [
        {"name": name, "before": json.dumps(old.get(name)), "after": json.dumps(new.get(name))}
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
