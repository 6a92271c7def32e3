"""Owns the REST operations of documents."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso
from holdfast.core.model import Model, NoQuery, PageQuery
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.documents.model import Document, DocumentChunk, FileTooLarge, State
from holdfast.features.documents.service import DocumentService

_BASE = "/api/workspaces/{workspace_id}/documents"
_ONE = _BASE + "/{document_id}"
_TAG = "documents"
_FRAME_BYTES = 64 * 1024
"""What a multipart body may add to the file."""


class DocumentQuery(PageQuery):
    chat_id: str | None = Field(default=None, max_length=200, description="Only those uploaded to this chat")
    state: State | None = Field(default=None, description="Only those in this state")


class DocumentSearchQuery(NoQuery):
    q: str = Field(min_length=1, max_length=4000, description="What to look for")
    limit: int = Field(default=5, ge=1, le=50, description="How many passages at most")
    chat_id: str | None = Field(default=None, max_length=200, description="Only in documents of this chat")


class ProgressAnswer(Model):
    done: int
    total: int | None


class DocumentAnswer(Model):
    id: str
    workspace_id: str
    filename: str
    title: str
    format: str
    language: str | None
    media_type: str
    size_bytes: int
    sha256: str
    state: State
    reason_code: str | None
    reason: str | None
    progress: ProgressAnswer
    chunks: int
    characters: int
    truncated: bool
    job_id: str
    created_by: str
    created_at: str
    updated_at: str


class UploadAnswer(DocumentAnswer):
    created: bool = Field(description="False when the workspace had a document with the same bytes already")


class StatusAnswer(Model):
    id: str
    state: State
    reason_code: str | None
    reason: str | None
    progress: ProgressAnswer


class ChunkAnswer(Model):
    number: int
    heading: str
    page: int | None
    text: str


class PassageAnswer(Model):
    document_id: str
    filename: str
    text: str
    score: float
    chunk: int
    heading: str
    page: int | None


class PassagesAnswer(Model):
    results: list[PassageAnswer]


def document_answer(document: Document) -> DocumentAnswer:
    """A document as REST shows it."""
    return DocumentAnswer(
        id=document.id,
        workspace_id=document.workspace_id,
        filename=document.filename,
        title=document.title,
        format=document.format,
        language=document.language,
        media_type=document.media_type,
        size_bytes=document.size_bytes,
        sha256=document.sha256,
        state=document.state,
        reason_code=document.reason_code,
        reason=document.reason,
        progress=ProgressAnswer(done=document.progress_done, total=document.progress_total),
        chunks=document.chunks,
        characters=document.characters,
        truncated=document.truncated,
        job_id=document.job_id,
        created_by=document.created_by,
        created_at=iso(document.created_at),
        updated_at=iso(document.updated_at),
    )


def _chunk_answer(chunk: DocumentChunk) -> ChunkAnswer:
    return ChunkAnswer(number=chunk.number, heading=chunk.heading, page=chunk.page, text=chunk.text)


def operations(service: DocumentService) -> list[Operation]:
    """Every operation of documents."""

    async def upload(call: Call) -> UploadAnswer:
        declared = call.header("content-length") or ""
        if declared.isdigit() and int(declared) > service.max_bytes + _FRAME_BYTES:
            raise FileTooLarge(service.max_bytes)
        taking = await service.upload(call.principal, call.path["workspace_id"])
        try:
            form = await call.upload(taking.write)
            name = form.fields.get("filename") or form.filename or ""
            kept = await taking.finish(name, form.media_type, form.fields.get("chat_id") or None)
        except BaseException:
            # Shielded: a client that hangs up must not leave its bytes behind.
            await asyncio.shield(taking.abandon())
            raise
        return UploadAnswer(**document_answer(kept.document).model_dump(), created=kept.created)

    async def page(call: Call) -> Page[DocumentAnswer]:
        asked: DocumentQuery = call.query
        found = await service.page(
            call.principal,
            call.path["workspace_id"],
            chat_id=asked.chat_id,
            state=asked.state,
            limit=asked.limit,
            cursor=asked.cursor,
        )
        return found.map(document_answer)

    async def search(call: Call) -> PassagesAnswer:
        asked: DocumentSearchQuery = call.query
        found = await service.search(
            call.principal, call.path["workspace_id"], asked.q, limit=asked.limit, chat_id=asked.chat_id
        )
        return PassagesAnswer(
            results=[
                PassageAnswer(
                    document_id=each.document_id,
                    filename=each.filename,
                    text=each.text,
                    score=each.score,
                    chunk=each.chunk,
                    heading=each.heading,
                    page=each.page,
                )
                for each in found
            ]
        )

    async def get(call: Call) -> DocumentAnswer:
        return document_answer(await service.get(*_at(call)))

    async def status(call: Call) -> StatusAnswer:
        found = await service.get(*_at(call))
        progress = ProgressAnswer(done=found.progress_done, total=found.progress_total)
        return StatusAnswer(
            id=found.id, state=found.state, reason_code=found.reason_code, reason=found.reason, progress=progress
        )

    async def chunks(call: Call) -> Page[ChunkAnswer]:
        asked: PageQuery = call.query
        return (await service.chunks(*_at(call), limit=asked.limit, cursor=asked.cursor)).map(_chunk_answer)

    async def content(call: Call) -> Download:
        found = await service.get(*_at(call))
        # Always a download: the file may be a page with scripts, and must not run in our origin.
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.filename, safe='')}",
            "Content-Length": str(found.size_bytes),
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "ETag": f'"{found.sha256}"',
        }
        return Download(service.content(*_at(call)), found.media_type, headers=headers)

    async def text(call: Call) -> Download:
        await service.get(*_at(call))
        return Download(_encoded(service.text(*_at(call))), "text/plain")

    async def delete(call: Call) -> None:
        await service.delete(*_at(call))

    return [
        Operation(
            method="GET",
            path=_BASE,
            handler=page,
            summary="List documents, the last uploaded first",
            tag=_TAG,
            access=READ,
            query=DocumentQuery,
            answer=DocumentAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=_BASE,
            handler=upload,
            summary="Upload a document: the part `file`, optionally the fields `filename` and `chat_id`",
            tag=_TAG,
            access=WRITE,
            answer=UploadAnswer,
            status=201,
            upload="multipart/form-data",
        ),
        Operation(
            method="GET",
            path=_BASE + "/search",
            handler=search,
            summary="Find passages in documents",
            tag=_TAG,
            access=READ,
            query=DocumentSearchQuery,
            answer=PassagesAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE,
            handler=get,
            summary="Get a document and how far it has been read",
            tag=_TAG,
            access=READ,
            answer=DocumentAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE + "/status",
            handler=status,
            summary="Get how far a document has been read",
            tag=_TAG,
            access=READ,
            answer=StatusAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE + "/chunks",
            handler=chunks,
            summary="List the passages read out of a document",
            tag=_TAG,
            access=READ,
            query=PageQuery,
            answer=ChunkAnswer,
            paged=True,
        ),
        Operation(
            method="GET",
            path=_ONE + "/content",
            handler=content,
            summary="Download a document as it was uploaded",
            tag=_TAG,
            access=READ,
            produces="application/octet-stream",
        ),
        Operation(
            method="GET",
            path=_ONE + "/text",
            handler=text,
            summary="Download the text read out of a document",
            tag=_TAG,
            access=READ,
            produces="text/plain",
        ),
        Operation(
            method="DELETE",
            path=_ONE,
            handler=delete,
            summary="Delete a document with its bytes, passages and index",
            tag=_TAG,
            access=WRITE,
            status=204,
        ),
    ]


async def _encoded(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece.encode()


def _at(call: Call) -> tuple[Principal, str, str]:
    return call.principal, call.path["workspace_id"], call.path["document_id"]
