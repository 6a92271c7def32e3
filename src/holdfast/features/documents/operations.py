"""Owns the REST operations of documents."""

import asyncio
from urllib.parse import quote

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Call, Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.documents.model import FileTooLarge, State
from holdfast.features.documents.service import DocumentService

api = Operations("documents")

_BASE = "/api/workspaces/{workspace_id}/documents"
_ONE = _BASE + "/{document_id}"


_FRAME_BYTES = 64 * 1024
"""What a multipart body may add to the file."""


class DocumentQuery(PageQuery):
    chat_id: str | None = Field(default=None, max_length=200, description="Only those uploaded to this chat")
    state: State | None = Field(default=None, description="Only those in this state")


class DocumentSearchQuery(Model):
    q: str = Field(min_length=1, max_length=4000, description="What to look for")
    limit: int = Field(default=5, ge=1, le=50, description="How many passages at most")
    chat_id: str | None = Field(default=None, max_length=200, description="Only in documents of this chat")


class ProgressAnswer(Answer):
    done: int
    total: int | None


class DocumentAnswer(Answer):
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
    created_at: Time
    updated_at: Time


class UploadAnswer(DocumentAnswer):
    created: bool = Field(description="False when the workspace had a document with the same bytes already")


class StatusAnswer(Answer):
    id: str
    state: State
    reason_code: str | None
    reason: str | None
    progress: ProgressAnswer


class ChunkAnswer(Answer):
    number: int
    heading: str
    page: int | None
    text: str


class PassageAnswer(Answer):
    document_id: str
    filename: str
    text: str
    score: float
    chunk: int
    heading: str
    page: int | None


@api.get(_BASE, READ, "List documents, the last uploaded first")
async def page(
    documents: DocumentService, principal: Principal, workspace_id: str, query: DocumentQuery
) -> Page[DocumentAnswer]:
    found = await documents.page(
        principal,
        workspace_id,
        chat_id=query.chat_id,
        state=query.state,
        limit=query.limit,
        cursor=query.cursor,
    )
    return found.map(DocumentAnswer.of)


@api.post(
    _BASE,
    WRITE,
    "Upload a document: the part `file`, optionally the fields `filename` and `chat_id`",
    status=201,
    upload="multipart/form-data",
)
async def upload(documents: DocumentService, principal: Principal, workspace_id: str, call: Call) -> UploadAnswer:
    declared = call.header("content-length") or ""
    if declared.isdigit() and int(declared) > documents.max_bytes + _FRAME_BYTES:
        raise FileTooLarge(documents.max_bytes)
    taking = await documents.upload(principal, workspace_id)
    try:
        form = await call.upload(taking.write)
        name = form.fields.get("filename") or form.filename or ""
        kept = await taking.finish(name, form.media_type, form.fields.get("chat_id") or None)
    except BaseException:
        # Shielded: a client that hangs up must not leave its bytes behind.
        await asyncio.shield(taking.abandon())
        raise
    return UploadAnswer.of(kept.document, created=kept.created)


@api.get(_BASE + "/search", READ, "Find passages in documents")
async def search(
    documents: DocumentService, principal: Principal, workspace_id: str, query: DocumentSearchQuery
) -> Page[PassageAnswer]:
    found = await documents.search(principal, workspace_id, query.q, limit=query.limit, chat_id=query.chat_id)
    return Page(found).map(PassageAnswer.of)


@api.get(_ONE, READ, "Get a document and how far it has been read")
async def get(documents: DocumentService, principal: Principal, workspace_id: str, document_id: str) -> DocumentAnswer:
    return DocumentAnswer.of(await documents.get(principal, workspace_id, document_id))


@api.get(_ONE + "/status", READ, "Get how far a document has been read")
async def status(documents: DocumentService, principal: Principal, workspace_id: str, document_id: str) -> StatusAnswer:
    return StatusAnswer.of(await documents.get(principal, workspace_id, document_id))


@api.get(_ONE + "/chunks", READ, "List the passages read out of a document")
async def chunks(
    documents: DocumentService, principal: Principal, workspace_id: str, document_id: str, query: PageQuery
) -> Page[ChunkAnswer]:
    found = await documents.chunks(principal, workspace_id, document_id, limit=query.limit, cursor=query.cursor)
    return found.map(ChunkAnswer.of)


@api.get(_ONE + "/content", READ, "Download a document as it was uploaded", produces="application/octet-stream")
async def content(documents: DocumentService, principal: Principal, workspace_id: str, document_id: str) -> Download:
    found = await documents.get(principal, workspace_id, document_id)
    # Always a download: the file may be a page with scripts, and must not run in our origin.
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.filename, safe='')}",
        "Content-Length": str(found.size_bytes),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "ETag": f'"{found.sha256}"',
    }
    return Download(documents.content(principal, workspace_id, document_id), found.media_type, headers=headers)


@api.get(_ONE + "/text", READ, "Download the text read out of a document", produces="text/plain")
async def text(documents: DocumentService, principal: Principal, workspace_id: str, document_id: str) -> Download:
    await documents.get(principal, workspace_id, document_id)
    return Download(documents.text(principal, workspace_id, document_id), "text/plain")


@api.delete(_ONE, WRITE, "Delete a document with its bytes, passages and index")
async def delete(documents: DocumentService, principal: Principal, workspace_id: str, document_id: str) -> None:
    await documents.delete(principal, workspace_id, document_id)
