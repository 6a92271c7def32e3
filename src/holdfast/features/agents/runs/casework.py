"""Owns a session's case: moved on as work begins, held while it lasts, and handed on or back at its end."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.text.counting import many
from holdfast.features.agents.runs.attending import SessionEnding
from holdfast.features.agents.runs.worktrees import WorkDone, Worktrees
from holdfast.features.agents.sessions.model import AgentSession
from holdfast.features.cases.model import Case, Taking, Writing
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import State

_TOWARDS: dict[State, State] = {"OPEN": "PLANNING", "REPRODUCING": "PLANNING", "PLANNING": "IMPLEMENTING"}


class Casework:
    """Does to a case what its session's course means for it, as the agent that holds it."""

    def __init__(self, cases: CaseService, worktrees: Worktrees) -> None:
        self._cases = cases
        self._worktrees = worktrees

    async def renew(self, session: AgentSession) -> None:
        """Hold the case for longer."""
        if session.case_id is not None and session.case_fence is not None:
            taking = Taking(session_id=session.id)
            await self._cases.claims.renew(
                session.principal, session.workspace_id, session.case_id, session.case_fence, taking
            )

    async def over(
        self, session: AgentSession, work: WorkDone | None, ending: SessionEnding
    ) -> Mapping[str, Any] | None:
        """Move the case on where there is something to verify, else say why not; then give it back either way."""
        if session.case_id is None:
            return None
        try:
            case = await self._cases.get(session.principal, session.workspace_id, session.case_id)
            if ending.state == "completed":
                case = await self._moved_on(session, case, work, ending)
            else:
                reason = str((ending.error or {}).get("message") or ending.state)
                await self._say(session, f"Session {session.id} handed the case back: {reason}")
            case = await self._released(session, case)
        except HoldfastError as problem:
            return {"id": session.case_id, "problem": problem.message}
        return {"id": case.id, "state": case.state, "head_commit": case.head_commit}

    async def _moved_on(self, session: AgentSession, case: Case, work: WorkDone | None, ending: SessionEnding) -> Case:
        said = (ending.text or "It said nothing of its work.")[:10_000]
        if work is not None and work.secrets:
            names = ", ".join(work.secrets)
            await self._say(
                session, f"Session {session.id}: its commits hold {names}, so they were not taken over. {said}"
            )
            return case
        if work is None or work.head is None or not work.packs or case.repository is None:
            await self._say(session, f"Session {session.id} ended without a change to verify. {said}")
            return case
        await self._worktrees.adopt(session, work)
        await self._say(session, f"Session {session.id} left {many(len(work.commits), 'commit')}, {work.head}. {said}")
        writing = Writing(fence=session.case_fence)
        case = await self._cases.edit(
            session.principal, session.workspace_id, case.id, {"head_commit": work.head}, writing=writing
        )
        while case.state in _TOWARDS or case.state == "IMPLEMENTING":
            to: State = "VERIFYING" if case.state == "IMPLEMENTING" else _TOWARDS[case.state]
            if case.state == "OPEN" and case.kind == "bug":
                to = "REPRODUCING"
            case = await self._cases.move(
                session.principal, session.workspace_id, case.id, to, reason=f"session {session.id}", writing=writing
            )
        return case

    async def _say(self, session: AgentSession, text: str) -> None:
        assert session.case_id is not None
        await self._cases.comment(session.principal, session.workspace_id, session.case_id, text)

    async def _released(self, session: AgentSession, case: Case) -> Case:
        return await self._cases.claims.release(session.principal, session.workspace_id, case.id, session.case_fence)
