"""Owns `holdfast sessions`: agents set to work, followed, told and stopped."""

import asyncio
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Commands, Given, InWorkspace, Option, Session
from holdfast.core.text.printable import printable
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.here import LOOK_SECONDS, working
from holdfast.features.agents.answers import AgentSessionAnswer, SessionEventAnswer, SessionStartAnswer
from holdfast.features.agents.sessions.model import AgentSession, NewSession, SessionEvent, SessionFilter, SessionState
from holdfast.features.agents.sessions.service import AgentSessions

sessions = Commands("sessions", help="Agents at work: start, follow, tell, stop.")


class OneSession(Given):
    """A session that is named."""

    session_id: Annotated[str, Argument(metavar="SESSION")]


class RunSession(InWorkspace):
    """What `run` is given."""

    agent: Annotated[str, Argument(metavar="AGENT")]
    prompt: Annotated[str, Argument(metavar="PROMPT", reads="dash")]
    case: Annotated[str | None, Option(metavar="CASE")] = Field(None, description="The case that it works on.")
    follow: bool = Field(False, description="Show what it tells until it is over.")


@sessions.command("run", help="Have an agent do something; with --follow, watch it until it is over.")
async def run(session: Session, service: AgentSessions, jobs: JobEngine, given: RunSession) -> None:
    workspace_id = await session.workspace(given.workspace)
    made = await service.start(session.principal, workspace_id, given.agent, NewSession(given.prompt, given.case))
    if not given.follow:
        shown = SessionStartAnswer(session_id=made.id, state=made.state)
        session.out.record(
            shown, [f"{made.id} waits for a server to run it.", f"Next: holdfast sessions show {made.id}"]
        )
        return
    # There may be no server: whoever follows also runs it.
    async with working(jobs):
        ended = await _followed(session, service, made)
    session.out.record(AgentSessionAnswer.shown(ended), _ending(ended))
    if ended.state != "completed":
        raise SystemExit(FAILED)


async def _followed(session: Session, service: AgentSessions, made: AgentSession) -> AgentSession:
    after = 0
    while True:
        current = await service.get(session.principal, made.id)
        events = await service.timeline(session.principal, made.id, after)
        for event in events:
            after = event.seq
            line = _line(event)
            if line and not session.out.as_json:
                session.out.write(line)
        if current.is_over and not events:
            return current
        if not events:
            await asyncio.sleep(LOOK_SECONDS)


class ListSessions(InWorkspace):
    """What `list` is given."""

    state: SessionState | None = Field(None, description="Only those in this state.")
    agent: Annotated[str | None, Option(metavar="AGENT")] = Field(None, description="Only this agent's.")
    limit: int = Field(50, ge=1, le=200, description="How many at most.")


@sessions.command("list", help="List sessions, newest first.")
async def list_sessions(session: Session, service: AgentSessions, given: ListSessions) -> None:
    workspace_id = await session.workspace(given.workspace)
    wanted = SessionFilter(state=given.state, agent=given.agent)
    found = await service.list(session.principal, workspace_id, wanted, limit=given.limit, cursor=None)
    rows = [AgentSessionAnswer.shown(each) for each in found.items]
    session.out.table(rows, ["session_id", "agent", "state", "created_at", "tokens_in", "tokens_out"])


@sessions.command("show", help="Show a session.")
async def show(session: Session, service: AgentSessions, given: OneSession) -> None:
    found = await service.get(session.principal, given.session_id)
    session.out.record(AgentSessionAnswer.shown(found))


@sessions.command("stop", help="Stop a session and what it spawned.")
async def stop(session: Session, service: AgentSessions, given: OneSession) -> None:
    found = await service.stop(session.principal, given.session_id)
    shown = SessionStartAnswer(session_id=found.id, state=found.state)
    session.out.record(shown, [f"{found.id} is {found.state if found.is_over else 'asked to stop'}."])


class TellSession(OneSession):
    """What `message` is given."""

    text: Annotated[str, Argument(metavar="TEXT", reads="dash")]


@sessions.command("message", help="Say something to a session; what it waits for is answered by it.")
async def message(session: Session, service: AgentSessions, given: TellSession) -> None:
    found = await service.message(session.principal, given.session_id, given.text)
    session.out.record(SessionStartAnswer(session_id=found.id, state=found.state), [f"{found.id} is told."])


class ResumeSession(OneSession):
    """What `resume` is given."""

    prompt: Annotated[str | None, Option(metavar="TEXT")] = Field(
        None, description="What to do now; to go on if left out."
    )


@sessions.command("resume", help="Go on with a session that has ended, where its runner can.")
async def resume(session: Session, service: AgentSessions, given: ResumeSession) -> None:
    found = await service.resume(session.principal, given.session_id, given.prompt)
    session.out.record(SessionStartAnswer(session_id=found.id, state=found.state), [f"{found.id} goes on."])


class SessionEvents(OneSession):
    """What `events` is given."""

    after: int = Field(0, ge=0, description="Only those after this number.")
    limit: int = Field(200, ge=1, le=500, description="How many at most.")


@sessions.command("events", help="What a session told, oldest first.")
async def events(session: Session, service: AgentSessions, given: SessionEvents) -> None:
    found = await service.timeline(session.principal, given.session_id, given.after, given.limit)
    rows = [SessionEventAnswer.of(each, data=dict(each.data)) for each in found]
    session.out.table(rows, ["seq", "at", "kind", "data"])


def _line(event: SessionEvent) -> str:
    """An event as a person reads it along; nothing in it reaches the terminal but text."""
    data = event.data
    match event.kind:
        case "text" | "thought":
            # Pieces of a paragraph follow each other on one line.
            return printable(str(data.get("text", "")))[:2_000] + ("\n" if data.get("whole", True) else "")
        case "tool_started":
            text = f"→ {data.get('name')} {data.get('arguments', '')}"
        case "tool_ended":
            text = f"{'✓' if data.get('ok') else '✗'} {data.get('text', '')}"
        case "question":
            text = f"? {data.get('question')}"
        case "state":
            text = f"[{data.get('state')}]"
        case "status" | "error":
            text = f"[{event.kind}] {data.get('status') or ''} {data.get('detail') or data.get('message') or ''}"
        case _:
            return ""
    return printable(text.strip())[:2_000] + "\n"


def _ending(session: AgentSession) -> list[str]:
    result = session.result or {}
    lines = [f"{session.id} is {session.state}."]
    if session.error is not None:
        lines.append(str(session.error.get("message", "")))
    if result.get("patch_artifact"):
        lines.append(f"What changed: holdfast artifacts show {result['patch_artifact']}")
    return lines
