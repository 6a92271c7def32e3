"""Owns what every change of a case does: find it, check who still holds it, write it with its history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.core.principal import Principal
from holdfast.features.cases import store
from holdfast.features.cases.model import Case, CaseNotFound, CaseVersionConflict, Held, HistoryEntry, Writing
from holdfast.features.cases.states import State
from holdfast.features.intelligence.base import IntelligenceBase
from holdfast.storage.database import Tx


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What a change was, for history and audit. `action` is a verb: `move`, `claim`."""

    action: str
    reason: str = ""
    from_state: State | None = None
    to_state: State | None = None
    detail: Mapping[str, Any] | None = None


class CaseBase:
    """The gate of every case, and the record of every change."""

    def __init__(self, foundation: IntelligenceBase) -> None:
        self.database = foundation.database
        self.clock = foundation.clock
        self.search = foundation.search
        self.workspaces = foundation.workspaces
        self._foundation = foundation

    def enter(self, tx: Tx, principal: Principal, workspace_id: str) -> str:
        """The workspace's own id, if the principal may see it."""
        return self._foundation.enter(tx, principal, workspace_id)

    def entered(
        self,
        tx: Tx,
        principal: Principal,
        workspace_id: str | None,
        id: str,
        place: Callable[[Tx, str], str | None],
        missing: Callable[[str], NotFound],
    ) -> str:
        """The workspace that is named, else the one where `place` finds the thing, if the principal may see it."""
        if workspace_id:
            return self.enter(tx, principal, workspace_id)
        found = place(tx, id)
        if found is None:
            raise missing(id)
        try:
            return self.enter(tx, principal, found)
        except NotFound:
            # What is in somebody else's workspace answers like what is not there.
            raise missing(id) from None

    def kept(
        self, tx: Tx, principal: Principal, workspace_id: str | None, id: str, *, for_update: bool = False
    ) -> Case:
        """A case, in whichever workspace that the principal sees where none is named."""
        workspace = self.entered(tx, principal, workspace_id, id, store.place, CaseNotFound)
        found = store.get(tx, workspace, id, for_update=for_update)
        if found is None:
            raise CaseNotFound(id)
        return found

    def held(self, tx: Tx, principal: Principal, workspace_id: str | None, id: str, writing: Writing) -> Case:
        """A case that the principal may change now: CaseVersionConflict, or Held where another has claimed it."""
        principal.require("inference")
        case = self.kept(tx, principal, workspace_id, id, for_update=True)
        if writing.expected_version is not None and writing.expected_version != case.version:
            raise CaseVersionConflict(case, writing.expected_version)
        claim = case.claim(self.clock.now())
        if writing.fence is not None:
            if claim is None or claim.fence != writing.fence or claim.holder != principal.actor:
                raise Held(claim, writing.fence)
        elif claim is not None and claim.holder != principal.actor and not principal.is_person:
            raise Held(claim)
        return case

    def write(self, tx: Tx, principal: Principal, case: Case, changed: CaseChange) -> Case:
        """Write the case as it is to be, one version on, and tell who listens."""
        kept = replace(case, version=case.version + 1, updated_at=self.clock.now())
        store.put(tx, kept)
        self.note(tx, principal, kept, changed)
        return kept

    def note(self, tx: Tx, principal: Principal, case: Case, changed: CaseChange) -> None:
        """Write down what happened to a case at its present version."""
        detail = dict(changed.detail or {})
        store.add_history(
            tx,
            case.id,
            HistoryEntry(
                case.version,
                self.clock.now(),
                principal.actor,
                principal.name,
                changed.action,
                changed.from_state,
                changed.to_state,
                changed.reason,
                detail,
            ),
        )
        told = {"state": case.state, "version": case.version, **detail}
        if changed.from_state is not None:
            told["from"] = changed.from_state
        self._foundation.record(
            tx, principal, f"case.{changed.action}", workspace_id=case.workspace_id, id=case.id, detail=told
        )
