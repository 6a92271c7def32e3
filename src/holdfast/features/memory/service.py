"""Owns the rules of memories: what is kept, what repeats, what contradicts, who may change it, how it is found."""

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, Unavailable, UpstreamFailed
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.keeper import vector_text
from holdfast.engines.search.model import Hit, Query
from holdfast.features.audit.service import Audit
from holdfast.features.memory import chats, store
from holdfast.features.memory.finding import MAX_QUERY, MemoryFinding
from holdfast.features.memory.model import (
    ENTITY,
    MAX_NOTE,
    Filters,
    ForgottenMemory,
    Memory,
    MemoryChange,
    MemoryNotFound,
    MemoryRejected,
    NewMemory,
    Recalled,
    Revision,
    Saved,
    require_current,
)
from holdfast.features.memory.writing import threads
from holdfast.features.memory.writing.comparison import Compared, MemoryComparison
from holdfast.features.memory.writing.draft import (
    MemoryDraft,
    Refusal,
    changed,
    draft,
    entry_of,
    memory_of,
    revision_of,
    slugs_for,
)
from holdfast.features.memory.writing.early import EarlySaves
from holdfast.features.memory.writing.overview import worded
from holdfast.features.memory.writing.wording import clean, secret_refusal
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.storage.database import Database, Tx

CURRENT = Filters()
KNOWN = "A memory says this already."

Vector = NDArray[np.float32]


class MemoryService:
    """What a workspace remembers."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        entities: Entities,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._clock = clock
        self._entities = entities
        self._finding = MemoryFinding(database, workspaces, search, entities)
        self._comparison = MemoryComparison(database, search)
        self._early = EarlySaves(database, search, self._comparison)

    async def save(self, principal: Principal, workspace_id: str, new: NewMemory) -> Saved:
        """Remember something: stored, or the existing memory that it repeats, or refused with the reason."""
        principal.require("inference")
        checked = draft(new)
        if isinstance(checked, Refusal):
            return await self._refuse(principal, workspace_id, checked)
        known = await self._database.glance(lambda tx: self._said(tx, principal, workspace_id, new, checked))
        if known is not None and new.supersedes is None:
            return Saved("duplicate", known, reason=KNOWN)
        where = (await self._workspaces.get(principal, workspace_id)).id
        goes_ahead = self._early.go_ahead
        text = vector_text(checked.title, checked.content, threads.is_spoken(new, checked.content))
        vector = await self._vector(text)
        compared = await self._comparison.of(where, checked.content, vector, new.chat_id)

        def work(tx: Tx) -> Saved:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            superseded = None
            if new.supersedes:
                superseded = self._found(tx, principal, workspace_id, new.supersedes, store.lock)
                require_current(superseded)
                chats.require_same(new, superseded)
            known = chats.find_current(tx, workspace.id, new, checked)
            if known is None and superseded is None and compared.repeated is not None:
                known = store.find(tx, workspace.id, compared.repeated.id)
                known = known if known is not None and known.status == "current" else None
            if known is None:
                made = self._insert(tx, principal, workspace.id, new, checked, superseded, vector)
                if made is not None:
                    others = [each for each in compared.contradicts if each.memory != superseded]
                    store.note_contradictions(tx, made, others, made.learned_at)
                    return Saved("saved", made, contradicts=others)
                known = store.find_current(tx, workspace.id, checked.digest)
            assert known is not None
            if superseded is not None and superseded.id != known.id:
                self.supersede_in(tx, principal, superseded, known, known.true_from)
            return Saved("duplicate", known, reason=KNOWN)

        saved = await self._database.write(work)
        if goes_ahead:
            told = frozenset(each.memory.id for each in saved.contradicts)
            self._early.follow(saved, partial(self._review, principal, told, new.supersedes is None))
        return saved

    async def supersede(self, principal: Principal, workspace_id: str, key: str, new: NewMemory) -> Saved:
        """Save a memory that takes the place of another; the other stays findable as of its time."""
        return await self.save(principal, workspace_id, replace(new, supersedes=key))

    async def get(self, principal: Principal, workspace_id: str, key: str) -> Memory:
        """One memory by id or slug, whatever its status."""
        principal.require_any("read", "inference")
        return await self._database.glance(lambda tx: self._found(tx, principal, workspace_id, key, store.find))

    async def history(self, principal: Principal, workspace_id: str, key: str) -> builtins.list[Revision]:
        """What a memory said before each edit, oldest first."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> builtins.list[Revision]:
            found = self._found(tx, principal, workspace_id, key, store.find)
            return store.revisions(tx, [found.id]).get(found.id, [])

        return await self._database.read(work)

    async def list(
        self,
        principal: Principal,
        workspace_id: str,
        filters: Filters = CURRENT,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Memory]:
        """Memories, the last learned first; as of a moment, each in the words it had then."""
        principal.require_any("read", "inference")
        position = decode_cursor(cursor, int, str) if cursor else None
        before = (int(position[0]), str(position[1])) if position else None

        def work(tx: Tx) -> Page[Memory]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            self._workspaces.check_chat(tx, workspace.id, filters.chat_id)
            rows = store.page(tx, workspace.id, filters, before, limit + 1)
            page = page_of(rows, limit, lambda row: [row.learned_at, row.id])
            return replace(page, items=worded(tx, page.items, filters.as_of))

        return await self._database.read(work)

    async def slugs(self, principal: Principal, workspace_id: str, prefix: str, limit: int = 100) -> builtins.list[str]:
        """Slugs of current memories that begin with a prefix, for completion."""
        principal.require_any("read", "inference")
        return await self._database.read(
            lambda tx: store.slugs_starting(tx, self._workspaces.check(tx, principal, workspace_id).id, prefix, limit)
        )

    async def edit(
        self,
        principal: Principal,
        workspace_id: str,
        key: str,
        change: MemoryChange,
        *,
        expected_revision: int | None = None,
    ) -> Memory:
        """Change what a current memory says; its slug stays and its former words are kept."""
        principal.require("inference")
        before = await self.get(principal, workspace_id, key)
        expected = changed(before, change, 0)
        vector, compared = None, Compared()
        if not isinstance(expected, Refusal):
            vector = await self._vector(expected.vector_text)
            chat_id = before.chat_id if before.visibility == "chat" else None
            compared = await self._comparison.of(before.workspace_id, expected.content, vector, chat_id, but=before.id)

        def work(tx: Tx) -> Memory:
            found = self._found(tx, principal, workspace_id, key, store.lock)
            require_current(found)
            if expected_revision is not None and expected_revision != found.revision:
                raise Conflict(f"The memory is at revision {found.revision}, not {expected_revision}; read it again.")
            edited = changed(found, change, self._clock.now())
            if isinstance(edited, Refusal):
                raise MemoryRejected(edited.reason)
            if edited == found:
                return found
            same = store.find_current(tx, found.workspace_id, edited.digest)
            if same is not None and same.id != found.id:
                raise Conflict(f"The memory {same.slug!r} says this already; retract one of the two.")
            store.insert_revisions(tx, [revision_of(found, principal.actor)])
            store.replace(tx, edited)
            # Somebody else may have edited it meanwhile; then its vector follows from the background.
            same_text = not isinstance(expected, Refusal) and expected.says == edited.says
            self._search.put(tx, [entry_of(edited)], vector[None, :] if same_text and vector is not None else None)
            if same_text and edited.content != found.content:
                store.drop_contradictions(tx, edited)
                store.note_contradictions(tx, edited, compared.contradicts, edited.updated_at)
            self._record(tx, principal, "memory.edit", edited, revision=edited.revision)
            return edited

        return await self._database.write(work)

    async def share(self, principal: Principal, workspace_id: str, key: str) -> Memory:
        """Let the whole workspace recall what only one chat did; twice is once."""
        principal.require("inference")
        if not principal.is_person:
            raise Forbidden("Sharing a chat's memory with the workspace needs a signed-in person; keys cannot do it.")

        def work(tx: Tx) -> Memory:
            found = self._found(tx, principal, workspace_id, key, store.lock)
            if found.visibility == "workspace":
                return found
            require_current(found)
            shared = chats.shared(tx, found, self._clock.now())
            store.replace(tx, shared)
            self._search.remove(tx, found.workspace_id, found.entry_type, found.id)
            self._search.put(tx, [entry_of(shared)])
            self._record(tx, principal, "memory.share", shared)
            return shared

        return await self._database.write(work)

    async def retract(self, principal: Principal, workspace_id: str, key: str, note: str = "") -> Memory:
        """Say that a memory no longer holds: out of present answers, findable as of before; twice is once."""
        principal.require("inference")
        if len(note) > MAX_NOTE:
            raise Invalid("The note is too long.", fields=[FieldError("note", f"write at most {MAX_NOTE} characters")])
        reason = clean(note)
        refusal = secret_refusal(reason)
        if refusal is not None:
            raise MemoryRejected(refusal)

        return await self._database.write(lambda tx: self.retract_in(tx, principal, workspace_id, key, reason))

    def retract_in(self, tx: Tx, principal: Principal, workspace_id: str, key: str, reason: str) -> Memory:
        """The same in a transaction that does more."""
        found = self._found(tx, principal, workspace_id, key, store.lock)
        if found.status == "retracted":
            return found
        now = self._clock.now()
        until = now if found.valid_until is None else min(now, found.valid_until)
        retracted = replace(found, status="retracted", status_note=reason, valid_until=until)
        store.replace(tx, retracted)
        self._search.expire(tx, found.workspace_id, found.entry_type, found.id, until)
        self._record(tx, principal, "memory.retract", retracted)
        return retracted

    async def forget(self, principal: Principal, workspace_id: str, key: str) -> None:
        """Remove a memory with its history and its place in the index, for good."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            self._forget(tx, principal, self._found(tx, principal, workspace_id, key, store.lock))

        await self._database.write(work)

    def forget_chat(self, tx: Tx, principal: Principal, workspace_id: str, chat_id: str) -> Sequence[ForgottenMemory]:
        """Remove what is a chat's alone, in the transaction that removes the chat. What it was."""
        found = chats.own(tx, workspace_id, chat_id)
        for each in found:
            self._forget(tx, principal, each.memory)
        return found

    def restore_chat(self, tx: Tx, principal: Principal, forgotten: Sequence[ForgottenMemory]) -> None:
        """Put back what was forgotten with a chat, in the transaction that puts the chat back."""
        for memory in chats.restored(tx, self._search, forgotten):
            self._record(tx, principal, "memory.restore", memory)

    def _forget(self, tx: Tx, principal: Principal, memory: Memory) -> None:
        self._entities.forget(tx, memory.workspace_id, ENTITY, memory.id)
        store.delete(tx, memory.workspace_id, memory.id)
        self._search.remove(tx, memory.workspace_id, memory.entry_type, memory.id)
        self._record(tx, principal, "memory.forget", memory)

    async def recall(
        self,
        principal: Principal,
        workspace_id: str,
        query: str | None,
        *,
        limit: int = 10,
        category: str | None = None,
        as_of: int | None = None,
        minimum_relevance: float = 0.0,
        chat_id: str | None = None,
        snippets: bool = False,
    ) -> builtins.list[Recalled]:
        """Memories about the query, best first; the last learned first without a query. Chats see their own too.

        Finding the passages that matched takes time, so it is done only for callers that show them.
        """
        principal.require_any("read", "inference")
        text = clean(query or "")[:MAX_QUERY]
        if not text:
            filters = Filters(category=category, as_of=as_of, seen_from=chat_id)
            page = await self.list(principal, workspace_id, filters, limit=limit)
            return [Recalled(memory, 1.0) for memory in page.items]
        meta = {"category": category} if category else {}
        workspace = await self._workspaces.get(principal, workspace_id)
        types = frozenset({ENTITY})
        wanted = Query(workspace.id, text, types, limit=limit, as_of=as_of, meta=meta, snippets=snippets)
        found = await self._finding.recall(wanted, chat_id)
        return [each for each in found if each.relevance >= minimum_relevance]

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        query: str,
        *,
        types: Iterable[str] | None = None,
        limit: int = 10,
        as_of: int | None = None,
        explain: bool = False,
    ) -> builtins.list[Hit]:
        """The best passages of everything the workspace knows, at most one of each entity, best first."""
        return await self._finding.search(
            principal, workspace_id, query, types=types, limit=limit, as_of=as_of, explain=explain
        )

    async def _refuse(self, principal: Principal, workspace_id: str, refusal: Refusal) -> Saved:
        def work(tx: Tx) -> Saved:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            self._audit.record(
                tx,
                principal,
                "memory.save",
                resource=ENTITY,
                resource_id="",
                workspace_id=workspace.id,
                outcome="denied",
                detail={"reason": refusal.reason},
            )
            return Saved("rejected", None, refusal.reason)

        return await self._database.write(work)

    async def _vector(self, text: str) -> Vector | None:
        """The text's vector; None while the embedder is loading or away, when the index makes it later."""
        if self._early.go_ahead:
            return None
        try:
            vectors = await self._search.embed([text])
            await self._early.settled()
        except (UpstreamFailed, Unavailable):
            return None
        return np.asarray(vectors[0], dtype=np.float32)

    def _said(
        self, tx: Tx, principal: Principal, workspace_id: str, new: NewMemory, checked: MemoryDraft
    ) -> Memory | None:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        self._workspaces.check_chat(tx, workspace.id, new.chat_id or None)
        return chats.find_current(tx, workspace.id, new, checked)

    def _found(
        self, tx: Tx, principal: Principal, workspace_id: str, key: str, look: Callable[[Tx, str, str], Memory | None]
    ) -> Memory:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = look(tx, workspace.id, key) if key.isprintable() else None
        if found is None:
            raise MemoryNotFound(key)
        return found

    def _insert(
        self,
        tx: Tx,
        principal: Principal,
        workspace_id: str,
        new: NewMemory,
        checked: MemoryDraft,
        superseded: Memory | None,
        vector: Vector | None,
    ) -> Memory | None:
        """Store and index; None when a current memory says the same."""
        made = memory_of(principal, workspace_id, new, checked, self._clock.now())
        if superseded is not None and superseded.digest == checked.digest:
            return None
        made = threads.placed(tx, made, new)
        for slug in slugs_for(checked.title, checked.digest):
            made = replace(made, slug=slug)
            if store.insert(tx, made):
                break
            if store.find_current(tx, workspace_id, checked.digest) is not None:
                return None
        self._search.put(tx, [entry_of(made)], None if vector is None else vector[None, :])
        self._record(tx, principal, "memory.save", made, category=made.category, trust=made.trust)
        if superseded is not None:
            self.supersede_in(tx, principal, superseded, made, made.true_from)
        return made

    def supersede_in(self, tx: Tx, principal: Principal, old: Memory, by: Memory, at: int) -> None:
        """End the old memory where the new one begins, never before it began itself."""
        until = max(at, old.true_from)
        ended = replace(old, status="superseded", superseded_by=by.id, valid_until=until)
        store.replace(tx, ended)
        self._search.expire(tx, old.workspace_id, old.entry_type, old.id, until)
        self._record(tx, principal, "memory.supersede", ended, by=by.id)

    def _review(
        self, principal: Principal, told: frozenset[str], may_repeat: bool, tx: Tx, memory: Memory, found: Compared
    ) -> None:
        """Write down what the model found of a memory after its save was answered."""
        if found.repeated is not None and may_repeat:
            known = store.lock(tx, memory.workspace_id, found.repeated.id)
            if known is not None and known.status == "current":
                note = f"{known.slug} says this already."
                self.supersede_in(tx, principal, replace(memory, status_note=note), known, memory.true_from)
            return
        changes = [each for each in found.contradicts if each.memory.id not in told]
        if changes:
            slugs = ", ".join(each.memory.slug for each in changes)
            noted = replace(memory, status_note=f"It seems to change {slugs}: {changes[0].reason}."[:MAX_NOTE])
            store.replace(tx, noted)
            store.note_contradictions(tx, noted, changes, self._clock.now())
            self._record(tx, principal, "memory.contradict", noted, contradicts=[each.memory.id for each in changes])

    def _record(self, tx: Tx, principal: Principal, action: str, memory: Memory, **detail: object) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource=ENTITY,
            resource_id=memory.id,
            workspace_id=memory.workspace_id,
            detail={"slug": memory.slug, **detail},
        )
        payload = {"id": memory.id, "slug": memory.slug, "action": action.removeprefix("memory.")}
        self._events.publish(tx, "memory.changed", payload, workspace_id=memory.workspace_id)
