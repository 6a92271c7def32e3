"""Owns the job that reads a document: bytes → passages in a child process → rows → index. Any step may be the last
before a kill; the next attempt goes on after the last one that was committed."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.engines.events import EventBus
from holdfast.engines.extract.engine import ExtractEngine
from holdfast.engines.extract.formats import FileKind
from holdfast.engines.extract.model import ExtractionFailed, Summary
from holdfast.engines.jobs import JobFailed, JobRun
from holdfast.engines.search import Entry, SearchEngine
from holdfast.features.documents import store
from holdfast.features.documents.model import Document, DocumentChunk, State
from holdfast.storage.database import Database, StorageFailed, Tx

KIND = "document.ingest"
TYPE = "document"
"""What search calls these entries."""
AT_ONCE = 3
"""How many files a process reads at once; one workspace alone gets all but one."""
READ_BATCH = 100
INDEX_BATCH = 40
_SPOOL = "holdfast-read-"
_ABANDONED_SECONDS = 86_400


class DocumentGone(Exception):
    """Deleted while it was being read; there is nothing left to do."""


class Ingestion:
    """Runs `document.ingest` jobs."""

    def __init__(
        self,
        database: Database,
        search: SearchEngine,
        events: EventBus,
        extract: ExtractEngine,
        clock: Clock,
    ) -> None:
        self._database = database
        self._search = search
        self._events = events
        self._extract = extract
        self._clock = clock

    async def run(self, run: JobRun) -> object:
        """Read and index one document; its state when that is over."""
        document_id = str(run.payload["document_id"])
        try:
            return await self._ingest(run, document_id)
        except DocumentGone:
            return "deleted"
        except ExtractionFailed as problem:
            code, reason = problem.code, problem.message
            await run.commit("failed", lambda tx: self._fail(tx, document_id, code, reason))
            # The file stays as it is, so that reading it again would end the same way.
            raise JobFailed(reason) from None
        except Exception as problem:
            if run.job.attempts < run.job.max_attempts or isinstance(problem, StorageFailed):
                raise
            reason = problem.message if isinstance(problem, HoldfastError) else "Something went wrong inside."
            await run.commit("failed", lambda tx: self._fail(tx, document_id, "internal", reason))
            raise

    async def _ingest(self, run: JobRun, document_id: str) -> str:
        await run.commit("begin", lambda tx: self._begin(tx, document_id))
        document = await self._database.read(lambda tx: _found(store.find(tx, run.workspace_id, document_id)))
        total = await run.step("extract", lambda: self._read(run, document))
        for start in range(0, total, INDEX_BATCH):
            done = min(start + INDEX_BATCH, total)
            await run.commit(f"index {start}", partial(self._index, document_id=document_id, start=start, total=total))
            await run.progress(done, total, "Indexing")
        await run.commit("ready", lambda tx: self._ready(tx, document_id, total))
        return "ready"

    def _begin(self, tx: Tx, document_id: str) -> None:
        """Start from nothing, whatever an earlier job left."""
        document = _found(store.hold(tx, document_id))
        store.delete_chunks(tx, document_id)
        self._search.remove(tx, document.workspace_id, TYPE, document_id)
        self._advance(tx, document, "extracting", 0, None)

    async def _read(self, run: JobRun, document: Document) -> int:
        """Keep the passages of the file; how many there are."""
        await run.progress(0, None, "Reading the file")
        batch: list[DocumentChunk] = []
        count = 0
        async with self._spooled(document) as path:
            kind = FileKind(document.format, document.language)  # type: ignore[arg-type]
            async with aclosing(self._extract.extract(path, kind)) as values:
                async for value in values:
                    if isinstance(value, Summary):
                        await self._keep(run, document, batch)
                        await run.commit("extracted", lambda tx: self._extracted(tx, document, value))  # noqa: B023
                        break
                    batch.append(DocumentChunk(count, value.heading, value.page, value.text))
                    count += 1
                    if len(batch) == READ_BATCH:
                        await self._keep(run, document, batch)
                        batch = []
        return count

    async def _keep(self, run: JobRun, document: Document, batch: list[DocumentChunk]) -> None:
        if batch:
            await run.commit(f"read {batch[0].number}", lambda tx: self._keep_batch(tx, document, batch))
            await run.progress(batch[-1].number + 1, None, "Reading the file")

    def _keep_batch(self, tx: Tx, document: Document, batch: list[DocumentChunk]) -> None:
        _found(store.hold(tx, document.id))
        store.add_chunks(tx, document.id, batch)
        self._advance(tx, document, "extracting", batch[-1].number + 1, None)

    def _extracted(self, tx: Tx, document: Document, summary: Summary) -> None:
        _found(store.hold(tx, document.id))
        store.describe(
            tx,
            document.id,
            title=summary.title or document.filename,
            chunks=summary.chunks,
            characters=summary.characters,
            truncated=summary.truncated,
        )
        self._advance(tx, document, "indexing", 0, summary.chunks)

    def _index(self, tx: Tx, document_id: str, start: int, total: int) -> None:
        document = _found(store.hold(tx, document_id))
        chunks = store.chunks(tx, document_id, start=start, limit=INDEX_BATCH)
        self._search.put(tx, [_entry(document, chunk) for chunk in chunks])
        self._advance(tx, document, "indexing", start + len(chunks), total)

    def _ready(self, tx: Tx, document_id: str, total: int) -> None:
        self._advance(tx, _found(store.hold(tx, document_id)), "ready", total, total)

    def _fail(self, tx: Tx, document_id: str, code: str, reason: str) -> None:
        document = store.hold(tx, document_id)
        if document is not None:
            store.delete_chunks(tx, document_id)
            self._search.remove(tx, document.workspace_id, TYPE, document_id)
            store.fail(tx, document_id, code, reason, self._clock.now())
            self._tell(tx, document, "failed", reason=reason)

    def _advance(self, tx: Tx, document: Document, state: State, done: int, total: int | None) -> None:
        store.advance(tx, document.id, state, done=done, total=total, now=self._clock.now())
        self._tell(tx, document, state, done=done, total=total)

    def _tell(self, tx: Tx, document: Document, state: State, **facts: Any) -> None:
        payload = {"document_id": document.id, "filename": document.filename, "state": state, **facts}
        self._events.publish(tx, f"document.{state}", payload, workspace_id=document.workspace_id)

    @asynccontextmanager
    async def _spooled(self, document: Document) -> AsyncIterator[Path]:
        """The document's bytes as a file that the child process can open."""
        await asyncio.to_thread(_sweep, Path(tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix=_SPOOL) as directory:
            path = Path(directory) / "file"
            with path.open("wb") as file:
                number = 0
                while (part := await self._part(document.id, number)) is not None:
                    await asyncio.to_thread(file.write, part)
                    number += 1
            yield path

    async def _part(self, document_id: str, number: int) -> bytes | None:
        return await self._database.read(lambda tx: store.part(tx, document_id, number))


def _sweep(directory: Path) -> None:
    """Remove the files of readers whose server was killed."""
    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(f"{_SPOOL}*"):
        try:
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left)
        except FileNotFoundError:
            # Another process was quicker.
            continue


def _found(document: Document | None) -> Document:
    if document is None:
        raise DocumentGone
    return document


def _entry(document: Document, chunk: DocumentChunk) -> Entry:
    meta: dict[str, Any] = {"filename": document.filename, "format": document.format}
    if chunk.heading:
        meta["heading"] = chunk.heading
    if chunk.page is not None:
        meta["page"] = chunk.page
    return Entry(
        workspace_id=document.workspace_id,
        type=TYPE,
        id=document.id,
        title=document.title,
        text=f"{chunk.heading}\n\n{chunk.text}" if chunk.heading else chunk.text,
        learned_at=document.created_at,
        part=chunk.number,
        author=document.created_by_name,
        source=document.id,
        position=chunk.number,
        meta=meta,
    )
