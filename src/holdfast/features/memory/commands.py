"""Owns `holdfast memory` (save, recall, get, edit, retract, supersede, share, forget, list) and `holdfast search`."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Moment, Option, Session, command
from holdfast.features.memory.answers import MemoryAnswer, RecalledAnswer, RevisionAnswer
from holdfast.features.memory.model import Filters, MemoryChange, MemoryRejected, NewMemory, Saved
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.wording import checked_category

memory = Commands("memory", help="What people and agents remember: facts, preferences, instructions, decisions.")

_Memory = Annotated[str, Argument("ID_OR_SLUG")]
_Content = Annotated[str, Argument(reads="dash")]
_Category = Annotated[str | None, Field(description="preference, fact, instruction, decision or a word of your own.")]
_AsOf = Annotated[Moment, Field(description="What held at this moment.")]
_Limit = Annotated[int, Field(ge=1, le=50)]


class One(InWorkspace):
    """A memory that is named."""

    memory: _Memory


class _Described(InWorkspace):
    category: _Category = None
    title: str | None = Field(None, description="A short heading (default: made from the content).")
    tags: Annotated[list[str], Option("--tag")] = Field([], description="A word to group by; may be repeated.")
    occurred_at: Moment = Field(None, description="When it became true, like 2026-11-16.")


class _New(_Described):
    source: str = Field("", description="Where it comes from: a URL, a file, a person.")

    def new(self, content: str, supersedes: str | None = None) -> NewMemory:
        tags = tuple(self.tags)
        return NewMemory(content, self.category, self.title, tags, self.occurred_at, self.source, supersedes)


class Save(_New):
    """What `save` is given."""

    content: _Content
    supersedes: Annotated[str | None, Option(metavar="ID_OR_SLUG")] = Field(
        None, description="The memory that this one replaces."
    )


@memory.command("save", help="Remember something (- reads it from standard input).", begins_store=True)
async def save(session: Session, memories: MemoryService, given: Save) -> None:
    id = await session.workspace(given.workspace)
    _show_saved(session, await memories.save(session.principal, id, given.new(given.content, given.supersedes)))


class Supersede(_New):
    """What `supersede` is given."""

    memory: _Memory
    content: _Content


@memory.command("supersede", help="Save a memory in the place of another, which stays findable as of its time.")
async def supersede(session: Session, memories: MemoryService, given: Supersede) -> None:
    id = await session.workspace(given.workspace)
    _show_saved(session, await memories.supersede(session.principal, id, given.memory, given.new(given.content)))


class Recall(InWorkspace):
    """What `recall` is given."""

    query: Annotated[str, Argument()] = ""
    category: _Category = None
    as_of: _AsOf = None
    limit: _Limit = 10


@memory.command("recall", help="Recall memories by meaning; without a query, the newest first.")
async def recall(session: Session, memories: MemoryService, given: Recall) -> None:
    found = await memories.recall(
        session.principal,
        await session.workspace(given.workspace),
        given.query,
        limit=given.limit,
        category=checked_category(given.category) if given.category else None,
        as_of=given.as_of,
        snippets=True,
    )
    columns = ["slug", "content", "category", "relevance", "created_at"]
    rows = [RecalledAnswer.of(each.memory, relevance=round(each.relevance, 4), snippet=each.snippet) for each in found]
    session.out.table(rows, columns, "No memories match.")


class Search(InWorkspace):
    """What `search` is given."""

    query: Annotated[str, Argument()]
    types: Annotated[list[str], Option(metavar="TYPE")] = Field(
        [], description="Only these types: memory, document, repository, commit and so on."
    )
    as_of: _AsOf = None
    limit: _Limit = 10
    explain: bool = Field(False, description="Tell what made the place of each result.")


@command("search", help="Search everything the workspace knows, by words and by meaning.")
async def search(session: Session, memories: MemoryService, given: Search) -> None:
    id = await session.workspace(given.workspace)
    words = [word for item in given.types for word in item.split(",")]
    hits = await memories.search(
        session.principal,
        id,
        given.query,
        types=words,
        limit=given.limit,
        as_of=given.as_of,
        explain=given.explain,
    )
    # Imported where an agent's answer is shown: the models of tools cost time to make.
    from holdfast.features.memory.tools import explained_output

    found = [explained_output(hit, given.explain) for hit in hits]
    columns = ["score", "explanation"] if given.explain else ["title", "snippet", "score"]
    session.out.table(found, ["type", "slug", *columns], "Nothing matches.")


memory.add(search)


@memory.command("get", help="Show one memory.")
async def get(session: Session, memories: MemoryService, given: One) -> None:
    id = await session.workspace(given.workspace)
    session.out.record(MemoryAnswer.of(await memories.get(session.principal, id, given.memory)))


@memory.command("history", help="Show what a memory said before each edit.")
async def history(session: Session, memories: MemoryService, given: One) -> None:
    id = await session.workspace(given.workspace)
    found = await memories.history(session.principal, id, given.memory)
    session.out.table(map(RevisionAnswer.of, found), ["revision", "content", "edited_by"], "It was never edited.")


class Edit(_Described):
    """What `edit` is given."""

    memory: _Memory
    content: Annotated[str | None, Option(reads="dash")] = Field(
        None, description="The new text (- reads it from standard input)."
    )
    tags: Annotated[list[str], Option("--tag")] = Field(
        [], description="The new tags, instead of the old; may be repeated."
    )


@memory.command("edit", help="Change what a memory says; its former words are kept.")
async def edit(session: Session, memories: MemoryService, given: Edit) -> None:
    id = await session.workspace(given.workspace)
    change = MemoryChange(
        given.content or None, given.title, given.category, tuple(given.tags) or None, given.occurred_at
    )
    edited = await memories.edit(session.principal, id, given.memory, change)
    session.out.record(MemoryAnswer.of(edited), [f"{edited.slug} is at revision {edited.revision}."])


class Retract(One):
    """What `retract` is given."""

    note: str = Field("", description="Why it no longer holds.")


@memory.command("retract", help="Say that a memory no longer holds.")
async def retract(session: Session, memories: MemoryService, given: Retract) -> None:
    id = await session.workspace(given.workspace)
    found = await memories.retract(session.principal, id, given.memory, given.note)
    session.out.record(MemoryAnswer.of(found), [f"{found.slug} is retracted."])


@memory.command("share", help="Let the workspace recall a memory that only one chat did.")
async def share(session: Session, memories: MemoryService, given: One) -> None:
    id = await session.workspace(given.workspace)
    found = await memories.share(session.principal, id, given.memory)
    session.out.record(MemoryAnswer.of(found), [f"{found.slug} is shared with the workspace."])


@memory.command("forget", help="Remove a memory and its history for good.")
async def forget(session: Session, memories: MemoryService, given: One) -> None:
    id = await session.workspace(given.workspace)
    await memories.forget(session.principal, id, given.memory)
    session.out.record({"memory": given.memory, "forgotten": True}, [f"{given.memory} is forgotten."])


class Listing(InWorkspace):
    """What `list` is given."""

    category: _Category = None
    tag: str | None = Field(None, description="Only those with this tag.")
    status: Literal["current", "superseded", "retracted", "any"] = "current"
    chat_id: Annotated[str | None, Option("--chat")] = Field(None, description="Saved in this chat, shared or not.")
    as_of: _AsOf = None
    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, description="Where the page before ended.")


@memory.command("list", help="List memories, the last learned first.")
async def list_(session: Session, memories: MemoryService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    filters = Filters(
        category=checked_category(given.category) if given.category else None,
        tag=given.tag,
        status=None if given.status == "any" else given.status,
        chat_id=given.chat_id,
        visibility=None if given.chat_id else "workspace",
        as_of=given.as_of,
    )
    page = await memories.list(session.principal, id, filters, limit=given.limit, cursor=given.cursor)
    session.out.table(map(MemoryAnswer.of, page.items), ["slug", "title", "category", "status", "created_at"])
    if page.next_cursor:
        session.out.note(f"There are more: add --cursor {page.next_cursor}")


def _show_saved(session: Session, saved: Saved) -> None:
    if saved.memory is None:
        raise MemoryRejected(saved.reason or "It was refused.")
    verb = "Saved as" if saved.outcome == "saved" else "Known already as"
    lines = [f"{verb} {saved.memory.slug} ({saved.memory.id}), category {saved.memory.category}."]
    lines += [
        f"It may contradict {each.memory.slug}: {each.memory.content} ({each.reason})" for each in saved.contradicts
    ]
    # Imported where an agent's answer is shown: the models of tools cost time to make.
    from holdfast.features.memory.tools import save_output

    session.out.record(save_output(saved), lines)
