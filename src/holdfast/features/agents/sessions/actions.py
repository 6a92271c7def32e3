"""Owns what the tools of an agent do to sessions: telling, asking people, asking for rights, spawning, and its end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.ids import new_id
from holdfast.engines.events.bus import EventBus
from holdfast.features.agents.definitions import store as definition_store
from holdfast.features.agents.gate.base import ChildOutput, GatedSession
from holdfast.features.agents.runs.live import LiveSessions
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.model import (
    AgentSession,
    AgentSessionNotFound,
    NewSession,
    QuestionKind,
    SessionOver,
    SessionQuestion,
)
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.agents.sessions.telling import TOPIC, event_json
from holdfast.features.execution.model import PermissionGrant
from holdfast.features.execution.policies import store as grant_store
from holdfast.features.execution.policies.grants import TOPIC as GRANT_TOPIC
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.database import Tx

_LOOK_SECONDS = 2.0
MOST_QUIET_SECONDS = 6 * 3600


class SpawnRefused(Forbidden):
    """The session may not start another one now; the message says why."""

    code = "spawn_refused"


class AgentActions:
    """Answers `SessionActions` for every gate of this process."""

    def __init__(
        self,
        base: SessionBase,
        sessions: AgentSessions,
        grants: Grants,
        live: LiveSessions,
        events: EventBus,
        *,
        most_depth: int,
        most_sessions: int,
    ) -> None:
        """A tree of sessions is at most so deep, and has at most so many in all."""
        self._base = base
        self._sessions = sessions
        self._grants = grants
        self._live = live
        self._events = events
        self._most_depth = most_depth
        self._most_sessions = most_sessions

    async def emit(self, session: GatedSession, kind: str, data: Mapping[str, Any]) -> int:
        self._touch(session)
        return await self._base.telling.emit(session.id, session.workspace_id, kind, data)

    async def ask(self, session: GatedSession, request_id: str, question: str, options: Sequence[str]) -> str:
        asked = await self._asked(session, "input", request_id, question, tuple(options), {})
        return (await self._decided(session, asked)).answer or ""

    async def request_grant(
        self,
        session: GatedSession,
        request_id: str,
        grant_type: str,
        details: Mapping[str, Any],
        scope: str,
        justification: str,
    ) -> Mapping[str, Any]:
        wanted = {"grant_type": grant_type, "details": dict(details), "scope": scope, "justification": justification}
        asked = await self._asked(session, "grant", request_id, justification, (), wanted)
        # A person may have given it by themselves, before or while it is asked for.
        decided = await self._decided(session, asked, also=lambda tx: self._given(tx, session, asked))
        if decided.state == "answered":
            return {"decision": "granted", "grant_id": decided.grant_id, "note": decided.answer}
        return {"decision": "denied", "note": decided.answer}

    async def end(self, session: GatedSession, summary: str) -> None:
        await self._base.database.write(lambda tx: store.set_values(tx, session.id, {"summary": summary}))
        await self.emit(session, "ended", {"summary": summary})
        live = self._live.get(session.id)
        if live is not None:
            # The answer to this call goes out first.
            asyncio.get_running_loop().call_later(0.1, live.end)

    async def spawnable(self, session: GatedSession) -> Sequence[Mapping[str, Any]]:
        def work(tx: Tx) -> Sequence[Mapping[str, Any]]:
            return [
                {
                    "id": each.id,
                    "slug": each.slug,
                    "name": each.name,
                    "granted": self._spawn_grant(tx, session, each.id) is not None,
                }
                for each in definition_store.all_in(tx, session.workspace_id)
            ]

        return await self._base.database.read(work)

    async def spawn(self, session: GatedSession, agent_id: str, prompt: str, model: str | None) -> str:
        def work(tx: Tx) -> str:
            parent = self._alive(tx, session.id)
            agent = definition_store.find(tx, session.workspace_id, agent_id)
            if agent is None:
                raise NotFound("agent", agent_id[:80])
            tree = store.of_root(tx, parent.root_id)
            if parent.depth + 1 > self._most_depth:
                raise SpawnRefused(f"Sessions start others at most {self._most_depth} deep.")
            if len(tree) >= self._most_sessions:
                raise SpawnRefused(f"One tree has at most {self._most_sessions} sessions, and this one has them all.")
            spent, limit = sum(each.tokens for each in tree), tree[0].frozen.limits.tokens
            if spent >= limit:
                raise SpawnRefused(f"The tree has used {spent} of its {limit} tokens.")
            grant = self._spawn_grant(tx, session, agent.id)
            if grant is None or not self._grants.use(tx, grant):
                raise SpawnRefused(
                    f"Nobody granted this agent to start {agent.slug}. Ask with request_grant: grant_type spawn, "
                    f"details {{agent: {agent.id}}}.",
                    code="permission_required",
                )
            new = NewSession(prompt or "Go on with what you were made for.", model=model)
            made = self._sessions.add(tx, parent.principal, agent, new_id("ses"), new, parent=parent)
            data = {"session_id": made.id, "agent": agent.slug, "grant_id": grant.id}
            self._base.telling.add(tx, parent.id, parent.workspace_id, "spawned", data)
            return made.id

        self._touch(session)
        return await self._base.database.write(work)

    async def child_output(self, session: GatedSession, child_id: str, after: int, limit: int) -> ChildOutput:
        def work(tx: Tx) -> ChildOutput:
            child = self._child(tx, session, child_id)
            events = store.events(tx, child.id, after, max(1, min(limit, 500)))
            seq = events[-1].seq if events else after
            return ChildOutput(child.state, [event_json(each) for each in events], seq)

        self._touch(session)
        return await self._base.database.read(work)

    async def inject(self, session: GatedSession, child_id: str, text: str) -> None:
        def work(tx: Tx) -> None:
            child = self._child(tx, session, child_id)
            if child.is_over:
                raise SessionOver(f"The session {child.id} is {child.state}.")
            asked = next(
                (each for each in store.questions(tx, child.id) if each.kind == "message" and each.state == "pending"),
                None,
            )
            if asked is not None:
                self._base.decided(tx, child, asked, "answered", session.id, answer=text)
            else:
                self._sessions.tell(tx, child, text, session.agent_slug)

        self._touch(session)
        await self._base.database.write(work)

    async def message_caller(self, session: GatedSession, summary: str, body: str, needs_response: bool) -> str | None:
        said = f"{summary}\n\n{body}".strip()
        asked: SessionQuestion | None = None
        if needs_response:
            asked = await self._asked(session, "message", new_id("req"), said, (), {})
        else:
            await self.emit(session, "message_out", {"summary": summary, "body": body})
        if session.parent_id is not None:
            await self._base.database.write(lambda tx: self._tell_parent(tx, session, said, asked))
        return None if asked is None else (await self._decided(session, asked)).answer

    async def expect_quiet(self, session: GatedSession, seconds: float, reason: str) -> None:
        until = self._base.clock.now() + round(max(0.0, min(seconds, MOST_QUIET_SECONDS)) * 1000)
        await self._base.database.write(lambda tx: store.set_values(tx, session.id, {"quiet_until": until}))
        await self.emit(session, "quiet", {"seconds": seconds, "reason": reason})

    def _touch(self, session: GatedSession) -> None:
        live = self._live.get(session.id)
        if live is not None:
            live.touch()

    def _alive(self, tx: Tx, session_id: str) -> AgentSession:
        found = store.find(tx, session_id)
        if found is None or found.is_over:
            raise SessionOver("The session is over.")
        return found

    def _child(self, tx: Tx, session: GatedSession, child_id: str) -> AgentSession:
        found = store.find(tx, child_id)
        if found is None or found.parent_id != session.id:
            raise AgentSessionNotFound(child_id)
        return found

    def _tell_parent(self, tx: Tx, session: GatedSession, said: str, asked: SessionQuestion | None) -> None:
        parent = store.find(tx, session.parent_id or "")
        if parent is None or parent.is_over:
            raise SessionOver("Whoever started this session is over.")
        how = f" It waits for your answer: inject_message to {session.id}." if asked is not None else ""
        text = f"Message from your child session {session.id} ({session.agent_slug}): {said}{how}"
        self._sessions.tell(tx, parent, text, session.agent_slug)

    def _spawn_grant(self, tx: Tx, session: GatedSession, agent_id: str) -> PermissionGrant | None:
        return self._grants.usable_spawn(tx, session.workspace_id, _subjects(session), session.id, agent_id)

    async def _asked(
        self,
        session: GatedSession,
        kind: QuestionKind,
        request_id: str,
        question: str,
        options: tuple[str, ...],
        details: Mapping[str, Any],
    ) -> SessionQuestion:
        """The question on record: the same request asks once, also after a restart."""

        def work(tx: Tx) -> SessionQuestion:
            current = self._alive(tx, session.id)
            before = store.asked_before(tx, session.id, kind, request_id)
            if before is not None:
                if before.state == "pending":
                    self._base.waits(tx, current)
                return before
            new = SessionQuestion(
                id=new_id("qst"),
                session_id=session.id,
                workspace_id=session.workspace_id,
                request_id=request_id,
                kind=kind,
                question=question,
                options=options,
                details=details,
                created_at=self._base.clock.now(),
            )
            store.insert_question(tx, new)
            data: dict[str, Any] = {"question_id": new.id, "request_id": request_id, "kind": kind, "question": question}
            data |= {"options": list(options), "details": dict(details)}
            self._base.telling.add(tx, session.id, session.workspace_id, "question", data)
            self._base.waits(tx, current)
            self._base.publish(tx, current, "asked")
            return new

        self._touch(session)
        return await self._base.database.write(work)

    async def _decided(
        self,
        session: GatedSession,
        asked: SessionQuestion,
        also: Callable[[Tx], PermissionGrant | None] = lambda tx: None,
    ) -> SessionQuestion:
        """The question once it was answered; `also` finds what answers it without anybody naming it."""

        def look(tx: Tx) -> SessionQuestion:
            current = store.question(tx, session.id, asked.id)
            if current is None or current.state != "pending":
                return current or asked
            grant = also(tx)
            whole = store.find(tx, session.id)
            if grant is not None and whole is not None:
                self._base.decided(tx, whole, current, "answered", grant.created_by, grant_id=grant.id)
                return store.question(tx, session.id, asked.id) or current
            return current

        topics = [f"{TOPIC}.answered", f"{GRANT_TOPIC}.given"]
        async with self._events.subscribe(topics, workspace_ids={session.workspace_id}) as subscription:
            while (now := await self._base.database.write(look)).state == "pending":
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await subscription.get()
        if now.state == "withdrawn":
            raise SessionOver("The session ended before anybody answered.")
        return now

    def _given(self, tx: Tx, session: GatedSession, asked: SessionQuestion) -> PermissionGrant | None:
        """A grant that is just what was asked for."""
        wanted = asked.details.get("details", {})
        if asked.details.get("grant_type") == "spawn":
            return self._spawn_grant(tx, session, str(wanted.get("agent", "")))
        for grant in grant_store.of_subjects(tx, session.workspace_id, _subjects(session), self._base.clock.now()):
            in_scope = grant.scope != "session" or grant.session_id == session.id
            same = any(wanted.get(name) and grant.details.get(name) == wanted[name] for name in ("scope", "tool"))
            if grant.grant_type == "tool_scope" and in_scope and same:
                return grant
        return None


def _subjects(session: GatedSession) -> list[str]:
    """Whose grants count: the agent's, and those of the person who started it."""
    return [each for each in (session.agent_id, session.user_id) if each is not None]
