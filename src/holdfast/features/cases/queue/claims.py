"""Owns who works on a case: claims with a lease and a fence, and the queue that they come from."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.features.cases import store
from holdfast.features.cases.base import CaseBase, CaseChange
from holdfast.features.cases.checks import checked_word
from holdfast.features.cases.model import Case, CaseClaim, Held, NothingReady, Taking
from holdfast.storage.database import Tx

SESSION_SECONDS = 15 * 60
"""A session's lease, which whoever runs it renews."""
USUAL_SECONDS = 4 * 3600
"""The lease of people and of agents from elsewhere."""
MOST_SECONDS = 24 * 3600
Shown = TypeVar("Shown")


class Claims:
    """Gives each case to one at a time. A lease that ran out gives it back by itself."""

    def __init__(self, base: CaseBase) -> None:
        self._base = base

    async def ready(self, principal: Principal, workspace_id: str, limit: int = 50) -> Sequence[Case]:
        """The first of what nothing blocks and nobody holds, by priority, then age."""
        principal.require_any("read", "inference")
        return await self._base.database.read(
            lambda tx: store.ready(tx, self._base.enter(tx, principal, workspace_id), self._base.clock.now(), limit)
        )

    async def ready_page(
        self, principal: Principal, workspace_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Case]:
        """The same, page by page."""
        principal.require_any("read", "inference")
        place = decode_cursor(cursor, int, int, str) if cursor else (-1, 0, "")
        after = int(place[0]), int(place[1]), str(place[2])

        def work(tx: Tx) -> Page[Case]:
            workspace = self._base.enter(tx, principal, workspace_id)
            rows = store.ready(tx, workspace, self._base.clock.now(), limit + 1, after)
            return page_of(rows, limit, lambda case: [case.priority, case.created_at, case.id])

        return await self._base.database.read(work)

    async def claim(self, principal: Principal, workspace_id: str | None, id: str, taking: Taking) -> Case:
        """Take a case: Held where somebody has it, Conflict where it waits for others or is over."""
        principal.require("inference")
        lease = _lease_millis(taking)

        def work(tx: Tx) -> Case:
            case = self._base.kept(tx, principal, workspace_id, id, for_update=True)
            claim = case.claim(self._base.clock.now())
            if claim is not None:
                again = claim.session_id is not None and claim.session_id == taking.session_id
                if again and claim.holder == principal.actor:
                    return self._prolonged(tx, principal, case, claim, lease)
                raise Held(claim)
            if not case.is_active:
                raise Conflict(f"A case that is {case.state} is not worked on; move it first.", code="not_active")
            waiting = store.blockers(tx, [case.id]).get(case.id)
            if waiting:
                raise Conflict(f"The case waits for {', '.join(waiting[:10])}; take one of those.", code="blocked")
            return self._taken(tx, principal, case, taking, lease)

        return await self._base.database.write(work)

    async def claim_next(self, principal: Principal, workspace_id: str, taking: Taking) -> Case:
        """Take the first that is ready and meant for nobody else; NothingReady where there is none."""
        return await self.claim_next_as(principal, workspace_id, taking, lambda tx, case: case)

    async def claim_next_as(
        self, principal: Principal, workspace_id: str, taking: Taking, shown: Callable[[Tx, Case], Shown]
    ) -> Shown:
        """The same, as the caller wants to see it, read in the transaction that takes it."""
        principal.require("inference")
        lease = _lease_millis(taking)
        names = [name for name in (principal.actor, principal.name) if name]

        def work(tx: Tx) -> Shown:
            workspace = self._base.enter(tx, principal, workspace_id)
            case = store.next_ready(tx, workspace, self._base.clock.now(), names)
            if case is None:
                raise NothingReady
            return shown(tx, self._taken(tx, principal, case, taking, lease))

        return await self._base.database.write(work)

    async def renew(self, principal: Principal, workspace_id: str | None, id: str, fence: int, taking: Taking) -> Case:
        """Hold it for longer; Held where the fence is no longer good."""
        principal.require("inference")

        def work(tx: Tx) -> Case:
            case, claim = self._own(tx, principal, workspace_id, id, fence)
            return self._prolonged(tx, principal, case, claim, _lease_millis(taking, claim))

        return await self._base.database.write(work)

    async def release(self, principal: Principal, workspace_id: str | None, id: str, fence: int | None) -> Case:
        """Give it back; a person frees whoever's it is by leaving the fence out. What nobody holds stays as it is."""
        principal.require("inference")

        def work(tx: Tx) -> Case:
            if fence is None and principal.is_person:
                case = self._base.kept(tx, principal, workspace_id, id, for_update=True)
                if case.claim(self._base.clock.now()) is None:
                    return case
            else:
                case, _ = self._own(tx, principal, workspace_id, id, fence)
            freed = replace(case, last_claim=None, version=case.version + 1, updated_at=self._base.clock.now())
            store.set_claim(tx, freed)
            self._base.note(tx, principal, freed, CaseChange("release", detail={"fence": case.fence}))
            return freed

        return await self._base.database.write(work)

    def _own(
        self, tx: Tx, principal: Principal, workspace_id: str | None, id: str, fence: int | None
    ) -> tuple[Case, CaseClaim]:
        case = self._base.kept(tx, principal, workspace_id, id, for_update=True)
        claim = case.claim(self._base.clock.now())
        good = claim is not None and claim.holder == principal.actor and fence in (None, claim.fence)
        if claim is None or not good:
            raise Held(claim, fence)
        return case, claim

    def _taken(self, tx: Tx, principal: Principal, case: Case, taking: Taking, lease: int) -> Case:
        now = self._base.clock.now()
        fence = case.fence + 1
        session = checked_word(taking.session_id, "session_id")
        claim = CaseClaim(principal.actor, principal.name, session, now + lease, fence)
        held = replace(case, last_claim=claim, fence=fence, version=case.version + 1, updated_at=now)
        store.set_claim(tx, held)
        detail = {"fence": fence, "session_id": session, "expires_at": claim.expires_at}
        self._base.note(tx, principal, held, CaseChange("claim", detail=detail))
        return held

    def _prolonged(self, tx: Tx, principal: Principal, case: Case, claim: CaseClaim, lease: int) -> Case:
        now = self._base.clock.now()
        # No new version: who reads the case to change it need not read it again because its holder goes on.
        kept = replace(case, last_claim=replace(claim, expires_at=now + lease), updated_at=now)
        store.set_claim(tx, kept)
        return kept


def _lease_millis(taking: Taking, claim: CaseClaim | None = None) -> int:
    session = taking.session_id or (claim.session_id if claim else None)
    usual = SESSION_SECONDS if session else USUAL_SECONDS
    seconds = usual if taking.lease_seconds is None else taking.lease_seconds
    if not 1 <= seconds <= MOST_SECONDS:
        problem = f"from 1 to {MOST_SECONDS}"
        raise Invalid("The lease is out of range.", fields=[FieldError("lease_seconds", problem)])
    return seconds * 1000
