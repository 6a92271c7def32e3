"""Owns `/w/{ws}/invocations`: calls of enrolled tools, and one with everything that happened to it."""

import json
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlencode

from holdfast.core.access import READ_EXEC, RUN_EXEC
from holdfast.core.errors import Invalid, NotFound
from holdfast.features.execution.model import Invocation, Status
from holdfast.features.execution.service import Execution
from holdfast.features.identity.service import Identity
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_PATH = "/w/{ws}/invocations"
_ROWS = 50
STATUSES: tuple[Status, ...] = get_args(Status)
pages = Pages(NavRow("Calls of tools", _PATH, "send", "workspace", 65, READ_EXEC))


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened to a call."""

    what: str
    """asked, waits, decided, began, sent or ended"""
    at: int
    who: str = ""
    detail: str = ""


@pages.get(_PATH, READ_EXEC)
async def index(view: PageView, execution: Execution) -> Reply:
    chosen, tool = _status(view.query.get("status", "")), view.query.get("tool", "")
    cursor = view.query.get("cursor") or None
    found = await execution.list(
        view.principal, view.ws.id, status=chosen, tool_name=tool or None, cursor=cursor, limit=_ROWS
    )
    chosen_query = {"status": chosen or "", "tool": tool}
    next_url = f"{_url(view)}?{urlencode({**chosen_query, 'cursor': found.next_cursor})}" if found.next_cursor else ""
    context: dict[str, Any] = {"calls": found.items, "next_url": next_url, "url": _url(view)}
    if view.is_part:
        return view.part("execution/rows.html", **context)
    same_url = f"{_url(view)}?{urlencode(chosen_query)}"
    return view.page(
        "execution/invocations.html",
        "Calls of tools",
        statuses=STATUSES,
        chosen=chosen,
        tool=tool,
        same_url=same_url,
        **context,
    )


@pages.get(_PATH + "/{id}", READ_EXEC)
async def show(view: PageView, execution: Execution, identity: Identity) -> Reply:
    call = await execution.get(view.principal, view.ws.id, view.path["id"])
    return view.page(
        "execution/invocation.html",
        call.tool_name,
        call=call,
        moments=await _moments(view, identity, call),
        arguments=_pretty(call.arguments),
        said=_said(call),
        rest=_rest(call),
        may_cancel=not call.finished and view.may(RUN_EXEC),
        url=_url(view),
    )


@pages.post(_PATH + "/{id}/cancel", RUN_EXEC)
async def cancel(view: PageView, execution: Execution) -> Reply:
    call = await execution.cancel(view.principal, view.ws.id, view.path["id"])
    return view.go(f"{_url(view)}/{call.id}", "It is asked to stop." if not call.finished else "It has ended.")


async def _moments(view: PageView, identity: Identity, call: Invocation) -> list[Moment]:
    """What happened, the latest last."""
    found = [Moment("asked", call.created_at, call.requested_name or call.requested_by, call.source)]
    approval = call.approval
    if approval is not None:
        found.append(Moment("waits", approval.created_at))
        if approval.decided_at is not None:
            who = await _name(view, identity, approval.decided_by)
            found.append(Moment(approval.state, approval.decided_at, who, approval.note or ""))
    if call.started_at is not None:
        found.append(Moment("began", call.started_at))
    if call.sent_at is not None:
        found.append(Moment("sent", call.sent_at))
    if call.ended_at is not None:
        found.append(Moment(call.status, call.ended_at))
    return sorted(found, key=lambda each: each.at)


async def _name(view: PageView, identity: Identity, id: str | None) -> str:
    if id is None:
        return ""
    try:
        return (await identity.user(view.principal, id)).name
    except NotFound:
        # Decided by a client's own model for a key, or by somebody who was removed since.
        return id


def _said(call: Invocation) -> str:
    """The text of the result."""
    blocks = (call.result or {}).get("content", ())
    return "\n".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text")


def _rest(call: Invocation) -> str:
    """Of the result what is no text: structured content, pictures, links."""
    result = dict(call.result or {})
    others = [each for each in result.pop("content", ()) if each.get("type") != "text"]
    result.pop("isError", None)
    return _pretty({**result, **({"content": others} if others else {})}) if result or others else ""


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=dict)


def _status(given: str) -> Status | None:
    if not given:
        return None
    found = next((each for each in STATUSES if each == given), None)
    if found is None:
        raise Invalid(f"Choose a state from {', '.join(STATUSES)}.")
    return found


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/invocations"
