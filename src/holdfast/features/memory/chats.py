"""Owns what is a chat's alone: memories saved in it, which nobody else recalls until a person shares them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.memory import store
from holdfast.features.memory.model import CHAT_ENTITY, ForgottenMemory, Memory, NewMemory
from holdfast.features.memory.writing.draft import MemoryDraft, entry_of
from holdfast.features.memory.writing.wording import digest_of
from holdfast.storage.database import Tx


def sees(chat_id: str | None, memory: Memory) -> bool:
    """Whether somebody in this chat (None: in none) recalls the memory."""
    return memory.visibility == "workspace" or (chat_id is not None and memory.chat_id == chat_id)


def find_current(tx: Tx, workspace_id: str, new: NewMemory, checked: MemoryDraft) -> Memory | None:
    """The current memory that says exactly this: the chat's own, or else the workspace's."""
    known = store.find_current(tx, workspace_id, checked.digest)
    if known is None and new.chat_id:
        known = store.find_current(tx, workspace_id, digest_of(checked.content))
    return known


def require_same(new: NewMemory, superseded: Memory) -> None:
    """What everybody recalls is not replaced by what one chat does, nor by what another chat does."""
    if new.chat_id and (superseded.visibility == "workspace" or superseded.chat_id != new.chat_id):
        problem = f"{superseded.slug!r} is not this chat's own: leave out chat_id, or save without supersedes"
        raise Invalid("A chat replaces its own memories only.", fields=[FieldError("supersedes", problem)])


def shared(tx: Tx, memory: Memory, now: int) -> Memory:
    """The memory as the whole workspace's; Conflict when the workspace knows it already."""
    digest = digest_of(memory.content)
    same = store.find_current(tx, memory.workspace_id, digest)
    if same is not None:
        raise Conflict(f"The memory {same.slug!r} says this already in the workspace; retract this one instead.")
    return replace(memory, visibility="workspace", digest=digest, updated_at=now)


async def search(engine: SearchEngine, query: Query, chat_id: str | None) -> list[Hit]:
    """What the workspace's memories answer, and what the chat's own do, best first."""
    hits = list(await engine.search(query))
    if chat_id is None:
        return hits
    return sorted([*hits, *await engine.search(of_chat(query, chat_id))], key=lambda hit: -hit.score)[: query.limit]


def of_chat(query: Query, chat_id: str) -> Query:
    """The query to what is the chat's alone."""
    return replace(query, types=frozenset({CHAT_ENTITY}), meta={**query.meta, "chat_id": chat_id})


def own(tx: Tx, workspace_id: str, chat_id: str) -> Sequence[ForgottenMemory]:
    """Every memory that is the chat's alone, with what it said before."""
    found = store.of_chat(tx, workspace_id, chat_id)
    said = store.revisions(tx, [each.id for each in found])
    return [ForgottenMemory(each, said.get(each.id, [])) for each in found]


def restored(tx: Tx, engine: SearchEngine, forgotten: Sequence[ForgottenMemory]) -> Iterator[Memory]:
    """Keep them again; those that the workspace knows by now are left out."""
    for each in forgotten:
        if store.insert(tx, each.memory):
            store.insert_revisions(tx, each.revisions)
            engine.put(tx, [entry_of(each.memory)])
            yield each.memory
