"""Owns the rules of documents: upload, reading them back, finding passages, and deleting all of one."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.extract.formats import recognise
from holdfast.engines.jobs import JobEngine, JobNotFound
from holdfast.engines.search import Hit, Query, SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.documents import store
from holdfast.features.documents.ingest import KIND, TYPE
from holdfast.features.documents.model import (
    MAX_BYTES,
    Document,
    DocumentChunk,
    DocumentNotFound,
    DocumentPassage,
    State,
    Uploaded,
    checked_chat,
    checked_filename,
    media_type_of,
)
from holdfast.features.documents.upload import Upload
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.precedence import worth_showing
from holdfast.storage.database import Database, Tx

ABANDONED_MILLIS = 3_600_000
MAX_RESULTS = 50
_CHUNK_PAGE = 200


class DocumentService:
    """Takes files in, says how far they are, finds passages in them."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        jobs: JobEngine,
        clock: Clock,
        entities: Entities,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._jobs = jobs
        self._clock = clock
        self.max_bytes = max_bytes
        self._entities = entities

    async def upload(self, principal: Principal, workspace_id: str) -> Upload:
        """Begin to take a file in; the document exists once the upload is finished."""
        principal.require("inference")
        document_id = new_id("doc")

        def work(tx: Tx) -> str:
            id = self._workspaces.check(tx, principal, workspace_id).id
            now = self._clock.now()
            # What clients left behind that hung up, or servers that were killed.
            store.delete_abandoned_blobs(tx, now - ABANDONED_MILLIS)
            store.begin_blob(tx, document_id, id, now)
            return id

        id = await self._database.write(work)

        async def finish(upload: Upload, filename: str, media_type: str, chat_id: str | None) -> Uploaded:
            return await self._finish(principal, upload, filename, media_type, chat_id)

        return Upload(self._database, self._clock, document_id, id, self.max_bytes, finish)

    async def get(self, principal: Principal, workspace_id: str, document_id: str) -> Document:
        """One document and how far it is."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Document:
            return self._settled(tx, self._found(tx, principal, workspace_id, document_id))

        return await self._database.read(work)

    async def page(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        chat_id: str | None = None,
        state: State | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Document]:
        """Documents, the last uploaded first."""
        principal.require_any("read", "inference")
        before = str(decode_cursor(cursor, str)[0]) if cursor else None

        def work(tx: Tx) -> Page[Document]:
            id = self._workspaces.check(tx, principal, workspace_id).id
            rows = store.page(tx, id, chat_id=chat_id, state=state, before=before, limit=limit + 1)
            return page_of([self._settled(tx, row) for row in rows], limit, lambda row: [row.id])

        return await self._database.read(work)

    async def chunks(
        self,
        principal: Principal,
        workspace_id: str,
        document_id: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DocumentChunk]:
        """The passages of a document, in order."""
        principal.require_any("read", "inference")
        start = int(decode_cursor(cursor, int)[0]) + 1 if cursor else 0

        def work(tx: Tx) -> Page[DocumentChunk]:
            found = self._found(tx, principal, workspace_id, document_id)
            rows = store.chunks(tx, found.id, start=start, limit=limit + 1)
            return page_of(rows, limit, lambda row: [row.number])

        return await self._database.read(work)

    async def text(self, principal: Principal, workspace_id: str, document_id: str) -> AsyncIterator[str]:
        """The text that was read out of a document, piece by piece."""
        cursor: str | None = None
        heading = ""
        while True:
            page = await self.chunks(principal, workspace_id, document_id, limit=_CHUNK_PAGE, cursor=cursor)
            for chunk in page.items:
                if chunk.heading and chunk.heading != heading:
                    yield f"{chunk.heading}\n\n"
                heading = chunk.heading
                yield f"{chunk.text}\n\n"
            cursor = page.next_cursor
            if cursor is None:
                return

    async def content(self, principal: Principal, workspace_id: str, document_id: str) -> AsyncIterator[bytes]:
        """The bytes of the file as they were uploaded, part by part."""
        principal.require_any("read", "inference")
        number = 0

        def work(tx: Tx) -> bytes | None:
            self._found(tx, principal, workspace_id, document_id)
            return store.part(tx, document_id, number)

        while (part := await self._database.read(work)) is not None:
            yield part
            number += 1

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        query: str,
        *,
        limit: int = 5,
        chat_id: str | None = None,
        document_ids: frozenset[str] | None = None,
        keep: Callable[[Sequence[Hit]], list[Hit]] = worth_showing,
    ) -> list[DocumentPassage]:
        """The passages that answer a query best, of one chat's documents or of some documents only, if so asked.

        `limit` is a maximum: `keep` leaves out what only fills the list."""
        principal.require_any("read", "inference")
        if not query.strip():
            raise Invalid("There is nothing to look for.", fields=[FieldError("query", "write some words")])

        def scope(tx: Tx) -> tuple[str, frozenset[str] | None]:
            id = self._workspaces.check(tx, principal, workspace_id).id
            ids = document_ids
            if chat_id is not None:
                of_chat = frozenset(store.chat_documents(tx, id, chat_id))
                ids = of_chat if ids is None else ids & of_chat
            return id, ids

        id, ids = await self._database.read(scope)
        if ids is not None and not ids:
            return []
        limit = max(1, min(limit, MAX_RESULTS))
        hits = await self._search.search(Query(id, query, types=frozenset({TYPE}), limit=limit, ids=ids))
        return [
            DocumentPassage(
                document_id=hit.id,
                filename=str(hit.meta.get("filename", "")),
                text=hit.text or hit.snippet,
                score=hit.score,
                chunk=hit.part,
                heading=str(hit.meta.get("heading", "")),
                page=hit.meta.get("page"),
            )
            for hit in keep(hits)
        ]

    async def has_documents(self, principal: Principal, workspace_id: str, chat_id: str) -> bool:
        """Whether anything was uploaded to a chat."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> bool:
            return bool(store.chat_documents(tx, self._workspaces.check(tx, principal, workspace_id).id, chat_id))

        return await self._database.read(work)

    async def delete(self, principal: Principal, workspace_id: str, document_id: str) -> None:
        """Remove a document with its bytes, its passages and what search knows of it; end its reading."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self._found(tx, principal, workspace_id, document_id)
            # Held first, as its reader does: neither then waits for the other in a circle.
            store.hold(tx, found.id)
            with suppress(JobNotFound):
                self._jobs.cancel(tx, found.job_id)
            self._entities.forget(tx, found.workspace_id, TYPE, found.id)
            self._search.remove(tx, found.workspace_id, TYPE, found.id)
            store.delete(tx, found.id)
            self._note(tx, principal, "document.delete", found)

        await self._database.write(work)

    def adopt(self, tx: Tx, principal: Principal, new: Document) -> bool:
        """Keep a document whose bytes are in the store, and read it soon; False when the workspace has these bytes."""
        if not store.insert(tx, new):
            return False
        store.complete_blob(tx, new.id)
        self._read_soon(tx, new)
        self._note(tx, principal, "document.create", new)
        return True

    async def _finish(
        self, principal: Principal, upload: Upload, filename: str, media_type: str, chat_id: str | None
    ) -> Uploaded:
        try:
            name, chat, type = checked_filename(filename), checked_chat(chat_id), media_type_of(media_type)
            kind = recognise(name, type, upload.head)
        except Invalid:
            await upload.abandon()
            raise

        def work(tx: Tx) -> Uploaded:
            self._workspaces.check(tx, principal, upload.workspace_id)
            now = self._clock.now()
            new = Document(
                id=upload.document_id,
                workspace_id=upload.workspace_id,
                filename=name,
                title=name,
                format=kind.format,
                language=kind.language,
                media_type=type,
                size_bytes=upload.size_bytes,
                sha256=upload.sha256,
                created_by=principal.actor,
                created_by_name=principal.name,
                created_at=now,
                updated_at=now,
            )
            if not self.adopt(tx, principal, new):
                return self._known(tx, upload, chat)
            if chat is not None:
                store.link_chat(tx, new.id, chat)
            return Uploaded(self._found(tx, principal, new.workspace_id, new.id), created=True)

        return await self._database.write(work)

    def _known(self, tx: Tx, upload: Upload, chat_id: str | None) -> Uploaded:
        """The same bytes again: the document that has them, read anew if that failed before."""
        store.abandon_blob(tx, upload.document_id)
        known = store.find_by_hash(tx, upload.workspace_id, upload.sha256)
        if known is None:
            raise DocumentNotFound(upload.document_id)
        if chat_id is not None:
            store.link_chat(tx, known.id, chat_id)
        if self._settled(tx, known).state == "failed":
            self._read_soon(tx, known)
        return Uploaded(store.find(tx, known.workspace_id, known.id) or known, created=False)

    def _read_soon(self, tx: Tx, document: Document) -> None:
        job_id = self._jobs.enqueue(
            tx, KIND, {"document_id": document.id}, workspace_id=document.workspace_id, key=document.id
        )
        store.queue(tx, document.id, job_id, self._clock.now())

    def _found(self, tx: Tx, principal: Principal, workspace_id: str, document_id: str) -> Document:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = store.find(tx, workspace.id, document_id)
        if found is None:
            raise DocumentNotFound(document_id)
        return found

    def _settled(self, tx: Tx, document: Document) -> Document:
        """The document as it is: one whose job ended without a word, because its process died each time, has failed."""
        if document.finished:
            return document
        try:
            job = self._jobs.find(tx, document.job_id)
        except JobNotFound:
            reason: str | None = "Reading it was never finished; upload it again."
        else:
            reason = (job.error or "Reading it was ended.") if job.finished and job.state != "succeeded" else None
        if reason is None:
            return document
        return replace(document, state="failed", reason_code="internal", reason=reason)

    def _note(self, tx: Tx, principal: Principal, action: str, document: Document) -> None:
        detail = {"filename": document.filename, "size_bytes": document.size_bytes}
        self._audit.record(
            tx,
            principal,
            action,
            resource="document",
            resource_id=document.id,
            workspace_id=document.workspace_id,
            detail=detail,
        )
        payload = {"document_id": document.id, "filename": document.filename}
        self._events.publish(tx, action, payload, workspace_id=document.workspace_id)
