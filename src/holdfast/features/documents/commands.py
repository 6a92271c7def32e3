"""Owns `holdfast docs`: add, list, show, delete."""

import asyncio
import mimetypes
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Commands, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.here import LOOK_SECONDS, working
from holdfast.features.documents.model import Document, FileTooLarge, Uploaded
from holdfast.features.documents.operations import DocumentAnswer, UploadAnswer
from holdfast.features.documents.service import DocumentService

docs = Commands("docs", help="Documents: files that are read, indexed and found by their passages.")

_READ_BYTES = 1024 * 1024

_Chat = Annotated[str | None, Option(metavar="CHAT")]


class Add(InWorkspace):
    """What `add` is given."""

    files: Annotated[list[Path], Argument()]
    chat: _Chat = Field(None, description="Add them to this chat.")
    wait: bool = Field(False, description="Return when they can be found, or cannot be read.")


@docs.command("add", help="Upload files: PDF, Markdown, HTML, text, docx, pptx, xlsx, source code.", begins_store=True)
async def add(session: Session, service: DocumentService, given: Add) -> None:
    id = await session.workspace(given.workspace)
    kept, refused = await _upload_each(session, service, id, given)
    documents = [each.document for each in kept]
    if given.wait:
        # The engine is asked for only here: with it come the handlers of every kind of job.
        async with working(session.parts[JobEngine]):
            documents = [await _finished(session, service, id, document.id) for document in documents]
    rows = [
        UploadAnswer.of(document, created=each.created).model_dump()
        for document, each in zip(documents, kept, strict=True)
    ]
    rows += refused
    if session.out.as_json and len(given.files) == 1:
        session.out.record(rows[0])
    else:
        session.out.table(rows, ["id", "filename", "format", "state", "chunks", "reason"])
    if kept and not given.wait:
        session.out.note("They are read in the background by the server; add --wait to read them now.")
    failed = [row for row in rows if row["state"] in ("failed", "refused")]
    for row in failed:
        session.out.note(f"{row['filename']} was not added: {row['reason']}")
    if failed:
        raise SystemExit(FAILED)


async def _upload_each(
    session: Session, service: DocumentService, workspace_id: str, given: Add
) -> tuple[list[Uploaded], list[dict[str, Any]]]:
    """What was taken, and a row with the reason for each file that was not: one bad file holds up no other."""
    kept: list[Uploaded] = []
    refused: list[dict[str, Any]] = []
    for file in given.files:
        try:
            kept.append(await _upload(session, service, workspace_id, file, given.chat))
        # What is wrong with one file is told; what would be wrong with each (a chat, a right, the store) ends it.
        except (Invalid, FileTooLarge) as problem:
            if any(each.field == "chat_id" for each in problem.fields):
                raise
            reason = "; ".join(each.message for each in problem.fields) or problem.message
            refused.append(
                {"id": None, "filename": str(file), "state": "refused", "reason_code": problem.code, "reason": reason}
            )
    return kept, refused


class Listing(InWorkspace):
    """What `list` is given."""

    chat: _Chat = Field(None, description="Only those of this chat.")
    limit: int = Field(50, ge=1, le=200)


@docs.command("list", help="List documents, the last uploaded first.")
async def list_(session: Session, service: DocumentService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    page = await service.page(session.principal, id, chat_id=given.chat, limit=given.limit)
    session.out.table(map(DocumentAnswer.of, page.items), ["id", "filename", "format", "size_bytes", "state", "chunks"])
    if page.next_cursor is not None:
        session.out.note("There are more; raise --limit to see them.")


class One(InWorkspace):
    """A document that is named."""

    document: Annotated[str, Argument("ID")]


class Show(One):
    """What `show` is given."""

    text: bool = Field(False, description="Print the text that was read out of it.")


@docs.command("show", help="Show a document and how far it has been read.")
async def show(session: Session, service: DocumentService, given: Show) -> None:
    id = await session.workspace(given.workspace)
    found = await service.get(session.principal, id, given.document)
    if not given.text:
        session.out.record(DocumentAnswer.of(found))
        return
    pieces = [piece async for piece in service.text(session.principal, id, given.document)]
    whole = "".join(pieces).rstrip("\n")
    session.out.record({**DocumentAnswer.of(found).model_dump(), "text": whole}, [whole])


@docs.command("delete", help="Delete a document and everything made of it.")
async def delete(session: Session, service: DocumentService, given: One) -> None:
    id = await session.workspace(given.workspace)
    await service.delete(session.principal, id, given.document)
    session.out.record({"id": given.document, "deleted": True}, [f"Deleted {given.document}."])


async def _upload(
    session: Session, service: DocumentService, workspace_id: str, file: Path, chat: str | None
) -> Uploaded:
    try:
        opened = file.open("rb")
    except OSError as problem:
        reason = f"it cannot be read ({problem.strerror})"
        raise Invalid("There is no file to add.", code="unreadable", fields=[FieldError("files", reason)]) from None
    with opened:
        taking = await service.upload(session.principal, workspace_id)
        try:
            while data := await asyncio.to_thread(opened.read, _READ_BYTES):
                await taking.write(data)
            return await taking.finish(file.name, mimetypes.guess_type(file.name)[0] or "", chat)
        except BaseException:
            await taking.abandon()
            raise


async def _finished(session: Session, service: DocumentService, workspace_id: str, document_id: str) -> Document:
    while True:
        found = await service.get(session.principal, workspace_id, document_id)
        if found.finished:
            return found
        await asyncio.sleep(LOOK_SECONDS)
