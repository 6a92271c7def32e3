"""Owns `holdfast chats`: list, show, rename, export, delete."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.features.chat.export import markdown
from holdfast.features.chat.model import Chat, Message, Question
from holdfast.features.chat.trail import text_of
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("chats", help="Conversations over the OpenAI-compatible endpoint.")

_COLUMNS = ["id", "title", "messages", "tokens_in", "tokens_out", "updated_at"]
_id = click.argument("chat_id", metavar="ID")


@command(
    group,
    "list",
    workspace_option,
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
    help="List chats, the last used first.",
)
async def list_(session: Session, workspace: str | None, limit: int) -> None:
    id = await session.workspace(workspace)
    page = await session.services.chats.list(session.principal, id, limit=limit)
    session.out.table((_chat(each) for each in page.items), _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


@command(group, "show", _id, workspace_option, help="Show a chat with its messages and questions.")
async def show(session: Session, chat_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    chat, messages, questions = await session.services.chats.export(session.principal, id, chat_id)
    lines = [f"{chat.title} ({chat.id}, {chat.messages} messages)", ""]
    for message in messages:
        words = text_of(message.message) or "(no words)"
        lines.append(f"{message.number:>4} {message.role}: {words}")
    for question in questions:
        lines.append(f"  ?? {question.state}: {question.question.get('question', '')} ({question.correlation_id})")
    session.out.record(_whole(chat, messages, questions), lines)


@command(
    group,
    "rename",
    _id,
    click.argument("title", metavar="TITLE"),
    workspace_option,
    help="Give a chat another title.",
)
async def rename(session: Session, chat_id: str, title: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    renamed = await session.services.chats.rename(session.principal, id, chat_id, title)
    session.out.record(_chat(renamed), [f"{renamed.id} is now called {renamed.title}."])


@command(
    group,
    "export",
    _id,
    workspace_option,
    click.option("--format", "format_", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True),
    click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="A file to write (default: stdout)."),
    help="Write a whole chat as Markdown or JSON.",
)
async def export(session: Session, chat_id: str, workspace: str | None, format_: str, to: Path | None) -> None:
    id = await session.workspace(workspace)
    chat, messages, questions = await session.services.chats.export(session.principal, id, chat_id)
    text = markdown(chat, messages, questions)
    if format_ == "json" or session.out.as_json:
        text = json.dumps(_whole(chat, messages, questions), ensure_ascii=False, indent=2) + "\n"
    if to is None:
        click.echo(text, nl=False)
    else:
        await asyncio.to_thread(to.write_text, text, encoding="utf-8")
        session.out.note(f"Wrote {to}.")


@command(group, "delete", _id, workspace_option, help="Delete a chat; its documents and artifacts stay.")
async def delete(session: Session, chat_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    await session.services.chats.delete(session.principal, id, chat_id)
    session.out.record({"chat_id": chat_id, "deleted": True}, [f"Deleted {chat_id}."])


def _chat(chat: Chat) -> dict[str, Any]:
    return {
        "id": chat.id,
        "title": chat.title,
        "endpoint": chat.endpoint,
        "messages": chat.messages,
        "tokens_in": chat.tokens_in,
        "tokens_out": chat.tokens_out,
        "cost": chat.cost,
        "created_at": iso(chat.created_at),
        "updated_at": iso(chat.updated_at),
    }


def _whole(chat: Chat, messages: list[Message], questions: list[Question]) -> dict[str, Any]:
    return {
        **_chat(chat),
        "conversation": [
            {
                "id": message.id,
                "number": message.number,
                "parent_id": message.parent_id,
                "state": message.state,
                "message": message.message,
                "calls": list(message.calls),
                "tokens_in": message.tokens_in,
                "tokens_out": message.tokens_out,
                "created_at": iso(message.created_at),
            }
            for message in messages
        ],
        "questions": [
            {
                "correlation_id": question.correlation_id,
                "question": question.question,
                "state": question.state,
                "answer": question.answer,
            }
            for question in questions
        ],
    }
