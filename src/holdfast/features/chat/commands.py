"""Owns `holdfast chats`: list, show, rename, export, delete."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Option, Session
from holdfast.core.text.counting import many
from holdfast.features.chat.export import markdown
from holdfast.features.chat.operations import ChatAnswer, whole
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.turn.trail import text_of

chats = Commands("chats", help="Conversations over the OpenAI-compatible endpoint.")

_COLUMNS = ["id", "title", "messages", "tokens_in", "tokens_out", "updated_at"]


class Listing(InWorkspace):
    """What `list` is given."""

    limit: int = Field(50, ge=1, le=200)


@chats.command("list", help="List chats, the last used first.")
async def list_(session: Session, service: ChatService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    page = await service.list(session.principal, id, limit=given.limit)
    session.out.table(map(ChatAnswer.of, page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


class One(InWorkspace):
    """A chat that is named."""

    chat_id: Annotated[str, Argument("ID")]


@chats.command("show", help="Show a chat with its messages and questions.")
async def show(session: Session, service: ChatService, given: One) -> None:
    id = await session.workspace(given.workspace)
    chat, messages, questions = await service.export(session.principal, id, given.chat_id)
    lines = [f"{chat.title} ({chat.id}, {many(chat.messages, 'message')})", ""]
    for message in messages:
        words = text_of(message.message) or "(no words)"
        lines.append(f"{message.number:>4} {message.role}: {words}")
    for question in questions:
        lines.append(f"  ?? {question.state}: {question.question.get('question', '')} ({question.correlation_id})")
    session.out.record(whole(chat, messages, questions), lines)


class Rename(One):
    """What `rename` is given."""

    title: Annotated[str, Argument("TITLE")]


@chats.command("rename", help="Give a chat another title.")
async def rename(session: Session, service: ChatService, given: Rename) -> None:
    id = await session.workspace(given.workspace)
    renamed = await service.rename(session.principal, id, given.chat_id, given.title)
    session.out.record(ChatAnswer.of(renamed), [f"{renamed.id} is now called {renamed.title}."])


class Export(One):
    """What `export` is given."""

    format: Literal["markdown", "json"] = "markdown"
    to: Annotated[Path | None, Option(path="file")] = Field(None, description="A file to write (default: stdout).")


@chats.command("export", help="Write a whole chat as Markdown or JSON.")
async def export(session: Session, service: ChatService, given: Export) -> None:
    id = await session.workspace(given.workspace)
    chat, messages, questions = await service.export(session.principal, id, given.chat_id)
    if given.format == "json" or session.out.as_json:
        text = json.dumps(whole(chat, messages, questions), ensure_ascii=False, indent=2) + "\n"
    else:
        text = markdown(chat, messages, questions)
    if given.to is None:
        session.out.write(text)
    else:
        await asyncio.to_thread(given.to.write_text, text, encoding="utf-8")
        session.out.note(f"Wrote {given.to}.")


@chats.command("delete", help="Delete a chat; its documents and artifacts stay.")
async def delete(session: Session, service: ChatService, given: One) -> None:
    id = await session.workspace(given.workspace)
    await service.delete(session.principal, id, given.chat_id)
    session.out.record({"chat_id": given.chat_id, "deleted": True}, [f"Deleted {given.chat_id}."])
