"""Owns `holdfast docs`: add, list, show, delete."""

import asyncio
import mimetypes
from pathlib import Path
from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.documents.model import Document, Uploaded
from holdfast.surfaces.cli.frame import FAILED, Session, command, workspace_option
from holdfast.surfaces.cli.working import LOOK_SECONDS, working

group = click.Group("docs", help="Documents: files that are read, indexed and found by their passages.")

_READ_BYTES = 1024 * 1024

_document = click.argument("document", metavar="ID")


@command(
    group,
    "add",
    click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path)),
    workspace_option,
    click.option("--chat", metavar="CHAT", help="Add them to this chat."),
    click.option("--wait", is_flag=True, help="Return when they can be found, or cannot be read."),
    help="Upload files: PDF, Markdown, HTML, text, docx, pptx, xlsx, source code.",
)
async def add(session: Session, files: tuple[Path, ...], workspace: str | None, chat: str | None, wait: bool) -> None:
    id = await session.workspace(workspace)
    kept = [await _upload(session, id, file, chat) for file in files]
    documents = [each.document for each in kept]
    if wait:
        async with working(session):
            documents = [await _finished(session, id, document.id) for document in documents]
    rows = [{**_record(document), "created": each.created} for document, each in zip(documents, kept, strict=True)]
    if session.out.as_json and len(rows) == 1:
        session.out.record(rows[0])
    else:
        session.out.table(rows, ["id", "filename", "format", "state", "chunks", "reason"])
    if any(document.state == "failed" for document in documents):
        raise SystemExit(FAILED)
    if not wait:
        session.out.note("They are read in the background by the server; add --wait to read them now.")


@command(
    group,
    "list",
    workspace_option,
    click.option("--chat", metavar="CHAT", help="Only those of this chat."),
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
    help="List documents, the last uploaded first.",
)
async def list_(session: Session, workspace: str | None, chat: str | None, limit: int) -> None:
    id = await session.workspace(workspace)
    page = await session.services.documents.page(session.principal, id, chat_id=chat, limit=limit)
    session.out.table(
        (_record(each) for each in page.items), ["id", "filename", "format", "size_bytes", "state", "chunks"]
    )
    if page.next_cursor is not None:
        session.out.note("There are more; raise --limit to see them.")


@command(
    group,
    "show",
    _document,
    workspace_option,
    click.option("--text", is_flag=True, help="Print the text that was read out of it."),
    help="Show a document and how far it has been read.",
)
async def show(session: Session, document: str, workspace: str | None, text: bool) -> None:
    id = await session.workspace(workspace)
    found = await session.services.documents.get(session.principal, id, document)
    if not text:
        session.out.record(_record(found))
        return
    pieces = [piece async for piece in session.services.documents.text(session.principal, id, document)]
    whole = "".join(pieces).rstrip("\n")
    session.out.record({**_record(found), "text": whole}, [whole])


@command(group, "delete", _document, workspace_option, help="Delete a document and everything made of it.")
async def delete(session: Session, document: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    await session.services.documents.delete(session.principal, id, document)
    session.out.record({"id": document, "deleted": True}, [f"Deleted {document}."])


async def _upload(session: Session, workspace_id: str, file: Path, chat: str | None) -> Uploaded:
    try:
        opened = file.open("rb")
    except OSError as problem:
        reason = f"{file} cannot be read ({problem.strerror})"
        raise Invalid("There is no file to add.", fields=[FieldError("files", reason)]) from None
    with opened:
        taking = await session.services.documents.upload(session.principal, workspace_id)
        try:
            while data := await asyncio.to_thread(opened.read, _READ_BYTES):
                await taking.write(data)
            return await taking.finish(file.name, mimetypes.guess_type(file.name)[0] or "", chat)
        except BaseException:
            await taking.abandon()
            raise


async def _finished(session: Session, workspace_id: str, document_id: str) -> Document:
    while True:
        found = await session.services.documents.get(session.principal, workspace_id, document_id)
        if found.finished:
            return found
        await asyncio.sleep(LOOK_SECONDS)


def _record(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "filename": document.filename,
        "title": document.title,
        "format": document.format,
        "language": document.language,
        "size_bytes": document.size_bytes,
        "sha256": document.sha256,
        "state": document.state,
        "reason_code": document.reason_code,
        "reason": document.reason,
        "progress_done": document.progress_done,
        "progress_total": document.progress_total,
        "chunks": document.chunks,
        "characters": document.characters,
        "truncated": document.truncated,
        "created_at": iso(document.created_at),
        "updated_at": iso(document.updated_at),
    }
