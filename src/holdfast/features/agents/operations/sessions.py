"""Owns the REST operations of sessions: starting, following, telling, answering, stopping and resuming them."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_EXEC, RUN_EXEC
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.model import Model, PageQuery, Text
from holdfast.core.operations import Call, EventStream, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.agents.answers import (
    AgentSessionAnswer,
    SessionDetailAnswer,
    SessionEventAnswer,
    SessionQuestionAnswer,
    SessionStartAnswer,
    TreeAnswer,
    WaitingSessionAnswer,
)
from holdfast.features.agents.sessions.model import (
    MAX_MESSAGE,
    MAX_PROMPT,
    NewSession,
    SessionFilter,
    SessionState,
)
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.agents.sessions.telling import SessionTelling
from holdfast.features.execution.model import GrantScope

api = Operations("sessions")

_ONE = "/api/sessions/{session_id}"


class AgentSessionBody(Model):
    prompt: Text = Field(max_length=MAX_PROMPT)
    case_id: Text | None = Field(default=None, max_length=200, description="The case that it works on: it is claimed")


class SessionsQuery(PageQuery):
    state: SessionState | None = None
    agent: Text | None = Field(default=None, max_length=100, description="Its id or slug")
    case_id: Text | None = Field(default=None, max_length=200)
    parent_id: Text | None = Field(default=None, max_length=100)


class SessionMessageBody(Model):
    text: Text = Field(max_length=MAX_MESSAGE)


class ResumeBody(Model):
    prompt: Text | None = Field(default=None, max_length=MAX_PROMPT)


class SessionReplyBody(Model):
    answer: Text | None = Field(default=None, max_length=MAX_MESSAGE)
    decision: Literal["granted", "denied"] | None = Field(
        default=None, description="About a right that it asks for; only a signed-in person decides"
    )
    scope: GrantScope | None = Field(default=None, description="How far it is given; as asked for where left out")
    note: Text | None = Field(default=None, max_length=2_000)


class SessionTimelineQuery(Model):
    after: int = Field(default=0, ge=0, description="The number of the last event that was read")
    limit: int = Field(default=200, ge=1, le=500)


@api.post("/api/agents/{agent_id}/sessions", RUN_EXEC, "Start a session of an agent", status=201)
async def start(
    sessions: AgentSessions, principal: Principal, agent_id: str, body: AgentSessionBody
) -> SessionStartAnswer:
    made = await sessions.start(principal, None, agent_id, NewSession(body.prompt, body.case_id))
    return SessionStartAnswer(session_id=made.id, state=made.state)


@api.get("/api/workspaces/{workspace_id}/sessions", READ_EXEC, "Sessions of a workspace, newest first")
async def page(
    sessions: AgentSessions, principal: Principal, workspace_id: str, query: SessionsQuery
) -> Page[AgentSessionAnswer]:
    wanted = query.into(SessionFilter)
    found = await sessions.list(principal, workspace_id, wanted, limit=query.limit, cursor=query.cursor)
    return found.map(AgentSessionAnswer.shown)


@api.get("/api/workspaces/{workspace_id}/session-questions", READ_EXEC, "What sessions wait for from people")
async def waiting(sessions: AgentSessions, principal: Principal, workspace_id: str) -> Page[WaitingSessionAnswer]:
    return Page([WaitingSessionAnswer.shown(each) for each in await sessions.waiting(principal, workspace_id)])


@api.get(_ONE, READ_EXEC, "One session, with what it asked and what it spawned")
async def get(sessions: AgentSessions, principal: Principal, session_id: str) -> SessionDetailAnswer:
    found = await sessions.get(principal, session_id)
    shown = AgentSessionAnswer.shown(found)
    return SessionDetailAnswer(
        **{name: getattr(shown, name) for name in AgentSessionAnswer.model_fields},
        questions=[SessionQuestionAnswer.shown(each) for each in await sessions.questions(principal, session_id)],
        tree=[TreeAnswer.of(each) for each in await sessions.tree(principal, session_id)],
    )


@api.get(_ONE + "/events", READ_EXEC, "Follow a session (Server-Sent Events; Last-Event-ID goes on after a break)")
async def events(
    sessions: AgentSessions, telling: SessionTelling, principal: Principal, session_id: str, call: Call
) -> EventStream:
    found = await sessions.get(principal, session_id)

    async def recheck() -> None:
        again = await call.again()
        READ_EXEC.check(again)
        await sessions.get(again, session_id)

    return EventStream(telling.frames(recheck, found.id, found.workspace_id, _last_event_id(call)))


@api.get(_ONE + "/timeline", READ_EXEC, "What a session told, a page of it")
async def timeline(
    sessions: AgentSessions, principal: Principal, session_id: str, query: SessionTimelineQuery
) -> Page[SessionEventAnswer]:
    found = await sessions.timeline(principal, session_id, query.after, query.limit)
    return Page([SessionEventAnswer.of(each, data=dict(each.data)) for each in found])


@api.post(_ONE + "/messages", RUN_EXEC, "Say something to a session")
async def message(
    sessions: AgentSessions, principal: Principal, session_id: str, body: SessionMessageBody
) -> SessionStartAnswer:
    found = await sessions.message(principal, session_id, body.text)
    return SessionStartAnswer(session_id=found.id, state=found.state)


@api.post(_ONE + "/stop", RUN_EXEC, "Stop a session and what it spawned")
async def stop(sessions: AgentSessions, principal: Principal, session_id: str) -> SessionStartAnswer:
    found = await sessions.stop(principal, session_id)
    return SessionStartAnswer(session_id=found.id, state=found.state)


@api.post(_ONE + "/resume", RUN_EXEC, "Go on with a session that has ended")
async def resume(
    sessions: AgentSessions, principal: Principal, session_id: str, body: ResumeBody
) -> SessionStartAnswer:
    found = await sessions.resume(principal, session_id, body.prompt)
    return SessionStartAnswer(session_id=found.id, state=found.state)


@api.post(_ONE + "/questions/{question_id}", RUN_EXEC, "Answer what a session asks, or decide about a right")
async def reply(
    sessions: AgentSessions, principal: Principal, session_id: str, question_id: str, body: SessionReplyBody
) -> SessionQuestionAnswer:
    if (body.answer is None) == (body.decision is None):
        raise Invalid("Say one of the two.", fields=[FieldError("answer", "give either an answer or a decision")])
    if body.decision is not None:
        return SessionQuestionAnswer.shown(
            await sessions.decide(principal, session_id, question_id, body.decision, scope=body.scope, note=body.note)
        )
    return SessionQuestionAnswer.shown(await sessions.answer(principal, session_id, question_id, body.answer or ""))


def _last_event_id(call: Call) -> int:
    text = call.header("last-event-id") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        problem = "send the id of the last event that was read, or leave it out"
        raise Invalid("The place to go on from is none.", fields=[FieldError("Last-Event-ID", problem)])
    return int(text)
