"""Owns a case as it is read whole, by people and agents: with proofs, links, comments and history."""

from collections.abc import Iterable, Mapping

from holdfast.core.principal import Principal
from holdfast.features.cases import store
from holdfast.features.cases.answers import CaseAnswer, detail_answer
from holdfast.features.cases.model import Case, Taking
from holdfast.features.cases.proofs.queueing import RunQueue
from holdfast.features.cases.service import CaseService
from holdfast.storage.database import Tx


class CaseReading:
    """Reads cases whole, each on one snapshot."""

    def __init__(self, cases: CaseService, queue: RunQueue) -> None:
        self._cases = cases
        self._queue = queue

    async def read(self, principal: Principal, workspace_id: str | None, id: str) -> CaseAnswer:
        """A case; in whichever workspace the principal sees where none is named."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> CaseAnswer:
            return self._whole(tx, self._cases.base.kept(tx, principal, workspace_id, id))

        return await self._cases.base.database.read(work)

    async def claim_next(self, principal: Principal, workspace_id: str, taking: Taking) -> CaseAnswer:
        """Take the first case that is ready, and see it whole; NothingReady where there is none."""
        return await self._cases.claims.claim_next_as(principal, workspace_id, taking, self._whole)

    async def titles(self, principal: Principal, workspace_id: str, ids: Iterable[str]) -> Mapping[str, str]:
        """What the cases of a workspace with these ids are called, by id."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Mapping[str, str]:
            within = self._cases.base.enter(tx, principal, workspace_id)
            return {id: title for id in ids if (title := store.title(tx, within, id)) is not None}

        return await self._cases.base.database.read(work)

    async def answer(self, principal: Principal, case: Case) -> CaseAnswer:
        """A case that was just changed, as it is now."""
        return await self.read(principal, case.workspace_id, case.id)

    def _whole(self, tx: Tx, case: Case) -> CaseAnswer:
        return detail_answer(self._cases.described(tx, case), self._queue.proven(tx, case, whole=False))
