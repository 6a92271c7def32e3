"""Owns `/approvals` and `/approve/{token}`: calls that wait for a person. Opening a page decides nothing."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.errors import Conflict, Invalid
from holdfast.features.execution.approvals.service import ApprovalDecision, Approvals, PendingCall
from holdfast.features.execution.model import ApprovalNotFound
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_DECIDE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)
_ROWS = 50
_MOST_AT_ONCE = 50
pages = Pages(NavRow("Approvals", "/approvals", "question", "top", 30, READ_EXEC))


@dataclass(frozen=True, slots=True)
class EqualCalls:
    """Calls of one tool with the same arguments, whoever asked: one thing to read, and one decision about each."""

    workspace: str
    calls: Sequence[PendingCall]

    @property
    def first(self) -> PendingCall:
        """The newest of them, which stands for all."""
        return self.calls[0]

    @property
    def askers(self) -> str:
        """Who asks, each once."""
        return ", ".join(
            dict.fromkeys(each.invocation.requested_name or each.invocation.requested_by for each in self.calls)
        )

    @property
    def ids(self) -> str:
        """What a decision about all of them names."""
        return " ".join(each.approval.id for each in self.calls)

    @property
    def changes(self) -> list[dict[str, str]]:
        """What differs from the last approved call, by argument."""
        return shown_changes(self.first)

    @property
    def arguments(self) -> str:
        """All of them, readable."""
        return pretty(self.first)


@pages.get("/approvals", READ_EXEC)
async def index(view: PageView, approvals: Approvals) -> Reply:
    return await _listed(view, approvals)


@pages.post("/approvals", _DECIDE)
async def decide_equal(view: PageView, approvals: Approvals) -> Reply:
    """Decide about calls that are equal, each by itself: what was decided meanwhile stays as it is."""
    said = ApprovalDecision(view.given("decision") == "approve", view.given("note"))
    late: list[str] = []
    ids = view.given("ids").split()[:_MOST_AT_ONCE]
    if not ids:
        raise ApprovalNotFound("")
    for id in ids:
        try:
            await approvals.decide(view.principal, id, said, "page")
        except Conflict as problem:
            late.append(problem.message)
    if late:
        return await _listed(view, approvals, problem=" ".join(dict.fromkeys(late)), status=409)
    return view.go("/approvals", "Approved." if said.approve else "Denied.")


@pages.get("/approve/{token}", READ_EXEC)
async def show(view: PageView, approvals: Approvals) -> Reply:
    return await _shown(view, approvals)


@pages.post("/approve/{token}", _DECIDE)
async def decide(view: PageView, approvals: Approvals) -> Reply:
    said = ApprovalDecision(
        view.given("decision") == "approve", view.given("note"), bool(view.given("always")), bool(view.given("session"))
    )
    try:
        await approvals.decide(view.principal, view.path["token"], said, "page")
    except (Conflict, Invalid) as problem:
        told = " ".join([problem.message, *(f"{each.field}: {each.message}." for each in problem.fields)])
        return await _shown(view, approvals, problem=told, status=problem.status)
    return view.go(f"/approve/{view.path['token']}", "Approved." if said.approve else "Denied.")


async def _listed(view: PageView, approvals: Approvals, *, problem: str = "", status: int = 200) -> Reply:
    """What waits in every workspace that this person sees, equal calls together."""
    groups: dict[tuple[str, str, str, str], list[PendingCall]] = {}
    names = {workspace.id: workspace.name for workspace in view.workspaces}
    for workspace_id in names:
        page = await approvals.list(view.principal, workspace_id, state="pending", limit=_ROWS)
        for each in page.items:
            call = each.invocation
            key = (workspace_id, call.tool_name, call.tool_digest, call.arguments_digest)
            groups.setdefault(key, []).append(each)
    waiting = [EqualCalls(names[key[0]], calls) for key, calls in groups.items()]
    return view.page("approvals/index.html", "Approvals", status=status, waiting=waiting, problem=problem)


async def _shown(view: PageView, approvals: Approvals, *, problem: str = "", status: int = 200) -> Reply:
    asked = await approvals.get(view.principal, view.path["token"])
    arguments = dict(asked.invocation.arguments)
    return view.page(
        "approvals/show.html",
        "Approve a call",
        status=status,
        asked=asked,
        call=asked.invocation,
        pretty=pretty(asked),
        raw=json.dumps(arguments, separators=(",", ":"), ensure_ascii=True),
        changed=shown_changes(asked),
        problem=problem,
        url=f"/approve/{view.path['token']}",
    )


def pretty(asked: PendingCall) -> str:
    """The arguments of a call, readable."""
    return json.dumps(dict(asked.invocation.arguments), indent=2, ensure_ascii=False)


def shown_changes(asked: PendingCall) -> list[dict[str, str]]:
    """What differs from the last call of the same asker that a person let run."""

    def text(value: Any) -> str:
        return "" if value is None else json.dumps(value, ensure_ascii=False)

    return [{"name": each.name, "before": text(each.before), "after": text(each.after)} for each in asked.changes]
