"""Owns `/files` in OpenAI's shape: a file is a document of the workspace."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import Request

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.paging import encode_cursor
from holdfast.core.principal import Principal
from holdfast.engines.llm.model import Json
from holdfast.features.documents.model import Document, FileTooLarge
from holdfast.features.documents.service import DocumentService
from holdfast.surfaces.http.multipart import read_upload
from holdfast.surfaces.openai.request import OpenAiRequest

WorkspaceOf = Callable[[OpenAiRequest], Awaitable[str]]

PURPOSE = "assistants"
MAX_PAGE = 200
_FRAME_BYTES = 64 * 1024
"""What a multipart body may add to the file."""


class Files:
    """Takes files in, lists, shows and deletes them."""

    def __init__(self, documents: DocumentService, workspace_of: WorkspaceOf) -> None:
        self._documents = documents
        self._workspace_of = workspace_of

    async def create(self, request: OpenAiRequest) -> None:
        """A new file, read in the background; the same bytes again are the same file."""
        request.unhurried()
        incoming = Request(request.scope, request.receive)
        declared = incoming.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._documents.max_bytes + _FRAME_BYTES:
            raise FileTooLarge(self._documents.max_bytes)
        taking = await self._documents.upload(request.principal, await self._workspace_of(request))
        try:
            form = await read_upload(incoming.headers.get("content-type", ""), incoming.stream(), taking.write)
            kept = await taking.finish(form.filename or "", form.media_type)
        except BaseException:
            # Shielded: a client that hangs up must not leave its bytes behind.
            await asyncio.shield(taking.abandon())
            raise
        await request.answer(_file(kept.document, form.fields.get("purpose") or PURPOSE))

    async def list(self, request: OpenAiRequest) -> None:
        """Files, the last uploaded first."""
        asked = parse_qs(request.scope.get("query_string", b"").decode("latin-1"))
        limit, after = asked.get("limit", ["100"])[-1], asked.get("after", [""])[-1]
        if not limit.isdigit() or not 1 <= int(limit) <= 10_000:
            raise Invalid("The files can't be listed.", fields=[FieldError("limit", "use a number from 1 to 10000")])
        page = await self._documents.page(
            request.principal,
            await self._workspace_of(request),
            limit=min(int(limit), MAX_PAGE),
            cursor=encode_cursor(after) if after else None,
        )
        data = [_file(document) for document in page.items]
        await request.answer_list(data, has_more=page.next_cursor is not None)

    async def get(self, request: OpenAiRequest) -> None:
        """One file and whether it was read."""
        await request.answer(_file(await self._documents.get(*await self._at(request))))

    async def content(self, request: OpenAiRequest) -> None:
        """The bytes as they were uploaded, always as a download."""
        at = await self._at(request)
        found = await self._documents.get(*at)
        headers = {
            **request.headers,
            "content-type": "application/octet-stream",
            "content-length": str(found.size_bytes),
            "content-disposition": "attachment",
        }
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await request.send({"type": "http.response.start", "status": 200, "headers": raw})
        async for part in self._documents.content(*at):
            await request.send({"type": "http.response.body", "body": part, "more_body": True})
        await request.send({"type": "http.response.body", "body": b""})

    async def delete(self, request: OpenAiRequest) -> None:
        """Remove a file, from every vector store as well."""
        await self._documents.delete(*await self._at(request))
        await request.answer({"id": request.path["file_id"], "object": "file", "deleted": True})

    async def _at(self, request: OpenAiRequest) -> tuple[Principal, str, str]:
        return request.principal, await self._workspace_of(request), request.path["file_id"]


def _file(document: Document, purpose: str = PURPOSE) -> Json:
    status = {"ready": "processed", "failed": "error"}.get(document.state, "uploaded")
    return {
        "id": document.id,
        "object": "file",
        "bytes": document.size_bytes,
        "created_at": document.created_at // 1000,
        "expires_at": None,
        "filename": document.filename,
        "purpose": purpose,
        "status": status,
        "status_details": document.reason,
    }
