"""Owns the end of a session: what it left is looked at and kept, its children end with it, its case is handed on."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.core.errors import Conflict, HoldfastError
from holdfast.engines.jobs import JobRun
from holdfast.engines.runtime.trees import remove_tree
from holdfast.features.agents.runs.attending import SessionEnding
from holdfast.features.agents.runs.casework import Casework
from holdfast.features.agents.runs.places import SessionPlace
from holdfast.features.agents.runs.worktrees import WorkDone, Worktrees
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.model import AgentSession
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.artifacts.model import WORKSPACE_BYTES, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Tx

RENEW_MILLIS = 300_000
_LOOK_SECONDS = 1.0
_KINDS = ("tool_called", "artifact", "shared", "memory", "spawned")
_PAGE = 1_000
_MOST_NAMED = 500

_log = logging.getLogger(__name__)


class Finishing:
    """Ends sessions. Killed in between, it is done again: each of its effects shows by itself."""

    def __init__(
        self,
        base: SessionBase,
        sessions: AgentSessions,
        worktrees: Worktrees,
        artifacts: ArtifactService,
        casework: Casework,
    ) -> None:
        self._base = base
        self._sessions = sessions
        self._worktrees = worktrees
        self._artifacts = artifacts
        self._casework = casework

    async def finish(
        self, job: JobRun, session_id: str, place: SessionPlace, ending: SessionEnding, mask: SecretMask
    ) -> None:
        """Keep what a session left, without what nobody is to read in it, and end it like this."""
        session = await self._base.database.read(lambda tx: store.find(tx, session_id))
        if session is None:
            await asyncio.to_thread(place.remove)
            return
        await job.write(lambda tx: self._stop_children(tx, session))
        work = await self._left(session, place, mask)
        artifact = await self._kept_patch(session, work)
        case = await self._casework.over(session, work, ending)
        told = await self._told(session)
        await job.write(lambda tx: self._end(tx, session, ending, work, artifact, case, told))
        await asyncio.to_thread(remove_tree, place.gate)
        await asyncio.to_thread(remove_tree, place.out)
        if session.resume_token is None:
            await asyncio.to_thread(place.remove)

    async def renew(self, session: AgentSession) -> None:
        """Keep the session's case for as long as it works."""
        renewed_at = self._base.clock.now()
        while session.case_id is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            # By the clock that leases go by: a machine that slept is late at once.
            now = self._base.clock.now()
            if now - renewed_at < RENEW_MILLIS:
                continue
            renewed_at = now
            try:
                await self._casework.renew(session)
            except Conflict as problem:
                data = {"message": f"Its case is no longer its own: {problem.message}", "recoverable": True}
                await self._base.telling.emit(session.id, session.workspace_id, "error", data)
                return
            except HoldfastError as problem:
                _log.warning("The lease of the case of %s could not be renewed: %s", session.id, problem.message)

    def _stop_children(self, tx: Tx, session: AgentSession) -> None:
        for child in store.of_root(tx, session.root_id):
            if child.parent_id == session.id and not child.is_over:
                self._sessions.stop_within(tx, child, f"the end of {session.id}")

    async def _left(self, session: AgentSession, place: SessionPlace, mask: SecretMask) -> WorkDone | None:
        if session.started_at is None or not place.work.exists():
            return None
        try:
            work = await self._worktrees.collect(session, place, mask)
            if work.problem:
                data = {"message": f"Not all that it left could be taken over: {work.problem}", "recoverable": True}
                await self._base.telling.emit(session.id, session.workspace_id, "error", data)
            return work
        except HoldfastError as problem:
            data = {"message": f"What it left could not be read: {problem.message}", "recoverable": False}
            await self._base.telling.emit(session.id, session.workspace_id, "error", data)
            return None

    async def _kept_patch(self, session: AgentSession, work: WorkDone | None) -> str | None:
        """The artifact that holds what changed; None where nothing did."""
        if work is None or not work.patch:
            return None
        content = work.patch.encode()[:WORKSPACE_BYTES].decode("utf-8", "ignore")
        new = NewArtifact(
            identifier=f"patch-{session.id}",
            title=f"What {session.agent_slug} changed in {session.id}",
            type="text/x-diff",
            content=content,
            language="diff",
        )
        try:
            return (await self._artifacts.create(session.principal, session.workspace_id, new)).id
        except HoldfastError as problem:
            data = {"message": f"The patch could not be kept: {problem.message}", "recoverable": False}
            await self._base.telling.emit(session.id, session.workspace_id, "error", data)
            return None

    def _end(
        self,
        tx: Tx,
        session: AgentSession,
        ending: SessionEnding,
        work: WorkDone | None,
        artifact: str | None,
        case: Mapping[str, Any] | None,
        told: Mapping[str, Any],
    ) -> None:
        current = store.find(tx, session.id) or session
        result: dict[str, Any] = {
            "summary": current.summary or ending.text,
            "branch": current.branch if work is not None and work.commits and current.frozen.base_commit else None,
            "base_commit": current.frozen.base_commit,
            "head_commit": work.head if work is not None and current.frozen.base_commit else None,
            "commits": [] if work is None else [{"id": id, "subject": subject} for id, subject in work.commits[:100]],
            "commits_total": 0 if work is None else work.all_commits,
            "files": []
            if work is None
            else [{"path": each.path, "added": each.added, "removed": each.removed} for each in work.files[:500]],
            "files_total": 0 if work is None else work.all_files,
            "patch_artifact": artifact,
            "patch_truncated": work is not None and work.is_cut,
            "secrets_in_work": [] if work is None else list(work.secrets),
            "tokens_in": current.tokens_in,
            "tokens_out": current.tokens_out,
            "cost": current.cost,
            "seconds": None if current.started_at is None else _worked(current, self._base.clock.now()),
            **told,
        }
        if case is not None:
            result["case"] = dict(case)
        if self._base.end(tx, current, ending.state, error=ending.error, result=result):
            self._base.telling.add(tx, current.id, current.workspace_id, "result", result)

    async def _told(self, session: AgentSession) -> dict[str, Any]:
        """What its events say of its tools, artifacts and memories: all of them, however many it made."""
        counted: Counter[str] = Counter()
        grants: set[str] = set()
        artifacts: list[Any] = []
        memories: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        after = 0
        while events := await self._base.database.read(
            partial(store.events_of, session_id=session.id, kinds=_KINDS, after=after, limit=_PAGE)
        ):
            after = events[-1].seq
            for event in events:
                data = event.data
                grants |= {str(data[name]) for name in ("granted_via", "grant_id") if data.get(name)}
                if event.kind in ("artifact", "shared"):
                    artifacts.append(data.get("artifact_id"))
                elif event.kind == "memory":
                    memories.append(dict(data))
                elif event.kind == "tool_called":
                    tool = f"{data.get('name')}.{data.get('tool')}"
                    counted[tool] += 1
                    if data.get("status") == "denied" or "permission_required" in data:
                        refused.append({"tool": tool, "needs": data.get("permission_required")})
        return {
            "artifacts": artifacts[:_MOST_NAMED],
            "memories": memories[:_MOST_NAMED],
            "tool_calls": [{"tool": tool, "times": times} for tool, times in counted.most_common(200)],
            "grants": sorted(grants)[:_MOST_NAMED],
            "refused": refused[:200],
        }


def _worked(session: AgentSession, now: int) -> float:
    """Seconds of work; what it waited for people is not counted."""
    waits = 0 if session.waiting_since is None else now - session.waiting_since
    return max(0, now - (session.started_at or now) - session.waited_millis - waits) / 1000
