"""Owns the pages of decisions, the timeline and the graph."""

from typing import Any

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.errors import Invalid
from holdfast.features.intelligence.model import STATUSES, DecisionEdit, DecisionFilter, GraphQuery, NewDecision, Status
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.graph import drawn
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_ROWS = 50
_NODES = 500
pages = Pages(
    NavRow("Decisions", "/w/{ws}/decisions", "decision", "workspace", 30, READ_INTEL),
    NavRow("Timeline", "/w/{ws}/timeline", "timeline", "workspace", 40, READ_INTEL),
    NavRow("Graph", "/w/{ws}/graph", "graph", "workspace", 50, READ_INTEL),
)


@pages.get("/w/{ws}/decisions", READ_INTEL)
async def index(view: PageView, intelligence: IntelligenceService) -> Reply:
    status = _status(view.query.get("status", ""))
    page = await intelligence.decisions.page(
        view.principal, view.ws.id, DecisionFilter(status), limit=_ROWS, cursor=view.query.get("cursor")
    )
    base = f"/w/{view.ws.slug}/decisions"
    next_url = f"{base}?status={status or ''}&cursor={page.next_cursor}" if page.next_cursor else ""
    context: dict[str, Any] = {"rows": page.items, "next_url": next_url, "base": base}
    if view.is_part:
        return view.part("decisions/rows.html", **context)
    return view.page(
        "decisions/index.html", "Decisions", statuses=STATUSES, chosen=status, may_write=_may_write(view), **context
    )


@pages.get("/w/{ws}/decisions/{id}", READ_INTEL)
async def show(view: PageView, intelligence: IntelligenceService) -> Reply:
    decision = await intelligence.decisions.get(view.principal, view.ws.id, view.path["id"])
    return view.page(
        "decisions/show.html", decision.title, decision=decision, statuses=STATUSES, may_write=_may_write(view)
    )


@pages.post("/w/{ws}/decisions", WRITE_INTEL)
async def track(view: PageView, intelligence: IntelligenceService) -> Reply:
    alternatives = tuple(line.strip() for line in view.given("alternatives").splitlines() if line.strip())
    new = NewDecision(
        title=view.given("title"),
        rationale=view.given("rationale"),
        alternatives=alternatives,
        status=_status(view.given("status")),
        blocking=bool(view.given("blocking")),
    )
    made = await intelligence.decisions.track(view.principal, view.ws.id, new)
    return view.go(f"/w/{view.ws.slug}/decisions/{made.id}", "On record.")


@pages.post("/w/{ws}/decisions/{id}", WRITE_INTEL)
async def change(view: PageView, intelligence: IntelligenceService) -> Reply:
    status = _status(view.given("status"))
    edit = DecisionEdit(status=status, blocking=bool(view.given("blocking")))
    await intelligence.decisions.edit(view.principal, view.ws.id, view.path["id"], edit)
    return view.go(f"/w/{view.ws.slug}/decisions/{view.path['id']}", "Changed.")


@pages.get("/w/{ws}/timeline", READ_INTEL)
async def timeline(view: PageView, intelligence: IntelligenceService) -> Reply:
    page = await intelligence.milestones.timeline(
        view.principal, view.ws.id, limit=_ROWS, cursor=view.query.get("cursor")
    )
    base = f"/w/{view.ws.slug}/timeline"
    context: dict[str, Any] = {
        "rows": page.items,
        "titles": await intelligence.decisions.named(
            view.principal, view.ws.id, list({id for each in page.items for id in each.decisions})
        ),
        "next_url": f"{base}?cursor={page.next_cursor}" if page.next_cursor else "",
    }
    if view.is_part:
        return view.part("decisions/milestones.html", **context)
    return view.page("decisions/timeline.html", "Timeline", base=base, **context)


@pages.get("/w/{ws}/graph", READ_INTEL)
async def graph(view: PageView, intelligence: IntelligenceService) -> Reply:
    """What is related to what: a picture, and the same as a table."""
    centre = view.query.get("centre") or None
    found = await intelligence.graph(view.principal, view.ws.id, GraphQuery(centre=centre, limit=_NODES))
    return view.page(
        "decisions/graph.html",
        "Graph",
        graph=found,
        picture=drawn(found),
        centre=centre,
        graph_url=f"/w/{view.ws.slug}/graph",
    )


def _may_write(view: PageView) -> bool:
    return view.may(WRITE_INTEL)


def _status(given: str) -> Status | None:
    if not given:
        return None
    if given not in STATUSES:
        raise Invalid(f"Choose a status from {', '.join(STATUSES)}.")
    return given
