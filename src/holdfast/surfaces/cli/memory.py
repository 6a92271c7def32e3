"""Owns `holdfast memory` (save, recall, get, edit, retract, supersede, forget, list) and `holdfast search`."""

import sys
from typing import Any

import click

from holdfast.core.clock import parse_time
from holdfast.features.memory.finding import TYPES
from holdfast.features.memory.model import Change, Filters, NewMemory, Recalled, Saved
from holdfast.features.memory.service import MemoryRejected
from holdfast.features.memory.tools import memory_output, result_output, save_output
from holdfast.features.memory.wording import checked_category
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("memory", help="What people and agents remember: facts, preferences, instructions, decisions.")

_memory = click.argument("memory", metavar="ID_OR_SLUG")
_content = click.argument("content")
_category = click.option("--category", help="preference, fact, instruction, decision or a word of your own.")
_title = click.option("--title", help="A short heading (default: made from the content).")
_tag = click.option("--tag", "tags", multiple=True, help="A word to group by; may be repeated.")
_occurred = click.option("--occurred-at", metavar="TIME", help="When it became true, like 2026-11-16.")
_source = click.option("--source", default="", help="Where it comes from: a URL, a file, a person.")
_as_of = click.option("--as-of", metavar="TIME", help="What held at this moment.")


def _limit(default: int) -> Any:
    return click.option("--limit", type=click.IntRange(1, 50), default=default, show_default=True)


@command(
    group,
    "save",
    _content,
    workspace_option,
    _category,
    _title,
    _tag,
    _occurred,
    _source,
    click.option("--supersedes", metavar="ID_OR_SLUG", help="The memory that this one replaces."),
    help="Remember something (- reads it from standard input).",
)
async def save(
    session: Session,
    content: str,
    workspace: str | None,
    category: str | None,
    title: str | None,
    tags: tuple[str, ...],
    occurred_at: str | None,
    source: str,
    supersedes: str | None,
) -> None:
    id = await session.workspace(workspace)
    new = NewMemory(_text(content), category, title, tags, _moment(occurred_at, "--occurred-at"), source, supersedes)
    _show_saved(session, await session.services.memory.save(session.principal, id, new))


@command(
    group,
    "supersede",
    _memory,
    _content,
    workspace_option,
    _category,
    _title,
    _tag,
    _occurred,
    _source,
    help="Save a memory in the place of another, which stays findable as of its time.",
)
async def supersede(
    session: Session,
    memory: str,
    content: str,
    workspace: str | None,
    category: str | None,
    title: str | None,
    tags: tuple[str, ...],
    occurred_at: str | None,
    source: str,
) -> None:
    id = await session.workspace(workspace)
    new = NewMemory(_text(content), category, title, tags, _moment(occurred_at, "--occurred-at"), source)
    _show_saved(session, await session.services.memory.supersede(session.principal, id, memory, new))


@command(
    group,
    "recall",
    click.argument("query", default=""),
    workspace_option,
    _category,
    _as_of,
    _limit(10),
    help="Recall memories by meaning; without a query, the newest first.",
)
async def recall(
    session: Session, query: str, workspace: str | None, category: str | None, as_of: str | None, limit: int
) -> None:
    id = await session.workspace(workspace)
    found = await session.services.memory.recall(
        session.principal,
        id,
        query,
        limit=limit,
        category=checked_category(category) if category else None,
        as_of=_moment(as_of, "--as-of"),
    )
    rows = [memory_output(each).model_dump() for each in found]
    session.out.table(rows, ["slug", "content", "category", "relevance", "created_at"], "No memories match.")


@command(
    group,
    "search",
    click.argument("query"),
    workspace_option,
    click.option("--types", multiple=True, metavar="TYPE", help=f"Only these: {', '.join(TYPES)}."),
    _as_of,
    _limit(10),
    help="Search everything the workspace knows, by words and by meaning.",
)
async def search(
    session: Session, query: str, workspace: str | None, types: tuple[str, ...], as_of: str | None, limit: int
) -> None:
    id = await session.workspace(workspace)
    words = [word for item in types for word in item.split(",")]
    hits = await session.services.memory.search(
        session.principal, id, query, types=words, limit=limit, as_of=_moment(as_of, "--as-of")
    )
    rows = [result_output(hit).model_dump() for hit in hits]
    session.out.table(rows, ["type", "slug", "title", "snippet", "score"], "Nothing matches.")


@command(group, "get", _memory, workspace_option, help="Show one memory.")
async def get(session: Session, memory: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    found = await session.services.memory.get(session.principal, id, memory)
    session.out.record(memory_output(Recalled(found, 1.0)).model_dump(exclude={"relevance"}))


@command(group, "history", _memory, workspace_option, help="Show what a memory said before each edit.")
async def history(session: Session, memory: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    found = await session.services.memory.history(session.principal, id, memory)
    rows = [{"revision": each.revision, "content": each.content, "edited_by": each.editor} for each in found]
    session.out.table(rows, ["revision", "content", "edited_by"], "It was never edited.")


@command(
    group,
    "edit",
    _memory,
    workspace_option,
    click.option("--content", help="The new text (- reads it from standard input)."),
    _category,
    _title,
    click.option("--tag", "tags", multiple=True, help="The new tags, instead of the old; may be repeated."),
    _occurred,
    help="Change what a memory says; its former words are kept.",
)
async def edit(
    session: Session,
    memory: str,
    workspace: str | None,
    content: str | None,
    category: str | None,
    title: str | None,
    tags: tuple[str, ...],
    occurred_at: str | None,
) -> None:
    id = await session.workspace(workspace)
    change = Change(
        _text(content) if content else None, title, category, tags or None, _moment(occurred_at, "--occurred-at")
    )
    edited = await session.services.memory.edit(session.principal, id, memory, change)
    session.out.record(
        memory_output(Recalled(edited, 1.0)).model_dump(exclude={"relevance"}),
        [f"{edited.slug} is at revision {edited.revision}."],
    )


@command(
    group,
    "retract",
    _memory,
    workspace_option,
    click.option("--note", default="", help="Why it no longer holds."),
    help="Say that a memory no longer holds.",
)
async def retract(session: Session, memory: str, workspace: str | None, note: str) -> None:
    id = await session.workspace(workspace)
    found = await session.services.memory.retract(session.principal, id, memory, note)
    session.out.record(
        memory_output(Recalled(found, 1.0)).model_dump(exclude={"relevance"}), [f"{found.slug} is retracted."]
    )


@command(group, "forget", _memory, workspace_option, help="Remove a memory and its history for good.")
async def forget(session: Session, memory: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    await session.services.memory.forget(session.principal, id, memory)
    session.out.record({"memory": memory, "forgotten": True}, [f"{memory} is forgotten."])


@command(
    group,
    "list",
    workspace_option,
    _category,
    click.option("--tag", help="Only those with this tag."),
    click.option("--status", type=click.Choice(["current", "superseded", "retracted", "any"]), default="current"),
    _as_of,
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
    click.option("--cursor", help="Where the page before ended."),
    help="List memories, the last learned first.",
)
async def list_(
    session: Session,
    workspace: str | None,
    category: str | None,
    tag: str | None,
    status: Any,
    as_of: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    id = await session.workspace(workspace)
    filters = Filters(
        category=checked_category(category) if category else None,
        tag=tag,
        status=None if status == "any" else status,
        as_of=_moment(as_of, "--as-of"),
    )
    page = await session.services.memory.list(session.principal, id, filters, limit=limit, cursor=cursor)
    rows = [memory_output(Recalled(each, 1.0)).model_dump(exclude={"relevance"}) for each in page.items]
    session.out.table(rows, ["slug", "title", "category", "status", "created_at"])
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
    session.out.record(save_output(saved).model_dump(), lines)


def _text(content: str) -> str:
    return sys.stdin.read() if content == "-" else content


def _moment(text: str | None, field: str) -> int | None:
    return parse_time(text, field) if text else None
