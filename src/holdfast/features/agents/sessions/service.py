"""Owns the rules of sessions: who starts, follows, tells, answers, stops and resumes one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.features.agents.definitions.model import AgentDefinition
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.freezing import Freezing, acting
from holdfast.features.agents.sessions.model import (
    MAX_MESSAGE,
    MAX_PROMPT,
    AgentSession,
    NewSession,
    SessionEvent,
    SessionFilter,
    SessionMessage,
    SessionOver,
    SessionQuestion,
    SessionQuestionNotFound,
    WaitingSession,
)
from holdfast.features.cases import store as case_store
from holdfast.features.cases.model import Case, CaseNotFound, Taking
from holdfast.features.cases.service import CaseService
from holdfast.features.execution.model import GrantScope, GrantType, NewGrant
from holdfast.features.execution.policies.grants import Grants, check_signed_in
from holdfast.features.identity.keys import store as key_store
from holdfast.storage.database import Tx

ATTEMPTS = 100
"""How often a session is taken up again where the server that ran it was killed."""


class AgentSessions:
    """The sessions of each workspace's agents."""

    def __init__(
        self, base: SessionBase, definitions: AgentDefinitions, freezing: Freezing, cases: CaseService, grants: Grants
    ) -> None:
        self._base = base
        self._definitions = definitions
        self._freezing = freezing
        self._cases = cases
        self._grants = grants

    async def start(
        self, principal: Principal, workspace_id: str | None, agent_id: str, new: NewSession
    ) -> AgentSession:
        """Have an agent do something; NotStartable where it cannot begin now."""
        principal.require("inference")
        _check_text(new.prompt, "prompt", MAX_PROMPT)
        id = new_id("ses")
        agent = await self._definitions.get(principal, workspace_id, agent_id)
        case = await self._taken(principal, agent, id, new.case_id) if new.case_id is not None else None
        try:
            return await self._base.database.write(lambda tx: self.add(tx, principal, agent, id, new, case=case))
        except BaseException:
            if case is not None:
                await self._cases.claims.release(
                    self._acting(principal, agent), agent.workspace_id, case.id, case.fence
                )
            raise

    def add(
        self,
        tx: Tx,
        principal: Principal,
        agent: AgentDefinition,
        id: str,
        new: NewSession,
        *,
        case: Case | None = None,
        parent: AgentSession | None = None,
    ) -> AgentSession:
        """The same within a transaction, for a case that is taken already, or as another session's child."""
        workspace = self._base.workspaces.check(tx, principal, agent.workspace_id)
        # As it stands now: it may have changed since it was found.
        agent = self._definitions.find(tx, principal, None, agent.id)
        session = AgentSession(
            id=id,
            workspace_id=workspace.id,
            agent_id=agent.id,
            agent_slug=agent.slug,
            agent_version=agent.version,
            state="pending",
            prompt=new.prompt,
            frozen=self._freezing.frozen(tx, workspace, agent, case, new.model),
            principal=acting(principal, workspace, agent),
            started_by=principal if parent is None else parent.started_by,
            user_id=_person(tx, principal) if parent is None else parent.user_id,
            case_id=None if case is None else case.id,
            case_fence=None if case is None else case.fence,
            parent_id=None if parent is None else parent.id,
            root_id=id if parent is None else parent.root_id,
            depth=0 if parent is None else parent.depth + 1,
            created_at=self._base.clock.now(),
        )
        store.insert(tx, session)
        self._base.queue(tx, session, ATTEMPTS)
        data = {"text": new.prompt, "from": principal.name or principal.actor}
        self._base.telling.add(tx, id, workspace.id, "prompt", data)
        self._base.publish(tx, session, "pending")
        self._base.audit.record(
            tx,
            principal,
            "session.started",
            resource="session",
            resource_id=id,
            workspace_id=workspace.id,
            detail={
                "agent": agent.slug,
                "version": agent.version,
                "runner": agent.spec.runner,
                "granted": sorted(each.name for each in agent.secrets),
                "parent": session.parent_id,
                "case": session.case_id,
            },
        )
        return store.find(tx, id) or session

    async def get(self, principal: Principal, session_id: str) -> AgentSession:
        """One session."""
        return await self._base.database.read(lambda tx: self._base.seen(tx, principal, session_id))

    async def list(
        self, principal: Principal, workspace_id: str, wanted: SessionFilter, *, limit: int, cursor: str | None
    ) -> Page[AgentSession]:
        """A workspace's sessions, newest first."""
        before = id_in_cursor(cursor, "ses") if cursor else None

        def work(tx: Tx) -> list[AgentSession]:
            workspace = self._base.workspaces.check(tx, principal, workspace_id)
            if wanted.case_id is not None and case_store.get(tx, workspace.id, wanted.case_id) is None:
                raise CaseNotFound(wanted.case_id)
            return store.page(tx, workspace.id, wanted, before, limit + 1)

        return page_of(await self._base.database.read(work), limit, lambda each: (each.id,))

    async def tree(self, principal: Principal, session_id: str) -> Sequence[AgentSession]:
        """Every session that was spawned from the same one, oldest first."""

        def work(tx: Tx) -> Sequence[AgentSession]:
            return store.of_root(tx, self._base.seen(tx, principal, session_id).root_id)

        return await self._base.database.read(work)

    async def timeline(
        self, principal: Principal, session_id: str, after: int = 0, limit: int = 200
    ) -> Sequence[SessionEvent]:
        """What it told after a number, oldest first."""

        def work(tx: Tx) -> Sequence[SessionEvent]:
            return store.events(tx, self._base.seen(tx, principal, session_id).id, after, limit)

        return await self._base.database.read(work)

    async def questions(self, principal: Principal, session_id: str) -> Sequence[SessionQuestion]:
        """Everything that it asked, oldest first."""

        def work(tx: Tx) -> Sequence[SessionQuestion]:
            return store.questions(tx, self._base.seen(tx, principal, session_id).id)

        return await self._base.database.read(work)

    async def waiting(self, principal: Principal, workspace_id: str, limit: int = 50) -> Sequence[WaitingSession]:
        """What a workspace's sessions wait for from people, oldest first; what a child asks its parent is not."""

        def work(tx: Tx) -> Sequence[WaitingSession]:
            workspace = self._base.workspaces.check(tx, principal, workspace_id)
            found = ((store.find(tx, each.session_id), each) for each in store.pending(tx, workspace.id, limit))
            return [
                WaitingSession(session, question)
                for session, question in found
                if session is not None and (question.kind != "message" or session.parent_id is None)
            ]

        return await self._base.database.read(work)

    async def message(self, principal: Principal, session_id: str, text: str) -> AgentSession:
        """Say something to a session: what it waits for from people is answered by it, else its agent is told."""
        principal.require("inference")
        _check_text(text, "text", MAX_MESSAGE)

        def work(tx: Tx) -> AgentSession:
            found = self._alive(tx, principal, session_id)
            said_by = principal.name or principal.actor
            asked = next((each for each in store.questions(tx, found.id) if _takes_words(found, each)), None)
            if asked is not None:
                self._base.decided(tx, found, asked, "answered", said_by, answer=text)
            else:
                self.tell(tx, found, text, said_by)
            return store.find(tx, found.id) or found

        return await self._base.database.write(work)

    def tell(self, tx: Tx, session: AgentSession, text: str, said_by: str) -> None:
        """Have a session's agent told something."""
        message = SessionMessage(new_id("msg"), session.id, text, said_by, self._base.clock.now())
        store.insert_message(tx, message)
        self._base.telling.add(tx, session.id, session.workspace_id, "message", {"text": text, "from": said_by})
        self._base.publish(tx, session, "messaged")

    async def answer(self, principal: Principal, session_id: str, question_id: str, text: str) -> SessionQuestion:
        """Answer what a session asks."""
        principal.require("inference")
        _check_text(text, "answer", MAX_MESSAGE)

        def work(tx: Tx) -> SessionQuestion:
            found, asked = self._asked(tx, principal, session_id, question_id)
            if asked.kind == "grant":
                raise Invalid(
                    "This asks for a right.", fields=[FieldError("answer", "say `decision`: granted or denied")]
                )
            if asked.options and asked.kind == "input" and text not in asked.options:
                problem = f"choose one of {', '.join(asked.options)}"[:500]
                raise Invalid("This is none of the choices.", fields=[FieldError("answer", problem)])
            self._base.decided(tx, found, asked, "answered", principal.name or principal.actor, answer=text)
            return store.question(tx, found.id, asked.id) or asked

        return await self._base.database.write(work)

    async def decide(
        self,
        principal: Principal,
        session_id: str,
        question_id: str,
        decision: Literal["granted", "denied"],
        *,
        scope: GrantScope | None = None,
        note: str | None = None,
    ) -> SessionQuestion:
        """Give the right that a session asks for, or refuse it. Only a signed-in admin of the workspace can."""
        check_signed_in(principal)

        def work(tx: Tx) -> SessionQuestion:
            found, asked = self._asked(tx, principal, session_id, question_id)
            if asked.kind != "grant":
                problem = "this asks for an answer, not for a right"
                raise Invalid("Nothing was decided.", fields=[FieldError("decision", problem)])
            by = principal.name or principal.actor
            if decision == "denied":
                self._base.workspaces.administered(tx, principal, found.workspace_id)
                self._base.decided(tx, found, asked, "denied", by, answer=note)
                return store.question(tx, found.id, asked.id) or asked
            grant = self._grants.add(tx, principal, found.workspace_id, _wanted(found, asked, scope))
            self._base.decided(tx, found, asked, "answered", by, answer=note, grant_id=grant.id)
            return store.question(tx, found.id, asked.id) or asked

        return await self._base.database.write(work)

    async def stop(self, principal: Principal, session_id: str) -> AgentSession:
        """End a session and what it spawned: its agent is asked, then made to; one that waits to begin never does."""
        principal.require("inference")

        def work(tx: Tx) -> AgentSession:
            found = self._base.seen(tx, principal, session_id)
            if not found.is_over:
                self.stop_within(tx, found, principal.name or principal.actor)
            return store.find(tx, found.id) or found

        return await self._base.database.write(work)

    def stop_within(self, tx: Tx, session: AgentSession, by: str) -> None:
        """The same within a transaction."""
        if session.state == "pending":
            error = {"code": "cancelled", "message": f"Stopped by {by}."}
            if self._base.end(tx, session, "cancelled", error=error) and session.job_id is not None:
                self._base.jobs.cancel(tx, session.job_id)
            return
        store.set_values(tx, session.id, {"stop_by": session.stop_by or by})
        self._base.publish(tx, session, "stopping")
        # All at once: a tree that ended one level after another would take as many times as long.
        for child in store.of_root(tx, session.root_id):
            if child.parent_id == session.id and not child.is_over:
                self.stop_within(tx, child, by)

    async def resume(self, principal: Principal, session_id: str, prompt: str | None) -> AgentSession:
        """Go on with a session that has ended, where its runner can: the same conversation, home and worktree."""
        principal.require("inference")
        if prompt is not None:
            _check_text(prompt, "prompt", MAX_PROMPT)

        def work(tx: Tx) -> AgentSession:
            found = self._base.seen(tx, principal, session_id)
            if not found.is_over:
                raise Conflict(f"The session is {found.state}; say something to it instead.", code="session_running")
            if found.resume_token is None:
                raise SessionOver("Its runner left nothing to go on with; start a new session.")
            if found.parent_id is not None:
                raise SessionOver("A session that another one started ends with it; start a new one.")
            # What it rested costs no minutes.
            waited = found.waited_millis + self._base.clock.now() - (found.ended_at or self._base.clock.now())
            store.move(
                tx,
                found.id,
                "pending",
                (found.state,),
                {"ended_at": None, "error": None, "stop_by": None, "summary": None, "waited_millis": waited},
            )
            self.tell(tx, found, prompt or "Go on.", principal.name or principal.actor)
            self._base.queue(tx, found, ATTEMPTS)
            self._base.publish(tx, found, "pending")
            return store.find(tx, found.id) or found

        return await self._base.database.write(work)

    def _alive(self, tx: Tx, principal: Principal, session_id: str) -> AgentSession:
        found = self._base.seen(tx, principal, session_id)
        if found.is_over:
            raise SessionOver(f"The session is {found.state}; resume it, or start a new one.")
        return found

    def _asked(
        self, tx: Tx, principal: Principal, session_id: str, question_id: str
    ) -> tuple[AgentSession, SessionQuestion]:
        found = self._base.seen(tx, principal, session_id)
        asked = store.question(tx, found.id, question_id)
        if asked is None:
            raise SessionQuestionNotFound(question_id)
        if asked.state != "pending":
            raise Conflict(f"The question was {asked.state} already.", code="already_decided")
        return found, asked

    async def _taken(self, principal: Principal, agent: AgentDefinition, session_id: str, case_id: str) -> Case:
        """The case, claimed for the session that is about to start."""
        who = self._acting(principal, agent)
        return await self._cases.claims.claim(who, agent.workspace_id, case_id, Taking(session_id=session_id))

    def _acting(self, principal: Principal, agent: AgentDefinition) -> Principal:
        return replace(principal, actor=agent.id, name=agent.name, is_person=False, role="member", proof="key")


def _takes_words(session: AgentSession, question: SessionQuestion) -> bool:
    """Whether a message from a person answers the question."""
    if question.state != "pending" or (question.kind == "message" and session.parent_id is not None):
        return False
    return question.kind in ("input", "message")


def _wanted(session: AgentSession, asked: SessionQuestion, scope: GrantScope | None) -> NewGrant:
    details = {name: str(value) for name, value in asked.details.get("details", {}).items()}
    grant_type: GrantType = "spawn" if asked.details.get("grant_type") == "spawn" else "tool_scope"
    given = scope or asked.details.get("scope")
    kept: GrantScope = given if given in ("once", "session", "persistent") else "once"
    return NewGrant(
        subject_type="agent",
        subject_id=session.agent_id,
        grant_type=grant_type,
        details=details,
        scope=kept,
        session_id=session.id if kept == "session" else None,
    )


def _person(tx: Tx, principal: Principal) -> str | None:
    """The person who starts a session: themselves, or whoever made the key; none for a command on this machine."""
    if principal.is_person:
        return principal.actor if principal.actor.startswith("usr_") else None
    return key_store.person_behind(tx, principal.organization_id, principal.actor)


def _check_text(text: str, field: str, most: int) -> None:
    if not text.strip() or len(text) > most:
        raise Invalid("There is nothing to say.", fields=[FieldError(field, f"write 1 to {most} characters")])
    if "\0" in text:
        raise Invalid("This text cannot be kept.", fields=[FieldError(field, "leave NUL out")])
