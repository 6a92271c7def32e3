"""Owns the pages of cases: the list, the queue, the board, and one case with its criteria and proofs."""

import json
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import READ, READ_EXEC, READ_INTEL, RUN_EXEC, WRITE
from holdfast.core.clock import parse_moment
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import NewSession, SessionFilter
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.cases.model import HIGHEST, LOWEST, Case, CaseClaim, CaseFilter, NewCase, Taking, Writing
from holdfast.features.cases.proofs.model import NewProof
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import STATES, State, moves
from holdfast.features.intelligence.model import GraphQuery
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.graph import drawn
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, Sent, field_errors

_ROWS = 50
_SESSIONS = 5
_NODES = 60
_DAY_MILLIS = 24 * 60 * 60 * 1000
_PRIORITIES = tuple(str(each) for each in range(HIGHEST, LOWEST + 1))
_CARDS = 30
"""How many cases a column of the board shows; the list of its state has them all."""
pages = Pages(NavRow("Cases", "/w/{ws}/cases", "check", "workspace", 35, READ))


@dataclass(frozen=True, slots=True)
class CaseCard:
    """A case on the board, and where it can go from its column."""

    case: Case
    claim: CaseClaim | None
    moves: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A state with the first cases in it."""

    state: State
    cards: tuple[CaseCard, ...]
    has_more: bool


@pages.get("/w/{ws}/cases", READ)
async def index(view: PageView, cases: CaseService) -> Reply:
    if view.query.get("view") == "board":
        return await _board(view, cases)
    base = f"/w/{view.ws.slug}/cases"
    chosen = view.query.get("state", "")
    where: dict[str, Any] = {"limit": _ROWS, "cursor": view.query.get("cursor") or None}
    if chosen == "ready":
        page = await cases.claims.ready_page(view.principal, view.ws.id, **where)
    else:
        page = await cases.page(view.principal, view.ws.id, CaseFilter(_state(chosen)), **where)
    next_url = f"{base}?state={chosen}&cursor={page.next_cursor}" if page.next_cursor else ""
    now = cases.base.clock.now()
    shown = [(case, case.claim(now)) for case in page.items]
    context: dict[str, Any] = {"rows": shown, "next_url": next_url, "base": base}
    if view.is_part:
        return view.part("cases/rows.html", **context)
    return view.page("cases/index.html", "Cases", states=STATES, chosen=chosen, may_write=_may_write(view), **context)


@pages.post("/w/{ws}/cases", WRITE)
async def add(view: PageView, cases: CaseService) -> Reply:
    criteria = tuple(line.strip() for line in view.given("criteria").splitlines() if line.strip())
    kind = "bug" if view.given("kind") == "bug" else "task"
    new = NewCase(
        title=view.given("title"),
        body=view.given("body"),
        kind=kind,  # type: ignore[arg-type] # one of the two
        criteria=criteria,
        repository=view.given("repository") or None,
        base_commit=view.given("base_commit") or None,
    )
    made = await cases.add(view.principal, view.ws.id, new)
    return view.go(f"/w/{view.ws.slug}/cases/{made.id}", "On record.")


@pages.get("/w/{ws}/cases/{id}", READ)
async def show(
    view: PageView,
    reading: CaseReading,
    proofs: ProofService,
    agents: AgentDefinitions,
    sessions: AgentSessions,
    intelligence: IntelligenceService,
) -> Reply:
    case = await reading.read(view.principal, view.ws.id, view.path["id"])
    _, found = await proofs.of_case(view.principal, view.ws.id, case.id)
    base = f"/w/{view.ws.slug}/cases"
    tied = [each.case_id for each in case.links] + [*case.blocked_by, *case.children]
    tied += [each.detail["case_id"] for each in case.history if "case_id" in each.detail]
    titles = await reading.titles(view.principal, view.ws.id, [*tied, *([case.parent] if case.parent else [])])
    return view.page(
        "cases/show.html",
        case.title,
        case=case,
        titles=titles,
        proofs=found,
        base=base,
        may_write=_may_write(view),
        priorities=_PRIORITIES,
        agents=await agents.list(view.principal, view.ws.id) if view.may(RUN_EXEC) else (),
        **await _sessions(view, sessions, case.id),
        **await _related(view, intelligence, case.id),
    )


@pages.post("/w/{ws}/cases/{id}/run", RUN_EXEC)
async def run_agent(view: PageView, sessions: AgentSessions) -> Reply:
    """Set an agent to work on the case, which it claims."""
    new = NewSession(view.given("prompt"), view.path["id"])
    made = await sessions.start(view.principal, view.ws.id, view.given("agent"), new)
    return view.go(f"/w/{view.ws.slug}/sessions/{made.id}")


@pages.post("/w/{ws}/cases/{id}/move", WRITE)
async def move(view: PageView, cases: CaseService) -> Reply:
    """One step. What is refused on the board is said there; where only the reason is missing, it asks for it."""
    to = _state(view.given("state"))
    if to is None:
        raise Invalid("Choose where the case goes.")
    version = view.given("version")
    writing = Writing(int(version) if version.isdecimal() and len(version) < 10 else None)
    by_board = view.given("view") == "board"
    id, reason = view.path["id"], view.given("reason")
    try:
        await cases.move(view.principal, view.ws.id, id, to, reason=reason, writing=writing)
    except (Conflict, Forbidden, Invalid) as error:
        if not by_board:
            raise
        asked = None
        if any(wrong.field == "reason" for wrong in error.fields):
            asked = {"case": await cases.get(view.principal, view.ws.id, id), "state": to, "reason": reason}
        return await _board(view, cases, asked=asked, errors=field_errors(error), status=error.status)
    return view.go(f"/w/{view.ws.slug}/cases?view=board#{id}" if by_board else _one(view), "Moved.")


@pages.post("/w/{ws}/cases/{id}/plan", WRITE)
async def plan(view: PageView, cases: CaseService) -> Reply:
    """Whose it is, by when, how urgent, and its labels; a field that is left empty is taken away."""
    due, priority = view.given("due"), view.given("priority")
    if priority not in _PRIORITIES:
        raise Invalid("Choose a priority.", fields=[FieldError("priority", f"one of {', '.join(_PRIORITIES)}")])
    changes = {
        "assignee": view.given("assignee") or None,
        # Work is due until the day is over.
        "due_at": parse_moment(due[:10], "due") + _DAY_MILLIS - 1 if due else None,
        "priority": int(priority),
        "labels": tuple(each.strip() for each in view.given("labels").split(",") if each.strip()),
    }
    await cases.edit(view.principal, view.ws.id, view.path["id"], changes)
    return view.go(_one(view), "Saved.")


@pages.post("/w/{ws}/cases/{id}/claim", WRITE)
async def claim(view: PageView, cases: CaseService) -> Reply:
    await cases.claims.claim(view.principal, view.ws.id, view.path["id"], Taking())
    return view.go(_one(view), "It is yours.")


@pages.post("/w/{ws}/cases/{id}/release", WRITE)
async def release(view: PageView, cases: CaseService) -> Reply:
    await cases.claims.release(view.principal, view.ws.id, view.path["id"], None)
    return view.go(_one(view), "Nobody holds it now.")


@pages.post("/w/{ws}/cases/{id}/comments", WRITE)
async def comment(view: PageView, cases: CaseService) -> Reply:
    await cases.comment(view.principal, view.ws.id, view.path["id"], view.given("text"))
    return view.go(_one(view), "Said.")


@pages.post("/w/{ws}/cases/{id}/word", WRITE)
async def give_word(view: PageView, proofs: ProofService) -> Reply:
    """A person's word for some criteria, or for the whole case."""
    new = NewProof(kind="word", claim=view.given("claim"), criteria=tuple(view.all_given("criteria")))
    await proofs.add(view.principal, view.ws.id, view.path["id"], new)
    return view.go(_one(view), "Your word is on record.")


@pages.post("/w/{ws}/cases/{id}/proofs/{proof}/run", WRITE)
async def run(view: PageView, proofs: ProofService) -> Reply:
    await proofs.run(view.principal, view.ws.id, view.path["proof"])
    return view.go(_one(view), "It is being run.")


@pages.get("/w/{ws}/cases/{id}/proofs/{proof}/statement", READ)
async def statement(view: PageView, proofs: ProofService) -> Reply:
    envelope = await proofs.statement(view.principal, view.ws.id, view.path["proof"])
    kept = f'attachment; filename="{view.path["proof"]}.intoto.json"'
    return Sent(json.dumps(envelope.as_json()).encode(), "application/json", {"Content-Disposition": kept})


async def _board(view: PageView, cases: CaseService, *, status: int = 200, **context: Any) -> Reply:
    found = await cases.lanes(view.principal, view.ws.id, _CARDS + 1)
    now = cases.base.clock.now()
    columns = [
        BoardColumn(
            state,
            tuple(
                CaseCard(case, case.claim(now), moves(case.kind, state, case.blocked_from)) for case in rows[:_CARDS]
            ),
            len(rows) > _CARDS,
        )
        for state, rows in found.items()
    ]
    shown: dict[str, Any] = {"columns": columns, "base": f"/w/{view.ws.slug}/cases", "may_write": _may_write(view)}
    if view.is_part:
        return view.part("cases/columns.html", **shown)
    told = {"asked": None, "errors": None, **context}
    return view.page("cases/board.html", "Cases", status=status, **shown, **told)


async def _sessions(view: PageView, sessions: AgentSessions, case_id: str) -> dict[str, Any]:
    """What agents did on a case, the newest first; nothing for who may not see sessions."""
    url = f"/w/{view.ws.slug}/sessions"
    if not view.may(READ_EXEC):
        return {"rows": (), "next_url": "", "sessions_url": url}
    wanted = SessionFilter(case_id=case_id)
    found = await sessions.list(view.principal, view.ws.id, wanted, limit=_SESSIONS, cursor=None)
    return {"rows": found.items, "next_url": "", "sessions_url": url}


async def _related(view: PageView, intelligence: IntelligenceService, case_id: str) -> dict[str, Any]:
    """What is around a case in the knowledge graph; no picture where that is nothing, or the reader may not see it."""
    url = f"/w/{view.ws.slug}/graph"
    if not view.may(READ_INTEL):
        return {"picture": None, "graph_url": url}
    found = await intelligence.graph(view.principal, view.ws.id, GraphQuery(centre=case_id, limit=_NODES))
    return {"graph": found, "picture": drawn(found) if found.edges else None, "graph_url": url}


def _one(view: PageView) -> str:
    return f"/w/{view.ws.slug}/cases/{view.path['id']}"


def _may_write(view: PageView) -> bool:
    return WRITE.missing(view.principal) is None


def _state(given: str) -> State | None:
    if not given:
        return None
    found = next((state for state in STATES if state == given), None)
    if found is None:
        raise Invalid(f"Choose a state from {', '.join(STATES)}.")
    return found
