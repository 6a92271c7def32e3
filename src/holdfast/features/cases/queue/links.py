"""Owns how cases are tied: what blocks what, what is part of what, and that neither goes in a circle."""

from collections.abc import Callable, Sequence

from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.features.cases import store
from holdfast.features.cases.base import CaseBase, CaseChange
from holdfast.features.cases.model import Case, CaseLink, CaseNotFound, LinkCycle, LinkType, NewLink
from holdfast.storage.database import Tx

MOST_STEPS = 20_000
_WORDS: dict[LinkType, str] = {
    "blocks": "blocks",
    "related": "is related to",
    "discovered_from": "was discovered from",
}


class CaseLinks:
    """Ties cases of one workspace."""

    def __init__(self, base: CaseBase) -> None:
        self._base = base

    async def link(self, principal: Principal, workspace_id: str, id: str, new: NewLink) -> Case:
        """Tie a case to another; nothing happens where they are tied so already."""
        principal.require("inference")

        def work(tx: Tx) -> Case:
            # Held: were it done in the meantime, what it blocks would be counted without it.
            case = self._base.kept(tx, principal, workspace_id, id, for_update=True)
            return self.add(tx, principal, case, new)

        return await self._base.database.write(work)

    def add(self, tx: Tx, principal: Principal, case: Case, new: NewLink) -> Case:
        """The same, within a transaction."""
        if new.case_id == case.id:
            problem = "name another case"
            raise Invalid("A case is not tied to itself.", fields=[FieldError("case_id", problem)])
        store.hold_links(tx, case.workspace_id)
        other = store.get(tx, case.workspace_id, new.case_id)
        if other is None:
            raise CaseNotFound(new.case_id)
        check_link(tx, case.id, new)
        link = CaseLink(case.id, new.type, other.id)
        mirrored = CaseLink(other.id, new.type, case.id)
        if new.type == "related" and mirrored in store.links(tx, [case.id]):
            return case
        if store.add_link(tx, case.workspace_id, link, self._base.clock.now()):
            if new.type == "blocks":
                store.count_blockers(tx, [other.id])
            self._base.note(tx, principal, case, CaseChange("link", detail={"type": new.type, "case_id": other.id}))
        return case

    async def unlink(self, principal: Principal, workspace_id: str, id: str, old: NewLink) -> Case:
        """Take a tie away."""
        principal.require("inference")

        def work(tx: Tx) -> Case:
            case = self._base.kept(tx, principal, workspace_id, id)
            ends = [CaseLink(case.id, old.type, old.case_id)]
            if old.type == "related":
                ends.append(CaseLink(old.case_id, old.type, case.id))
            if not sum(store.remove_link(tx, each) for each in ends):
                raise Conflict(f"{case.id} {_WORDS[old.type]} {old.case_id} is not on record.")
            if old.type == "blocks":
                store.count_blockers(tx, [old.case_id])
            self._base.note(
                tx, principal, case, CaseChange("unlink", detail={"type": old.type, "case_id": old.case_id})
            )
            return case

        return await self._base.database.write(work)


def check_link(tx: Tx, id: str, new: NewLink) -> None:
    """LinkCycle where a case would block itself, or have been discovered from itself."""
    if new.type == "related":
        return
    back = path(id, new.case_id, lambda each: store.linked_from(tx, each, new.type))
    if back is not None:
        raise LinkCycle([id, *back], _WORDS[new.type])


def check_parent(tx: Tx, workspace_id: str, id: str | None, parent: str | None) -> None:
    """CaseNotFound, or LinkCycle where the case would be part of itself."""
    if parent is None:
        return
    store.hold_links(tx, workspace_id)
    if store.get(tx, workspace_id, parent) is None:
        raise CaseNotFound(parent)
    if id is None:
        return

    def above(each: str) -> Sequence[str]:
        found = store.get(tx, workspace_id, each)
        return [found.parent] if found is not None and found.parent is not None else []

    back = path(id, parent, above)
    if back is not None:
        raise LinkCycle([id, *back], "is part of")


def path(goal: str, start: str, onward: Callable[[str], Sequence[str]]) -> list[str] | None:
    """The way from `start` to `goal`, both named; None where there is none."""
    before: dict[str, str | None] = {start: None}
    waiting = [start]
    while waiting and len(before) <= MOST_STEPS:
        each = waiting.pop(0)
        if each == goal:
            way: list[str] = []
            at: str | None = each
            while at is not None:
                way.append(at)
                at = before[at]
            return way[::-1]
        for following in onward(each):
            if following not in before:
                before[following] = each
                waiting.append(following)
    if waiting:
        raise Conflict(f"More than {MOST_STEPS} cases hang together here; tie them in smaller groups.")
    return None
