"""Owns a session as the gate knows it, and what stands in for sessions: kept in memory, answered by tests."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.core.errors import Forbidden, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.agents.gate.base import ChildOutput, FrozenAttachment, GatedSession
from holdfast.features.catalog.model import CatalogEntry
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.execution.model import NewGrant
from holdfast.features.execution.policies.grants import Grants
from tests.support.services import Services


@dataclass
class SessionsInMemory:
    """What the gate asks of sessions, with everything that was asked in order."""

    events: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    """Session, kind, data."""
    asked: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    """What waits for an answer, by the request's id."""
    questions: list[Mapping[str, Any]] = field(default_factory=list)
    asking: asyncio.Event = field(default_factory=asyncio.Event)
    ended: dict[str, str] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    quiet: list[float] = field(default_factory=list)

    def kinds(self, session: GatedSession) -> list[str]:
        return [kind for id, kind, _ in self.events if id == session.id]

    def answer(self, request_id: str, value: Any) -> None:
        self.asked[request_id].set_result(value)

    async def question(self) -> Mapping[str, Any]:
        """The next question, once there is one."""
        async with asyncio.timeout(30):
            await self.asking.wait()
        self.asking.clear()
        return self.questions[-1]

    async def _wait(self, request_id: str, **question: Any) -> Any:
        if request_id not in self.asked:
            self.asked[request_id] = asyncio.get_running_loop().create_future()
            self.questions.append({"request_id": request_id, **question})
            self.asking.set()
        return await asyncio.shield(self.asked[request_id])

    async def emit(self, session: GatedSession, kind: str, data: Mapping[str, Any]) -> int:
        self.events.append((session.id, kind, data))
        return len(self.events)

    async def ask(self, session: GatedSession, request_id: str, question: str, options: Sequence[str]) -> str:
        return str(await self._wait(request_id, question=question, options=options))

    async def request_grant(
        self,
        session: GatedSession,
        request_id: str,
        grant_type: str,
        details: Mapping[str, Any],
        scope: str,
        justification: str,
    ) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await self._wait(
            request_id, grant_type=grant_type, details=details, scope=scope, justification=justification
        )
        return answer

    async def end(self, session: GatedSession, summary: str) -> None:
        self.ended[session.id] = summary

    async def spawnable(self, session: GatedSession) -> Sequence[Mapping[str, Any]]:
        return [{"id": "agt_child", "slug": "child", "name": "Child", "granted": True}]

    async def spawn(self, session: GatedSession, agent_id: str, prompt: str, model: str | None) -> str:
        if agent_id != "agt_child":
            raise Forbidden("There is no spawn grant for this agent.")
        child = new_id("ses")
        self.children[child] = [prompt]
        return child

    async def child_output(self, session: GatedSession, child_id: str, after: int, limit: int) -> ChildOutput:
        if child_id not in self.children:
            raise NotFound("session", child_id)
        told = [{"seq": number, "text": text} for number, text in enumerate(self.children[child_id], 1)]
        shown = [event for event in told if int(str(event["seq"])) > after][:limit]
        return ChildOutput("running", shown, len(told))

    async def inject(self, session: GatedSession, child_id: str, text: str) -> None:
        if child_id not in self.children:
            raise NotFound("session", child_id)
        self.children[child_id].append(text)

    async def message_caller(self, session: GatedSession, summary: str, body: str, needs_response: bool) -> str | None:
        return f"heard: {summary}" if needs_response else None

    async def expect_quiet(self, session: GatedSession, seconds: float, reason: str) -> None:
        self.quiet.append(seconds)


async def attached(
    services: Services, owner: Principal, workspace_id: str, name: str = "demo", **env: str
) -> FrozenAttachment:
    """A server of the catalog as a session freezes it."""
    entry: CatalogEntry = await services[ServerCatalog].get(owner, workspace_id, name)
    pins = await services[ToolPins].of(owner, workspace_id, name)
    return FrozenAttachment(entry.id, name, entry.revision, env, {pin.name: pin.digest for pin in pins})


def gated(
    owner: Principal,
    workspace_id: str,
    worktree: Path,
    *attachments: FrozenAttachment,
    agent_id: str,
    user_id: str | None = None,
    **more: Any,
) -> GatedSession:
    """A session of an agent."""
    rights = {"scopes": frozenset(SCOPES), "role": "member", "workspace_ids": frozenset({workspace_id}), **more}
    principal = Principal(owner.organization_id, agent_id, "key", False, name="tester", **rights)
    return GatedSession(
        id=new_id("ses"),
        workspace_id=workspace_id,
        agent_id=agent_id,
        agent_slug="tester",
        principal=principal,
        user_id=user_id,
        parent_id=None,
        attachments=attachments,
        worktree=worktree,
        refresh=_is_fresh,
    )


async def _is_fresh() -> None:
    """The sandbox writes to the worktree itself."""


async def grant(services: Services, person: Principal, session: GatedSession, **details: str) -> str:
    """What a person gives the session's agent, or a `user`; for this session, or as `lasting` says."""
    scope, user = details.pop("lasting", "session"), details.pop("user", None)
    new = NewGrant(
        subject_type="agent" if user is None else "user",
        subject_id=user or session.agent_id,
        grant_type="tool_scope",
        details=details,
        scope=scope,  # type: ignore[arg-type]
        session_id=session.id if scope == "session" else None,
    )
    return (await services[Grants].give(person, session.workspace_id, new)).id
