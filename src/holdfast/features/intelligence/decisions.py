"""Owns the rules of decisions: tracking, editing, superseding and finding them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, page_of
from holdfast.core.principal import Principal
from holdfast.engines.search.model import Entry, Query
from holdfast.features.intelligence import store
from holdfast.features.intelligence.base import IntelligenceBase, checked_text, checked_title, position
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.model import (
    MAX_ALTERNATIVES,
    MAX_TEXT,
    Decision,
    DecisionEdit,
    DecisionFilter,
    DecisionNotFound,
    FoundDecision,
    NewDecision,
    Ref,
    Relation,
)
from holdfast.registry.precedence import worth_showing
from holdfast.storage.database import Tx

_MAX_ALTERNATIVE = 2_000
_OVERFETCH = 5


class Decisions:
    """What the team decided, and what it has yet to decide."""

    def __init__(self, base: IntelligenceBase) -> None:
        self._base = base

    async def track(self, principal: Principal, workspace_id: str, new: NewDecision) -> Decision:
        """Record a decision; one that it supersedes leaves present answers in the same transaction."""
        workspace = await self._base.writer(principal, workspace_id)
        now = self._base.clock.now()
        decision = _drafted(principal, workspace, new, now)
        vectors = await self._base.vectors(entry_of(decision))

        def work(tx: Tx) -> Decision:
            self._base.enter(tx, principal, workspace_id)
            self._put(tx, principal, decision, vectors)
            if new.supersedes is not None:
                self.supersede(tx, principal, workspace, decision.id, new.supersedes)
            return _kept(tx, workspace, decision.id)

        return await self._base.database.write(work)

    def add(self, tx: Tx, principal: Principal, workspace_id: str, new: NewDecision) -> Decision:
        """Record a decision with the change that `tx` makes; its vector follows in the background."""
        principal.require("inference")
        workspace = self._base.enter(tx, principal, workspace_id)
        decision = _drafted(principal, workspace, new, self._base.clock.now())
        self._put(tx, principal, decision, None)
        if new.supersedes is not None:
            self.supersede(tx, principal, workspace, decision.id, new.supersedes)
        return _kept(tx, workspace, decision.id)

    def _put(self, tx: Tx, principal: Principal, decision: Decision, vectors: NDArray[np.float32] | None) -> None:
        store.put_decision(tx, decision)
        self._base.search.put(tx, [entry_of(decision)], vectors)
        detail = {"title": decision.title, "status": decision.status}
        self._base.record(
            tx, principal, "decision.track", workspace_id=decision.workspace_id, id=decision.id, detail=detail
        )

    async def edit(self, principal: Principal, workspace_id: str, id: str, change: DecisionEdit) -> Decision:
        """Change some fields. A superseded decision given another status is in force again."""
        return await self._base.database.write(lambda tx: self.change(tx, principal, workspace_id, id, change))

    def change(self, tx: Tx, principal: Principal, workspace_id: str, id: str, change: DecisionEdit) -> Decision:
        """Like `edit`, within a transaction."""
        principal.require("inference")
        fields = _changed_fields(change)
        workspace = self._base.enter(tx, principal, workspace_id)
        old = _kept(tx, workspace, id, for_update=True)
        now = self._base.clock.now()
        edited = replace(old, **fields, updated_at=now)  # type: ignore[arg-type]
        if edited.status == "superseded" and old.status != "superseded":
            edited = replace(edited, superseded_at=now)
        elif edited.status != "superseded" and old.status == "superseded":
            edited = self._reinstated(tx, edited)
        store.put_decision(tx, edited)
        self._base.search.put(tx, [entry_of(edited)])
        detail = {"fields": sorted(fields), "status": edited.status}
        self._base.record(tx, principal, "decision.edit", workspace_id=workspace, id=id, detail=detail)
        return edited

    def withdraw(self, tx: Tx, principal: Principal, workspace_id: str, id: str) -> None:
        """Take back a decision that nobody made their own, as if it had never been recorded.

        What it superseded is in force again. People do not delete decisions: this is for what a program derived.
        """
        principal.require("inference")
        workspace = self._base.enter(tx, principal, workspace_id)
        gone = _kept(tx, workspace, id, for_update=True)
        for other in (gone.supersedes, gone.superseded_by):
            known = store.get_decision(tx, workspace, other, for_update=True) if other is not None else None
            if known is not None and known.superseded_by == id:
                restored = replace(known, status="accepted", superseded_by=None, superseded_at=None)
                store.put_decision(tx, restored)
                self._base.search.put(tx, [entry_of(restored)])
            elif known is not None:
                store.put_decision(tx, replace(known, supersedes=None))
        relation_store.remove(tx, workspace, [tie.id for tie in relation_store.of(tx, workspace, [id])])
        store.delete_decision(tx, workspace, id)
        self._base.search.remove(tx, workspace, "decision", id)
        self._base.record(tx, principal, "decision.withdraw", workspace_id=workspace, id=id)

    async def get(self, principal: Principal, workspace_id: str, id: str) -> Decision:
        """One decision."""
        principal.require_any("read", "inference")
        return await self._base.database.glance(lambda tx: _kept(tx, self._base.enter(tx, principal, workspace_id), id))

    async def named(self, principal: Principal, workspace_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """The titles of those of these decisions that are there."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Mapping[str, str]:
            found = store.get_decisions(tx, self._base.enter(tx, principal, workspace_id), ids)
            return {id: decision.title for id, decision in found.items()}

        return await self._base.database.read(work) if ids else {}

    async def page(
        self,
        principal: Principal,
        workspace_id: str,
        wanted: DecisionFilter = DecisionFilter(),  # noqa: B008 - frozen
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Decision]:
        """Decisions by time, newest first."""
        principal.require_any("read", "inference")
        after = position(cursor)

        def work(tx: Tx) -> Page[Decision]:
            workspace = self._base.enter(tx, principal, workspace_id)
            rows = store.list_decisions(tx, workspace, wanted, limit + 1, after)
            return page_of(rows, limit, lambda row: [row.decided_at, row.id])

        return await self._base.database.read(work)

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        text: str,
        wanted: DecisionFilter = DecisionFilter(),  # noqa: B008 - frozen
        *,
        limit: int = 10,
    ) -> list[FoundDecision]:
        """Decisions by meaning and words, best first; by time, newest first, when there is nothing to search for."""
        if not text.strip():
            page = await self.page(principal, workspace_id, wanted, limit=limit)
            return [FoundDecision(decision) for decision in page.items]
        workspace = await self._base.reader(principal, workspace_id)
        if wanted.status == "superseded" and wanted.as_of is None:
            return await self._search_superseded(workspace, text, wanted, limit)
        hits = await self._base.search.search(
            Query(workspace, text, frozenset({"decision"}), limit=limit * _OVERFETCH, as_of=wanted.as_of)
        )
        found = await self._base.database.read(lambda tx: store.get_decisions(tx, workspace, [hit.id for hit in hits]))
        answers = {
            hit.id: FoundDecision(found[hit.id], hit.score, hit.snippet)
            for hit in reversed(worth_showing(hits))
            if hit.id in found and _fits(found[hit.id], wanted)
        }
        return sorted(answers.values(), key=lambda answer: -(answer.score or 0.0))[:limit]

    async def _search_superseded(
        self, workspace: str, text: str, wanted: DecisionFilter, limit: int
    ) -> list[FoundDecision]:
        """The index answers for the present only, so the superseded ones are ranked by the words they share."""
        rows = await self._base.database.read(lambda tx: store.list_decisions(tx, workspace, wanted, 500))
        words = set(text.lower().split())
        shares = [(len(words & set(f"{row.title} {row.rationale}".lower().split())) / len(words), row) for row in rows]
        best = sorted((pair for pair in shares if pair[0]), key=lambda pair: -pair[0])
        return [FoundDecision(row, score, row.title) for score, row in best[:limit]]

    def supersede(
        self, tx: Tx, principal: Principal, workspace_id: str, id: str, old_id: str, *, note: str = ""
    ) -> Relation:
        """Put `id` in the place of `old_id`: the old one keeps its record and leaves present answers."""
        if id == old_id:
            problem = "name the earlier decision that this one replaces"
            raise Invalid("A decision cannot supersede itself.", fields=[FieldError("supersedes", problem)])
        # Always in the same order, so that two who supersede each other do not wait for each other.
        both = {each: _kept(tx, workspace_id, each, for_update=True) for each in sorted((id, old_id))}
        old, new = both[old_id], both[id]
        if old.superseded_by is not None:
            raise Conflict(f"Decision {old.id} is superseded by {old.superseded_by} already; supersede that one.")
        if new.supersedes is not None or new.status == "superseded":
            state = "is superseded itself" if new.status == "superseded" else f"supersedes {new.supersedes} already"
            raise Conflict(f"Decision {new.id} {state}; track another decision for this.")
        now = self._base.clock.now()
        ended = replace(
            old, status="superseded", superseded_by=id, superseded_at=old.superseded_at or now, updated_at=now
        )
        store.put_decision(tx, ended)
        store.put_decision(tx, replace(new, supersedes=old_id, updated_at=now))
        self._base.search.expire(tx, workspace_id, "decision", old_id, ended.superseded_at or now)
        relation = Relation(
            new_id("rel"),
            workspace_id,
            Ref("decision", id),
            Ref("decision", old_id),
            "supersedes",
            note,
            principal.actor,
            now,
        )
        relation_store.add(tx, relation)
        self._base.record(tx, principal, "decision.supersede", workspace_id=workspace_id, id=old_id, detail={"by": id})
        return relation

    def _reinstated(self, tx: Tx, decision: Decision) -> Decision:
        """In force again: the successor and the decision no longer name each other."""
        if decision.superseded_by is not None:
            successor = _kept(tx, decision.workspace_id, decision.superseded_by, for_update=True)
            store.put_decision(tx, replace(successor, supersedes=None))
            start, end = Ref("decision", successor.id), Ref("decision", decision.id)
            tie = relation_store.same(tx, decision.workspace_id, start, end, "supersedes")
            relation_store.remove(tx, decision.workspace_id, [tie.id] if tie else [])
        return replace(decision, superseded_by=None, superseded_at=None)


def entry_of(decision: Decision) -> Entry:
    """How search sees a decision."""
    parts = [decision.rationale, *(f"Alternative: {alternative}" for alternative in decision.alternatives)]
    return Entry(
        workspace_id=decision.workspace_id,
        type="decision",
        id=decision.id,
        title=decision.title,
        text="\n".join(part for part in parts if part) or decision.title,
        learned_at=decision.created_at,
        occurred_at=decision.decided_at,
        author=decision.author_name,
        valid_until=decision.superseded_at,
        meta={"status": decision.status, "blocking": decision.blocking},
    )


def _drafted(principal: Principal, workspace_id: str, new: NewDecision, now: int) -> Decision:
    return Decision(
        id=new_id("dec"),
        workspace_id=workspace_id,
        title=checked_title(new.title),
        rationale=checked_text(new.rationale, "rationale", MAX_TEXT),
        alternatives=_checked_alternatives(new.alternatives),
        status=new.status or ("open" if new.blocking else "accepted"),
        blocking=new.blocking,
        decided_at=now if new.decided_at is None else new.decided_at,
        supersedes=None,
        superseded_by=None,
        superseded_at=now if new.status == "superseded" else None,
        author=principal.actor,
        author_name=principal.name,
        created_at=now,
        updated_at=now,
    )


def _changed_fields(change: DecisionEdit) -> dict[str, object]:
    fields: dict[str, object] = {
        "title": None if change.title is None else checked_title(change.title),
        "rationale": None if change.rationale is None else checked_text(change.rationale, "rationale", MAX_TEXT),
        "alternatives": None if change.alternatives is None else _checked_alternatives(change.alternatives),
        "status": change.status,
        "blocking": change.blocking,
        "decided_at": change.decided_at,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _checked_alternatives(alternatives: tuple[str, ...]) -> tuple[str, ...]:
    if len(alternatives) > MAX_ALTERNATIVES:
        problem = f"at most {MAX_ALTERNATIVES}; this has {len(alternatives)}"
        raise Invalid("There are too many alternatives.", fields=[FieldError("alternatives", problem)])
    return tuple(
        checked_text(alternative, f"alternatives[{number}]", _MAX_ALTERNATIVE, required=True)
        for number, alternative in enumerate(alternatives)
    )


def _fits(decision: Decision, wanted: DecisionFilter) -> bool:
    return (
        (wanted.status is None or decision.status == wanted.status)
        and (wanted.blocking is None or decision.blocking == wanted.blocking)
        and (wanted.since is None or decision.decided_at >= wanted.since)
        and (wanted.until is None or decision.decided_at <= wanted.until)
    )


def _kept(tx: Tx, workspace_id: str, id: str, *, for_update: bool = False) -> Decision:
    found = store.get_decision(tx, workspace_id, id, for_update=for_update)
    if found is None:
        raise DecisionNotFound(id)
    return found
