"""Owns the rules of relations: both ends exist, nothing is said twice, and they go when an end goes."""

from collections.abc import Sequence

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, page_of
from holdfast.core.principal import Principal
from holdfast.features.intelligence.base import IntelligenceBase, checked_text, position
from holdfast.features.intelligence.decisions import Decisions
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.vocabulary import checked_relation, checked_word, inverse
from holdfast.features.intelligence.model import (
    MAX_NOTE,
    DuplicateRelation,
    NewRelation,
    Ref,
    Relation,
    RelationNotFound,
)
from holdfast.registry.entities import Entities
from holdfast.storage.database import Tx


class Relations:
    """Typed ties between any two entities of a workspace."""

    def __init__(self, base: IntelligenceBase, decisions: Decisions, entities: Entities) -> None:
        self._base = base
        self._decisions = decisions
        self._entities = entities

    async def relate(self, principal: Principal, workspace_id: str, new: NewRelation) -> Relation:
        """Tie two entities. Between decisions, `supersedes` supersedes."""
        return await self._base.database.write(lambda tx: self.add(tx, principal, workspace_id, new))

    def add(self, tx: Tx, principal: Principal, workspace_id: str, new: NewRelation) -> Relation:
        """Like `relate`, within a transaction."""
        principal.require("inference")
        name = checked_relation(new.relation)
        note = checked_text(new.note, "note", MAX_NOTE)
        workspace = self._base.enter(tx, principal, workspace_id)
        start, end = self.meant(tx, workspace, new.start, "from"), self.meant(tx, workspace, new.end, "to")
        if start == end:
            problem = "name another entity than `from`"
            raise Invalid("An entity cannot relate to itself.", fields=[FieldError("to", problem)])
        known = relation_store.same(tx, workspace, start, end, name)
        if known is not None:
            raise DuplicateRelation(known)
        return self._tied(tx, principal, workspace, NewRelation(start, end, name, note))

    async def unrelate(self, principal: Principal, workspace_id: str, id: str) -> None:
        """Take a tie away; both ends stay."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            workspace = self._base.enter(tx, principal, workspace_id)
            found = relation_store.get(tx, workspace, id)
            if found is None:
                raise RelationNotFound(id)
            new, old = _superseding(found.start, found.end, found.relation)
            if new is not None and old is not None:
                raise Conflict(
                    f"This relation records that {new} superseded {old}; give {old} another status to undo that."
                )
            relation_store.remove(tx, workspace, [id])
            self._base.record(
                tx, principal, "relation.delete", workspace_id=workspace, id=id, detail={"relation": found.relation}
            )

        await self._base.database.write(work)

    async def page(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        entity: str | None = None,
        relation: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Relation]:
        """Relations, newest first; with `entity`, those that have it at either end."""
        principal.require_any("read", "inference")
        name = None if relation is None else checked_relation(relation)
        after = position(cursor)

        def work(tx: Tx) -> Page[Relation]:
            workspace = self._base.enter(tx, principal, workspace_id)
            if entity is None:
                rows = relation_store.newest(tx, workspace, limit + 1, relation=name, after=after)
            else:
                found, _ = self.find(tx, workspace, entity)
                ties = reversed(relation_store.of(tx, workspace, [found.id]))
                rows = [
                    tie
                    for tie in ties
                    if name in (None, tie.relation) and (after is None or (tie.created_at, tie.id) < after)
                ]
            return page_of(rows[: limit + 1], limit, lambda row: [row.created_at, row.id])

        return await self._base.database.read(work)

    def forget(self, tx: Tx, workspace_id: str, type: str, id: str) -> int:
        """An entity is gone: so are its relations. How many there were."""
        ties = relation_store.of(tx, workspace_id, [id])
        gone = [tie.id for tie in ties if Ref(type, id) in (tie.start, tie.end)]
        return relation_store.remove(tx, workspace_id, gone)

    def meant(self, tx: Tx, workspace_id: str, ref: Ref, field: str) -> Ref:
        """The entity that somebody named by its id or slug; NotFound where it is not here."""
        title_of = self._entities.titles.get(checked_word(ref.type, f"{field}.type"))
        if title_of is None:
            problem = f"there are {', '.join(sorted(self._entities.titles))}"
            raise Invalid(f"Nothing here is a {ref.type}.", fields=[FieldError(f"{field}.type", problem)])
        if title_of(tx, workspace_id, ref.id) is not None:
            return ref
        id_of = self._entities.slugs.get(ref.type)
        id = None if id_of is None else id_of(tx, workspace_id, ref.id)
        if id is None:
            raise NotFound(ref.type, ref.id)
        return Ref(ref.type, id)

    def find(self, tx: Tx, workspace_id: str, name: str) -> tuple[Ref, str]:
        """The entity with this id or slug, of whichever type, and its title."""
        titles = self._entities.titles
        for type, title_of in titles.items():
            title = title_of(tx, workspace_id, name)
            if title is not None:
                return Ref(type, name), title
        found = [Ref(type, id) for type, id_of in self._entities.slugs.items() if (id := id_of(tx, workspace_id, name))]
        if not found:
            raise NotFound("entity", name)
        if len(found) > 1:
            problem = f"{name[:80]!r} is what {' and '.join(f'{ref.type} {ref.id}' for ref in found)} are called"
            raise Invalid(f"The entity is not clear: {problem}; give its id.", fields=[FieldError("centre", problem)])
        return found[0], titles[found[0].type](tx, workspace_id, found[0].id) or ""

    def titles(self, tx: Tx, workspace_id: str, refs: Sequence[Ref]) -> dict[Ref, str]:
        """The titles of those entities that are here."""
        found = {
            ref: title_of(tx, workspace_id, ref.id) for ref in refs if (title_of := self._entities.titles.get(ref.type))
        }
        return {ref: title for ref, title in found.items() if title is not None}

    def _tied(self, tx: Tx, principal: Principal, workspace_id: str, new: NewRelation) -> Relation:
        successor, old = _superseding(new.start, new.end, new.relation)
        if successor is not None and old is not None:
            return self._decisions.supersede(tx, principal, workspace_id, successor, old, note=new.note)
        now = self._base.clock.now()
        tie = Relation(new_id("rel"), workspace_id, new.start, new.end, new.relation, new.note, principal.actor, now)
        if not relation_store.add(tx, tie):
            # Somebody else said it between our look and now.
            raise DuplicateRelation(relation_store.same(tx, workspace_id, new.start, new.end, new.relation) or tie)
        detail = {"from": new.start.id, "relation": new.relation, "to": new.end.id}
        self._base.record(tx, principal, "relation.create", workspace_id=workspace_id, id=tie.id, detail=detail)
        return tie


def _superseding(start: Ref, end: Ref, name: str) -> tuple[str | None, str | None]:
    """(successor, superseded) when the relation says so of two decisions."""
    if start.type != "decision" or end.type != "decision":
        return None, None
    if name == "supersedes":
        return start.id, end.id
    return (end.id, start.id) if name == inverse("supersedes") else (None, None)
