"""Owns a session's way to its model: one endpoint of ours, with a key of its own that nobody else could use."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.core.clock import Clock
from holdfast.engines.runners.base import MODEL_PORT
from holdfast.engines.runtime.base import LoopbackService
from holdfast.features.agents.sessions import store
from holdfast.features.agents.sessions.model import AgentSession, LimitReached
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Database, Tx

_SPARE_MILLIS = 24 * 3_600_000
"""Beyond a session's own minutes: what it waits for people is not counted."""


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """What the way to the model lets through, and with what."""

    project_id: str
    endpoint: str
    workspace_id: str
    token: str = field(repr=False)
    """What the agent shows; it opens nothing but this way, and only from the session's own sandbox."""
    key: str = field(repr=False)
    """What stands in its place from here on; the agent never has it."""
    refusal: Callable[[], Awaitable[str | None]]
    """Asked before each request: why there is no more."""
    used: Callable[[], Awaitable[None]]
    """Told after each request."""


class ModelDoor(Protocol):
    """Serves our own endpoints in a sandbox."""

    def service(self, access: ModelAccess) -> LoopbackService:
        """Answers one session's requests to its model, and nothing else."""
        ...


@dataclass(frozen=True, slots=True)
class OpenModel:
    """What a session's sandbox gets of its model."""

    url: str
    token: str = field(repr=False)
    listener: LoopbackService


class SessionModels:
    """Opens the way to the model, counts what goes through, and closes it when the budget or the session is over."""

    def __init__(self, database: Database, keys: Keys, usage: Usage, door: ModelDoor, clock: Clock) -> None:
        self._database = database
        self._keys = keys
        self._usage = usage
        self._door = door
        self._clock = clock

    @asynccontextmanager
    async def open(
        self, session: AgentSession, active: Callable[[], None], reached: Callable[[LimitReached], None]
    ) -> AsyncIterator[OpenModel]:
        """A way to the session's endpoint while somebody is in here; its key ends with it.

        `active` is called whenever a request begins or ends, `reached` once no tokens are left.
        """
        minted = await self._database.write(lambda tx: self._minted(tx, session))
        frozen = session.frozen

        async def refusal() -> str | None:
            active()
            problem = await self.exceeded(session)
            if problem is not None:
                reached(problem)
            return None if problem is None else problem.said

        async def used() -> None:
            active()
            problem = await self.exceeded(session)
            if problem is not None:
                reached(problem)

        token = f"hfs_{secrets.token_urlsafe(32)}"
        access = ModelAccess(
            project_id=frozen.project_id,
            endpoint=frozen.spec.endpoint,
            workspace_id=session.workspace_id,
            token=token,
            key=minted[1],
            refusal=refusal,
            used=used,
        )
        service = self._door.service(access)
        try:
            url = f"http://127.0.0.1:{MODEL_PORT}/{frozen.project_id}/{frozen.spec.endpoint}"
            yield OpenModel(url, token, service)
        finally:
            await service.close()
            await self._database.write(lambda tx: self._keys.forget(tx, session.principal.organization_id, minted[0]))
            await self.exceeded(session)

    async def exceeded(self, session: AgentSession) -> LimitReached | None:
        """Count what the session used so far; the limit that it reached, be it its own or one above it."""
        await self._usage.flush()

        def work(tx: Tx) -> LimitReached | None:
            current = store.find(tx, session.id)
            if current is None:
                return None
            used = self._usage.of_actors(tx, session.principal.organization_id, current.key_ids, current.created_at)
            counted = {
                "tokens_in": round(used.get("tokens_in", 0)),
                "tokens_out": round(used.get("tokens_out", 0)),
                "cost": used.get("cost", 0.0),
            }
            store.count_tokens(tx, session.id, counted)
            return _over_budget(tx, session)

        return await self._database.write(work)

    def _minted(self, tx: Tx, session: AgentSession) -> tuple[str, str]:
        limits = session.frozen.limits
        new = NewKey(
            name=f"session {session.id}",
            project_id=session.frozen.project_id,
            scopes=frozenset({"inference"}),
            tier="core",
            workspace_ids=frozenset({session.workspace_id}),
            expires_at=self._clock.now() + limits.minutes * 60_000 + _SPARE_MILLIS,
        )
        minted = self._keys.mint(tx, local_principal(session.principal.organization_id), new)
        store.add_key(tx, session.id, minted.key.id)
        return minted.key.id, minted.secret


def _over_budget(tx: Tx, session: AgentSession) -> LimitReached | None:
    """The nearest session up the tree whose tokens, its children's included, are used up."""
    tree = {each.id: each for each in store.of_root(tx, session.root_id)}
    at: str | None = session.id
    while at is not None and (above := tree.get(at)) is not None:
        spent = sum(each.tokens for each in tree.values() if _is_below(tree, each, above.id))
        limit = above.frozen.limits.tokens
        if spent >= limit:
            whose = "It" if above.id == session.id else f"The session {above.id} that started it"
            return LimitReached("tokens", f"{whose} has used {spent} of its {limit} tokens, all that it may.")
        at = above.parent_id
    return None


def _is_below(tree: dict[str, AgentSession], session: AgentSession, above: str) -> bool:
    at: AgentSession | None = session
    while at is not None:
        if at.id == above:
            return True
        at = tree.get(at.parent_id) if at.parent_id is not None else None
    return False
