"""Owns contradictions between memories: kept when they are found, until somebody says which one holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound, Unavailable, UpstreamFailed
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.keeper import embedded_text
from holdfast.features.audit.service import Audit
from holdfast.features.memory import store
from holdfast.features.memory.model import Memory
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.comparison import Compared, MemoryComparison
from holdfast.features.memory.writing.draft import entry_of
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Row, Tx

BOTH = "both"
MOST_LOOKED_AT = 500
"""Of the memories of one import: each costs an embedding, and whoever imports waits."""
_AT_ONCE = 32
_ANY = (
    "SELECT c.id, c.memory_id, c.other_id, c.reason, c.found_at, c.settled_at FROM memory_contradiction c "
    "JOIN memory m ON m.id = c.memory_id JOIN memory o ON o.id = c.other_id "
    "WHERE c.workspace_id = :workspace_id AND m.visibility = 'workspace' AND o.visibility = 'workspace'"
)
_OPEN = f"{_ANY} AND c.settled_at IS NULL AND m.status = 'current' AND o.status = 'current'"


@dataclass(frozen=True, slots=True)
class OpenContradiction:
    """Two current memories of which perhaps only one holds; `memory` is the newer."""

    id: str
    memory: Memory
    other: Memory
    reason: str
    found_at: int


class ContradictionNotFound(NotFound):
    """No such contradiction waits in this workspace."""

    def __init__(self, id: str) -> None:
        super().__init__("contradiction", id)


class Contradictions:
    """The contradictions that wait for somebody."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        clock: Clock,
        memories: MemoryService,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._clock = clock
        self._memories = memories
        self._search = search
        self._comparison = MemoryComparison(database, search)

    async def list(
        self, principal: Principal, workspace_id: str, *, limit: int = 20, cursor: str | None = None
    ) -> Page[OpenContradiction]:
        """Those that wait, the newest first; one whose memory no longer holds waits no more."""
        principal.require_any("read", "inference")
        before = str(decode_cursor(cursor, str)[0]) if cursor else None

        def work(tx: Tx) -> Page[OpenContradiction]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            after = " AND c.id < :before" if before else ""
            rows = tx.all(
                f"{_OPEN}{after} ORDER BY c.id DESC LIMIT :limit",
                {"workspace_id": workspace.id, "limit": limit + 1, **({"before": before} if before else {})},
            )
            return page_of(_filled(tx, workspace.id, rows), limit, lambda row: [row.id])

        return await self._database.read(work)

    async def settle(
        self, principal: Principal, workspace_id: str, id: str, keep: str, *, supersede: bool = False
    ) -> OpenContradiction:
        """Keep one memory, by id or slug, or both; nobody is asked about it again.

        The other is retracted: it never held. With `supersede` it held until the kept one took its place.
        """
        principal.require("inference")

        def work(tx: Tx) -> OpenContradiction:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            found = _found(tx, workspace.id, id)
            goes = _going(found, keep)
            kept = found.other if goes is found.memory else found.memory
            if goes is None and supersede:
                problem = "choose the memory that took the other's place; both cannot"
                raise Invalid("Only one memory can supersede the other.", fields=[FieldError("keep", problem)])
            if goes is not None and supersede:
                self._memories.supersede_in(tx, principal, workspace.id, goes.id, kept.id)
            elif goes is not None:
                self._memories.retract_in(tx, principal, workspace.id, goes.id, f"It contradicted {kept.slug}.")
            changed = tx.execute(
                "UPDATE memory_contradiction SET settled_at = :now, settled_by = :actor "
                "WHERE workspace_id = :workspace_id AND id = :id AND settled_at IS NULL",
                {"workspace_id": workspace.id, "id": id, "now": self._clock.now(), "actor": principal.actor},
            )
            if not changed:
                raise _settled()
            self._audit.record(
                tx,
                principal,
                "memory.settle",
                resource="contradiction",
                resource_id=id,
                workspace_id=workspace.id,
                detail={"keep": BOTH if goes is None else kept.slug, "supersede": supersede},
            )
            return found

        return await self._database.write(work)

    async def look_for(self, principal: Principal, workspace_id: str, ids: Sequence[str]) -> int:
        """Hold memories that were not saved one by one against all others; how many contradictions that found."""
        principal.require("inference")

        def come(tx: Tx) -> list[Memory]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            found = store.by_ids(tx, workspace.id, list(ids[:MOST_LOOKED_AT])).values()
            return [each for each in found if each.status == "current" and each.visibility == "workspace"]

        arrived, number = await self._database.read(come), 0
        for begin in range(0, len(arrived), _AT_ONCE):
            some = arrived[begin : begin + _AT_ONCE]
            vectors = await self._vectors(some)
            for place, memory in enumerate(some):
                vector = None if vectors is None else vectors[place]
                found = await self._comparison.of(memory.workspace_id, memory.content, vector, None, but=memory.id)
                if found.contradicts:
                    number += await self._database.write(partial(self._note, memory, found))
        return number

    async def _vectors(self, memories: Sequence[Memory]) -> NDArray[np.float32] | None:
        """Their vectors, which the index has from now on; None without the model: then words are compared."""
        if self._search.is_loading:
            return None
        try:
            texts = [embedded_text(each.title, each.content) for each in memories]
            vectors = np.asarray(await self._search.embed(texts), np.float32)
        except (UpstreamFailed, Unavailable):
            return None

        def work(tx: Tx) -> None:
            for place, memory in enumerate(memories):
                if store.lock(tx, memory.workspace_id, memory.id) == memory:
                    self._search.put(tx, [entry_of(memory)], vectors[place : place + 1])

        await self._database.write(work)
        return vectors

    def _note(self, memory: Memory, compared: Compared, tx: Tx) -> int:
        """Under the newer of the two, as a save does."""
        if store.lock(tx, memory.workspace_id, memory.id) != memory:
            return 0
        number = 0
        for each in compared.contradicts:
            older, newer = sorted((memory, each.memory), key=lambda one: (one.learned_at, one.id))
            number += store.note_contradictions(tx, newer, [replace(each, memory=older)], self._clock.now())
        return number


def _settled() -> Conflict:
    return Conflict("This contradiction is settled already; correct the memory itself.", code="settled")


def _going(found: OpenContradiction, keep: str) -> Memory | None:
    """The memory that is to go when `keep` (an id, a slug or `both`) is chosen."""
    if keep == BOTH:
        return None
    for kept, goes in ((found.memory, found.other), (found.other, found.memory)):
        if keep in (kept.id, kept.slug):
            return goes
    problem = f"choose {found.memory.slug}, {found.other.slug} or {BOTH}"
    raise Invalid("It is not clear which memory holds.", fields=[FieldError("keep", problem)])


def _found(tx: Tx, workspace_id: str, id: str) -> OpenContradiction:
    rows = tx.all(f"{_ANY} AND c.id = :id", {"workspace_id": workspace_id, "id": id}) if id.isprintable() else []
    if not rows:
        raise ContradictionNotFound(id)
    found = _filled(tx, workspace_id, rows)[0]
    if rows[0]["settled_at"] is not None or {found.memory.status, found.other.status} != {"current"}:
        raise _settled()
    return found


def _filled(tx: Tx, workspace_id: str, rows: Sequence[Row]) -> list[OpenContradiction]:
    memories = store.by_ids(tx, workspace_id, list({id for row in rows for id in (row["memory_id"], row["other_id"])}))
    return [
        OpenContradiction(
            row["id"], memories[row["memory_id"]], memories[row["other_id"]], row["reason"], row["found_at"]
        )
        for row in rows
    ]
