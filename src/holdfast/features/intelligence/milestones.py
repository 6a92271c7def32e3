"""Owns the rules of milestones and the timeline that they make."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, page_of
from holdfast.core.principal import Principal
from holdfast.engines.search.model import Entry
from holdfast.features.intelligence import store
from holdfast.features.intelligence.base import IntelligenceBase, checked_text, checked_title, position
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.vocabulary import checked_word
from holdfast.features.intelligence.model import (
    MAX_TEXT,
    DecisionNotFound,
    Milestone,
    MilestoneEdit,
    MilestoneFilter,
    MilestoneNotFound,
    NewMilestone,
    Ref,
    Relation,
)
from holdfast.storage.database import Tx

TIE = "implements"
"""How a milestone relates to the decisions it is tracked with."""
_MAX_DECISIONS = 50


class Milestones:
    """What the team reached, and when."""

    def __init__(self, base: IntelligenceBase) -> None:
        self._base = base

    async def track(self, principal: Principal, workspace_id: str, new: NewMilestone) -> Milestone:
        """Record a milestone with its ties to decisions."""
        workspace = await self._base.writer(principal, workspace_id)
        now = self._base.clock.now()
        milestone = _drafted(principal, workspace, new, now)
        vectors = await self._base.vectors(entry_of(milestone))

        def work(tx: Tx) -> Milestone:
            self._base.enter(tx, principal, workspace_id)
            return self._put(tx, principal, milestone, new.decisions, vectors)

        return await self._base.database.write(work)

    def add(self, tx: Tx, principal: Principal, workspace_id: str, new: NewMilestone) -> Milestone:
        """Record a milestone with the change that `tx` makes; its vector follows in the background."""
        principal.require("inference")
        workspace = self._base.enter(tx, principal, workspace_id)
        milestone = _drafted(principal, workspace, new, self._base.clock.now())
        return self._put(tx, principal, milestone, new.decisions, None)

    def _put(
        self,
        tx: Tx,
        principal: Principal,
        milestone: Milestone,
        decisions: tuple[str, ...],
        vectors: NDArray[np.float32] | None,
    ) -> Milestone:
        store.put_milestone(tx, milestone)
        self._tie(tx, principal, milestone, decisions)
        self._base.search.put(tx, [entry_of(milestone)], vectors)
        detail = {"title": milestone.title, "type": milestone.type}
        workspace = milestone.workspace_id
        self._base.record(tx, principal, "milestone.track", workspace_id=workspace, id=milestone.id, detail=detail)
        return _kept(tx, workspace, milestone.id)

    async def edit(self, principal: Principal, workspace_id: str, id: str, change: MilestoneEdit) -> Milestone:
        """Change some fields; `decisions` replaces every tie to decisions."""
        return await self._base.database.write(lambda tx: self.change(tx, principal, workspace_id, id, change))

    def change(self, tx: Tx, principal: Principal, workspace_id: str, id: str, change: MilestoneEdit) -> Milestone:
        """Like `edit`, within a transaction."""
        principal.require("inference")
        fields = _changed_fields(change)
        workspace = self._base.enter(tx, principal, workspace_id)
        old = _kept(tx, workspace, id, for_update=True)
        edited = replace(old, **fields, updated_at=self._base.clock.now())  # type: ignore[arg-type]
        store.put_milestone(tx, edited)
        if change.decisions is not None:
            wanted = set(change.decisions)
            loose = [
                tie.id
                for tie in relation_store.of(tx, workspace, [id])
                if "decision" in (tie.start.type, tie.end.type) and not {tie.start.id, tie.end.id} & wanted
            ]
            relation_store.remove(tx, workspace, loose)
            added = tuple(decision for decision in change.decisions if decision not in old.decisions)
            self._tie(tx, principal, edited, added)
        self._base.search.put(tx, [entry_of(edited)])
        changed = sorted({*fields, *(["decisions"] if change.decisions is not None else [])})
        self._base.record(tx, principal, "milestone.edit", workspace_id=workspace, id=id, detail={"fields": changed})
        return _kept(tx, workspace, id)

    async def delete(self, principal: Principal, workspace_id: str, id: str) -> None:
        """Take the milestone away, with its relations."""
        await self._base.database.write(lambda tx: self.remove(tx, principal, workspace_id, id))

    def remove(self, tx: Tx, principal: Principal, workspace_id: str, id: str) -> None:
        """Like `delete`, within a transaction."""
        principal.require("inference")
        workspace = self._base.enter(tx, principal, workspace_id)
        if not store.delete_milestone(tx, workspace, id):
            raise MilestoneNotFound(id)
        relation_store.remove(tx, workspace, [tie.id for tie in relation_store.of(tx, workspace, [id])])
        self._base.search.remove(tx, workspace, "milestone", id)
        self._base.record(tx, principal, "milestone.delete", workspace_id=workspace, id=id)

    async def get(self, principal: Principal, workspace_id: str, id: str) -> Milestone:
        """One milestone."""
        principal.require_any("read", "inference")
        return await self._base.database.glance(lambda tx: _kept(tx, self._base.enter(tx, principal, workspace_id), id))

    async def timeline(
        self,
        principal: Principal,
        workspace_id: str,
        wanted: MilestoneFilter = MilestoneFilter(),  # noqa: B008 - frozen
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Milestone]:
        """Milestones by the moment they were reached, newest first."""
        principal.require_any("read", "inference")
        after = position(cursor)

        def work(tx: Tx) -> Page[Milestone]:
            workspace = self._base.enter(tx, principal, workspace_id)
            if wanted.decision is not None and store.get_decision(tx, workspace, wanted.decision) is None:
                raise DecisionNotFound(wanted.decision)
            rows = store.list_milestones(tx, workspace, wanted, limit + 1, after)
            return page_of(rows, limit, lambda row: [row.occurred_at, row.id])

        return await self._base.database.read(work)

    def _tie(self, tx: Tx, principal: Principal, milestone: Milestone, decisions: tuple[str, ...]) -> None:
        if len(decisions) > _MAX_DECISIONS:
            problem = f"at most {_MAX_DECISIONS}; this has {len(decisions)}"
            raise Invalid("There are too many decisions.", fields=[FieldError("decisions", problem)])
        wanted = list(dict.fromkeys(decisions))
        known = store.get_decisions(tx, milestone.workspace_id, wanted)
        for id in wanted:
            if id not in known:
                raise DecisionNotFound(id)
            start, end = Ref("milestone", milestone.id), Ref("decision", id)
            relation_store.add(
                tx,
                Relation(
                    new_id("rel"),
                    milestone.workspace_id,
                    start,
                    end,
                    TIE,
                    "",
                    principal.actor,
                    self._base.clock.now(),
                ),
            )


def entry_of(milestone: Milestone) -> Entry:
    """How search sees a milestone."""
    return Entry(
        workspace_id=milestone.workspace_id,
        type="milestone",
        id=milestone.id,
        title=milestone.title,
        text=milestone.description or milestone.title,
        learned_at=milestone.created_at,
        occurred_at=milestone.occurred_at,
        author=milestone.author_name,
        meta={"milestone_type": milestone.type},
    )


def _drafted(principal: Principal, workspace_id: str, new: NewMilestone, now: int) -> Milestone:
    return Milestone(
        id=new_id("mil"),
        workspace_id=workspace_id,
        title=checked_title(new.title),
        type=checked_word(new.type, "type"),
        description=checked_text(new.description, "description", MAX_TEXT),
        occurred_at=now if new.occurred_at is None else new.occurred_at,
        decisions=(),
        author=principal.actor,
        author_name=principal.name,
        created_at=now,
        updated_at=now,
    )


def _changed_fields(change: MilestoneEdit) -> dict[str, object]:
    fields: dict[str, object] = {
        "title": None if change.title is None else checked_title(change.title),
        "type": None if change.type is None else checked_word(change.type, "type"),
        "description": None
        if change.description is None
        else checked_text(change.description, "description", MAX_TEXT),
        "occurred_at": change.occurred_at,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _kept(tx: Tx, workspace_id: str, id: str, *, for_update: bool = False) -> Milestone:
    found = store.get_milestone(tx, workspace_id, id, for_update=for_update)
    if found is None:
        raise MilestoneNotFound(id)
    return found
