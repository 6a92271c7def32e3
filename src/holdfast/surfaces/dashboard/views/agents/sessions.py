"""Owns `/w/{ws}/sessions`: what agents do and did; one session live, with what it asks and what it changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from holdfast.core.access import READ_EXEC, RUN_EXEC, Access
from holdfast.core.clock import Clock
from holdfast.core.errors import Invalid, NotFound
from holdfast.features.agents.sessions.model import STATES, AgentSession, SessionFilter, SessionState
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.artifacts.model import ContentPart
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.execution.model import GrantScope
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply
from holdfast.surfaces.dashboard.views.agents.moments import failing_step, moments

_PATH = "/w/{ws}/sessions"
_ONE = _PATH + "/{id}"
_DECIDE = Access("workspace", "management", role="admin", tier="exec", people_only=True, signed_in=True)
_ROWS = 50
_EVENTS = 200
_CHARACTERS = 100_000
"""Of what it changed; the artifact has it whole."""
_SCOPES: tuple[GrantScope, ...] = ("once", "session", "persistent")
pages = Pages(NavRow("Sessions", _PATH, "play", "workspace", 37, READ_EXEC))


@dataclass(frozen=True, slots=True)
class SpawnedSession:
    """A session in the tree of those that were spawned from one, with its own children."""

    session: AgentSession
    children: tuple["SpawnedSession", ...]


@pages.get(_PATH, READ_EXEC)
async def index(view: PageView, sessions: AgentSessions) -> Reply:
    chosen, agent = _state(view.query.get("state", "")), view.query.get("agent", "")
    wanted = SessionFilter(state=chosen, agent=agent or None)
    found = await sessions.list(
        view.principal, view.ws.id, wanted, limit=_ROWS, cursor=view.query.get("cursor") or None
    )
    query = {"state": chosen or "", "agent": agent}
    next_url = f"{_url(view)}?{urlencode({**query, 'cursor': found.next_cursor})}" if found.next_cursor else ""
    context: dict[str, Any] = {"rows": found.items, "next_url": next_url, "sessions_url": _url(view)}
    if view.is_part:
        return view.part("agents/session_rows.html", **context)
    same_url = f"{_url(view)}?{urlencode(query)}"
    return view.page(
        "agents/sessions.html", "Sessions", states=STATES, chosen=chosen, agent=agent, same_url=same_url, **context
    )


@pages.get("/sessions/{id}", READ_EXEC)
async def anywhere(view: PageView, sessions: AgentSessions) -> Reply:
    """A session by its id alone, as tools and messages name it."""
    found = await sessions.get(view.principal, view.path["id"])
    slug = next((each.slug for each in view.workspaces if each.id == found.workspace_id), None)
    if slug is None:
        raise NotFound("session", found.id)
    return view.go(f"/w/{slug}/sessions/{found.id}")


@pages.get(_ONE, READ_EXEC)
async def show(view: PageView, sessions: AgentSessions, artifacts: ArtifactService, clock: Clock) -> Reply:
    session = await _found(view, sessions)
    newest = max(0, session.last_seq - _EVENTS)
    after = _number(view.query.get("after", ""), newest)
    told = moments(await sessions.timeline(view.principal, session.id, after, _EVENTS))
    questions = await sessions.questions(view.principal, session.id)
    return view.page(
        "agents/session.html",
        session.agent_slug,
        session=session,
        moments=told,
        failing=failing_step(told) if session.state == "failed" else None,
        asked=[each for each in questions if each.state == "pending"],
        decided=[each for each in questions if each.state != "pending"],
        tree=_tree(await sessions.tree(view.principal, session.id)),
        patch=await _patch(view, artifacts, session),
        worked=_worked(session, clock.now()),
        earlier=max(0, after - _EVENTS) if after else None,
        later=after + _EVENTS if after < newest else None,
        may_run=view.may(RUN_EXEC),
        may_decide=view.administers and view.may(_DECIDE),
        can_resume=session.is_over and session.resume_token is not None and session.parent_id is None,
        scopes=_SCOPES,
        url=f"{_url(view)}/{session.id}",
    )


@pages.post(_ONE + "/messages", RUN_EXEC)
async def message(view: PageView, sessions: AgentSessions) -> Reply:
    session = await _found(view, sessions)
    await sessions.message(view.principal, session.id, view.given("text"))
    return view.go(f"{_url(view)}/{session.id}", "Said.")


@pages.post(_ONE + "/stop", RUN_EXEC)
async def stop(view: PageView, sessions: AgentSessions) -> Reply:
    session = await _found(view, sessions)
    await sessions.stop(view.principal, session.id)
    return view.go(f"{_url(view)}/{session.id}", "It is asked to stop; what does not is made to.")


@pages.post(_ONE + "/resume", RUN_EXEC)
async def resume(view: PageView, sessions: AgentSessions) -> Reply:
    session = await _found(view, sessions)
    await sessions.resume(view.principal, session.id, view.given("prompt") or None)
    return view.go(f"{_url(view)}/{session.id}", "It goes on.")


@pages.post(_ONE + "/questions/{question}", RUN_EXEC)
async def answer(view: PageView, sessions: AgentSessions) -> Reply:
    session = await _found(view, sessions)
    await sessions.answer(view.principal, session.id, view.path["question"], view.given("answer"))
    return view.go(f"{_url(view)}/{session.id}", "Answered.")


@pages.post(_ONE + "/questions/{question}/decide", _DECIDE)
async def decide(view: PageView, sessions: AgentSessions) -> Reply:
    """Give the right that the agent asks for, or refuse it."""
    session = await _found(view, sessions)
    scope = next((each for each in _SCOPES if each == view.given("decision")), None)
    if scope is None and view.given("decision") != "denied":
        raise Invalid("Choose what becomes of it.")
    await sessions.decide(
        view.principal,
        session.id,
        view.path["question"],
        "granted" if scope is not None else "denied",
        scope=scope,
        note=view.given("note") or None,
    )
    return view.go(f"{_url(view)}/{session.id}", "Given; its call goes on." if scope is not None else "Refused.")


async def _found(view: PageView, sessions: AgentSessions) -> AgentSession:
    """The session, in the workspace of the page's own path."""
    found = await sessions.get(view.principal, view.path["id"])
    if found.workspace_id != view.ws.id:
        raise NotFound("session", view.path["id"][:80])
    return found


async def _patch(view: PageView, artifacts: ArtifactService, session: AgentSession) -> Sequence[str]:
    """The lines of what it changed."""
    id = (session.result or {}).get("patch_artifact")
    if not id:
        return ()
    try:
        part = ContentPart(0, _CHARACTERS)
        kept = await artifacts.read_part(view.principal, view.ws.id, str(id), part, version=None)
    except NotFound:
        # Somebody removed it since.
        return ()
    return (kept.content or "").splitlines()


def _tree(found: Sequence[AgentSession], parent: str | None = None) -> tuple[SpawnedSession, ...]:
    return tuple(SpawnedSession(each, _tree(found, each.id)) for each in found if each.parent_id == parent)


def _worked(session: AgentSession, now: int) -> float:
    """Minutes of work; what it waited for people is not counted."""
    if session.started_at is None:
        return 0.0
    waits = 0 if session.waiting_since is None or session.is_over else now - session.waiting_since
    return max(0, (session.ended_at or now) - session.started_at - session.waited_millis - waits) / 60_000


def _state(given: str) -> SessionState | None:
    if not given:
        return None
    found = next((each for each in STATES if each == given), None)
    if found is None:
        raise Invalid(f"Choose a state from {', '.join(STATES)}.")
    return found


def _number(given: str, instead: int) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 12 else instead


def _url(view: PageView) -> str:
    return f"/w/{view.ws.slug}/sessions"
