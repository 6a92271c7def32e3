"""Owns what everything about sessions stands on: finding one for a caller, moving it on, and telling about it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.model import (
    OVER,
    STATES,
    AgentSession,
    AgentSessionNotFound,
    QuestionState,
    SessionQuestion,
    SessionState,
)
from holdfast.features.agents.sessions.telling import TOPIC, SessionTelling
from holdfast.features.audit.service import Audit
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

KIND = "session.run"
"""The job that a session is run by."""
_ALIVE: tuple[SessionState, ...] = tuple(state for state in STATES if state not in OVER)


class SessionBase:
    """Finds, moves and ends sessions, each within a transaction of whoever asks."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        telling: SessionTelling,
        jobs: JobEngine,
        events: EventBus,
        clock: Clock,
    ) -> None:
        self.database = database
        self.audit = audit
        self.workspaces = workspaces
        self.telling = telling
        self.jobs = jobs
        self.events = events
        self.clock = clock

    def seen(self, tx: Tx, principal: Principal, session_id: str) -> AgentSession:
        """A session of a workspace that the principal sees."""
        found = store.find(tx, session_id)
        if found is None:
            raise AgentSessionNotFound(session_id)
        try:
            self.workspaces.check(tx, principal, found.workspace_id)
        except NotFound:
            # Somebody else's answers like one that is not there.
            raise AgentSessionNotFound(session_id) from None
        return found

    def queue(self, tx: Tx, session: AgentSession, attempts: int) -> None:
        """Have a session run."""
        job_id = self.jobs.enqueue(
            tx,
            KIND,
            {"session_id": session.id},
            workspace_id=session.workspace_id,
            key=session.id,
            max_attempts=attempts,
        )
        store.set_values(tx, session.id, {"job_id": job_id})

    def move(
        self,
        tx: Tx,
        session: AgentSession,
        to: SessionState,
        among: Iterable[SessionState] = _ALIVE,
        **values: Any,
    ) -> bool:
        """Bring a session into a state, and tell; False where it is in none of those that lead there."""
        if not store.move(tx, session.id, to, among, values):
            return False
        self.telling.add(tx, session.id, session.workspace_id, "state", {"state": to})
        self.publish(tx, session, to)
        return True

    def end(
        self,
        tx: Tx,
        session: AgentSession,
        state: SessionState,
        *,
        error: Mapping[str, Any] | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> bool:
        """End a session like this; False where it has ended."""
        now = self.clock.now()
        values: dict[str, Any] = {
            "ended_at": now,
            "error": None if error is None else json.dumps(dict(error)),
            "result": None if result is None else json.dumps(dict(result)),
            "waiting_since": None,
        }
        if not store.move(tx, session.id, state, _ALIVE, values):
            return False
        store.withdraw(tx, session.id, now)
        told: dict[str, Any] = {"state": state}
        if error is not None:
            told["error"] = dict(error)
        self.telling.add(tx, session.id, session.workspace_id, "state", told)
        self.publish(tx, session, state)
        self.audit.record(
            tx,
            session.principal,
            f"session.{state}",
            resource="session",
            resource_id=session.id,
            workspace_id=session.workspace_id,
            detail={"agent": session.agent_slug, "error": None if error is None else str(error.get("code"))},
        )
        return True

    def publish(self, tx: Tx, session: AgentSession, what: str) -> None:
        """Tell who follows the workspace."""
        payload = {"id": session.id, "agent": session.agent_slug, "state": what}
        self.events.publish(tx, f"{TOPIC}.{what}", payload, workspace_id=session.workspace_id)

    def waits(self, tx: Tx, session: AgentSession) -> None:
        """The session waits for somebody from now on."""
        self.move(tx, session, "waiting", ("running",), waiting_since=self.clock.now())

    def decided(
        self,
        tx: Tx,
        session: AgentSession,
        question: SessionQuestion,
        state: QuestionState,
        by: str,
        *,
        answer: str | None = None,
        grant_id: str | None = None,
    ) -> bool:
        """Answer a question; the session goes on where it waits for nothing else. False where it was answered."""
        now = self.clock.now()
        values = {"state": state, "answer": answer, "grant_id": grant_id, "decided_at": now, "decided_by": by}
        if not store.decide(tx, question.id, values):
            return False
        data: dict[str, Any] = {
            "question_id": question.id,
            "request_id": question.request_id,
            "kind": question.kind,
            "state": state,
        }
        data |= {"answer": answer, "grant_id": grant_id, "by": by}
        self.telling.add(tx, session.id, session.workspace_id, "answer", data)
        self.publish(tx, session, "answered")
        current = store.find(tx, session.id) or session
        if current.state == "waiting" and all(each.state != "pending" for each in store.questions(tx, session.id)):
            waited = current.waited_millis + now - (current.waiting_since or now)
            self.move(tx, session, "running", ("waiting",), waited_millis=waited, waiting_since=None)
        return True
