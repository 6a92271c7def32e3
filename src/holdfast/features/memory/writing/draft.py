"""Owns the way from what somebody wants remembered to a memory: checked fields, whose word it is, a free slug."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.core.text.slugs import slug_of
from holdfast.engines.search.model import Entry
from holdfast.engines.search.text.speech import speech
from holdfast.features.memory.model import Memory, MemoryChange, NewMemory, Revision, Trust
from holdfast.features.memory.writing import wording

_RANK: dict[Trust, int] = {"web": 0, "agent": 1, "person": 2}


@dataclass(frozen=True, slots=True)
class MemoryDraft:
    """The checked fields of a memory that may be stored."""

    title: str
    content: str
    digest: str
    category: str
    tags: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a text is not stored, in words that repeat none of it."""

    reason: str
    category: str


def draft(new: NewMemory) -> MemoryDraft | Refusal:
    """The checked fields, or why the text is refused; Invalid for a field that breaks a limit."""
    content = wording.clean(new.content)
    title = new.title or ""
    # Credentials first: no later message may depend on, or repeat, what one says.
    refusal = wording.secret_refusal(content, title, *new.tags, new.source, new.category or "")
    if refusal is not None:
        return Refusal(refusal, "")
    category = wording.checked_category(new.category) if new.category else wording.category_of(content)
    wording.check_length(content)
    refusal = wording.junk_refusal(content)
    if refusal is not None:
        return Refusal(refusal, category)
    return MemoryDraft(
        title=wording.checked_title(title) or wording.title_of(content),
        content=content,
        digest=wording.digest_of(content, new.chat_id or ""),
        category=category,
        tags=wording.checked_tags(new.tags),
        source=wording.checked_source(new.source),
    )


def trust_of(principal: Principal, claimed: Trust | None, source: str) -> Trust:
    """Whose word it is: the caller's, or the web's where it was read there; a caller can only claim less."""
    own: Trust = "person" if principal.is_person else "agent"
    if claimed is not None:
        return min(claimed, own, key=_RANK.__getitem__)
    return "web" if not principal.is_person and source.startswith(("http://", "https://")) else own


def memory_of(principal: Principal, workspace_id: str, new: NewMemory, checked: MemoryDraft, now: int) -> Memory:
    """A current memory in the caller's words, without a slug yet."""
    return Memory(
        id=new_id("mem"),
        workspace_id=workspace_id,
        slug="",
        title=checked.title,
        content=checked.content,
        digest=checked.digest,
        category=checked.category,
        tags=checked.tags,
        status="current",
        occurred_at=new.occurred_at,
        learned_at=now,
        valid_until=None,
        superseded_by=None,
        status_note="",
        author=principal.actor,
        author_name=principal.name,
        trust=trust_of(principal, new.trust, checked.source),
        session_id=wording.clean(new.session_id or "") or None,
        chat_id=wording.clean(new.chat_id or "") or None,
        source=checked.source,
        position=0,
        revision=1,
        updated_at=now,
        visibility="chat" if new.chat_id else "workspace",
    )


def slugs_for(title: str, digest: str) -> Iterator[str]:
    """Slugs to try, most readable first; the last ones are taken only by the same text under the same title."""
    base = slug_of(title, fallback=f"memory-{digest[:8]}")
    yield base
    for number in range(2, 6):
        yield f"{base}-{number}"
    for length in range(6, len(digest), 2):
        yield f"{base[:60]}-{digest[:length]}"


def changed(memory: Memory, change: MemoryChange, now: int) -> Memory | Refusal:
    """The memory with the change applied under the same rules as a new one; itself when nothing differs."""
    content = memory.content if change.content is None else change.content
    title = change.title
    if title is None:
        # A title that was made from the text follows the text.
        title = None if memory.title == wording.title_of(memory.content) else memory.title
    tags = memory.tags if change.tags is None else change.tags
    chat_id = memory.chat_id if memory.visibility == "chat" else None
    new = NewMemory(content, change.category or memory.category, title, tags, source=memory.source, chat_id=chat_id)
    checked = draft(new)
    if isinstance(checked, Refusal):
        return checked
    edited = replace(
        memory,
        title=checked.title,
        content=checked.content,
        digest=checked.digest,
        category=checked.category,
        tags=checked.tags,
        occurred_at=memory.occurred_at if change.occurred_at is None else change.occurred_at,
    )
    return memory if edited == memory else replace(edited, revision=memory.revision + 1, updated_at=now)


def revision_of(memory: Memory, editor: str) -> Revision:
    """What a memory says now, to be kept when it is edited; `editor` ends it."""
    return Revision(
        memory_id=memory.id,
        revision=memory.revision,
        title=memory.title,
        content=memory.content,
        category=memory.category,
        tags=memory.tags,
        occurred_at=memory.occurred_at,
        written_at=memory.updated_at,
        editor=editor,
    )


def as_written(memory: Memory, revisions: list[Revision], at: int) -> Memory:
    """The memory with the words it had at a moment; with today's for a moment before we learned of it."""
    for earlier, later in zip(
        revisions, [*(each.written_at for each in revisions[1:]), memory.updated_at], strict=True
    ):
        if earlier.written_at <= at < later:
            return replace(
                memory, title=earlier.title, content=earlier.content, category=earlier.category, tags=earlier.tags
            )
    return memory


def entry_of(memory: Memory) -> Entry:
    """What search is told of a memory."""
    spoken = speech(memory.content)
    return Entry(
        workspace_id=memory.workspace_id,
        type=memory.entry_type,
        id=memory.id,
        title=memory.title,
        text=memory.content,
        # `as_of` asks what held then: what happened before we learned of it held already.
        learned_at=memory.held_from,
        occurred_at=memory.occurred_at,
        author=(spoken.speaker if memory.thread and spoken else "") or memory.author_name,
        source=memory.thread or memory.session_id or "",
        position=memory.position,
        valid_until=memory.valid_until,
        spoken=bool(memory.thread),
        meta={
            "slug": memory.slug,
            "learned_at": memory.learned_at,
            "category": memory.category,
            "tags": list(memory.tags),
            "trust": memory.trust,
            "source": memory.source,
            "author": memory.author,
            **({"chat_id": memory.chat_id} if memory.chat_id else {}),
        },
    )
