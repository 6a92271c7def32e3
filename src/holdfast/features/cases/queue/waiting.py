"""Owns which cases wait for somebody: due or blocked work of theirs, claims that end, proofs that no longer hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.principal import Principal
from holdfast.features.cases import store
from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs.queueing import RunQueue
from holdfast.features.cases.service import CaseService
from holdfast.storage.database import Tx

Wait = Literal["due", "blocked", "claim", "stale", "flaky"]
DUE_MILLIS = 24 * 3600 * 1000
"""A case is due from a day before its date."""
CLAIM_MILLIS = 30 * 60 * 1000
"""How long before its end a claim is told of."""
_LOOKED_AT = 200
_MOST_VERIFIED = 10


@dataclass(frozen=True, slots=True)
class WaitingCase:
    """A case that wants its person, why, and the moment that it is about."""

    case: Case
    wait: Wait
    detail: str
    at: int


class WaitingCases:
    """Finds what wants a person in a workspace."""

    def __init__(self, cases: CaseService, queue: RunQueue) -> None:
        self._base = cases.base
        self._queue = queue

    async def of(self, principal: Principal, workspace_id: str, limit: int) -> Sequence[WaitingCase]:
        """What is assigned to them and due or blocked, what they hold not much longer, and what they have verified."""
        principal.require_any("read", "inference")
        names = [name for name in (principal.actor, principal.name) if name]

        def work(tx: Tx) -> list[WaitingCase]:
            workspace, now = self._base.enter(tx, principal, workspace_id), self._base.clock.now()
            theirs = store.of_somebody(tx, workspace, principal.actor, names, _LOOKED_AT)
            found = [each for case in theirs for each in _assigned(case, names, now)]
            found += [each for case in theirs for each in _ending(case, principal.actor, now)]
            verified = [case for case in theirs if case.state == "VERIFYING"][:_MOST_VERIFIED]
            found += [each for case in verified for each in self._unproven(tx, case)]
            return found[:limit]

        return await self._base.database.read(work)

    def _unproven(self, tx: Tx, case: Case) -> list[WaitingCase]:
        """The first of its proofs that held once and does not now."""
        for each in self._queue.proven(tx, case, whole=False):
            if each.verdict in ("stale", "flaky"):
                wait: Wait = "stale" if each.verdict == "stale" else "flaky"
                return [WaitingCase(case, wait, each.proof.claim or each.proof.command, each.runs[0].created_at)]
        return []


def _assigned(case: Case, names: Sequence[str], now: int) -> list[WaitingCase]:
    if case.assignee not in names:
        return []
    if case.state == "BLOCKED":
        return [WaitingCase(case, "blocked", case.reason, case.updated_at)]
    if case.due_at is not None and case.due_at - now < DUE_MILLIS:
        return [WaitingCase(case, "due", case.state, case.due_at)]
    return []


def _ending(case: Case, actor: str, now: int) -> list[WaitingCase]:
    claim = case.claim(now)
    if claim is None or claim.holder != actor or claim.expires_at - now >= CLAIM_MILLIS:
        return []
    return [WaitingCase(case, "claim", case.state, claim.expires_at)]
