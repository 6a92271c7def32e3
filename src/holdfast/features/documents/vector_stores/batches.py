"""Owns batches of files: documents that are put into a vector store together, and how far they have been read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.features.documents.vector_stores import rows
from holdfast.features.documents.vector_stores.model import (
    AttributeValue,
    FileStatus,
    ListPart,
    VectorStore,
    VectorStoreFile,
    checked_pairs,
)
from holdfast.features.documents.vector_stores.service import VectorStoreService
from holdfast.storage.database import Database, Tx

MAX_FILES = 2_000


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A document that is to be put into a store."""

    document_id: str
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """How many files of a batch are how far; those that are no longer in the store were cancelled."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files that were added together."""

    id: str
    vector_store_id: str
    document_ids: Sequence[str]
    is_cancelled: bool
    created_at: int
    counts: BatchCounts = BatchCounts()

    @property
    def status(self) -> Literal["in_progress", "completed", "cancelled"]:
        """Whether all of it can be searched."""
        if self.is_cancelled:
            return "cancelled"
        return "in_progress" if self.counts.in_progress else "completed"


class FileBatchNotFound(NotFound):
    """The store has no such batch."""

    def __init__(self, batch_id: str) -> None:
        super().__init__("file batch in this vector store", batch_id)


class FileBatches:
    """Adds files by the batch."""

    def __init__(self, database: Database, stores: VectorStoreService, clock: Clock) -> None:
        self._database = database
        self._stores = stores
        self._clock = clock

    async def create(
        self, principal: Principal, workspace_id: str, vector_store_id: str, files: Sequence[BatchFile], field: str
    ) -> FileBatch:
        """Put documents of the workspace into the store; `field` is where the request names them."""
        principal.require("inference")
        if not 1 <= len(files) <= MAX_FILES:
            problem = f"name 1 to {MAX_FILES:,} files at once"
            raise Invalid("The batch can't be made.", fields=[FieldError(field, problem)])
        for number, file in enumerate(files):
            checked_pairs(file.attributes, f"{field}[{number}].attributes")

        def work(tx: Tx) -> FileBatch:
            store = self._stores.found(tx, principal, workspace_id, vector_store_id)
            now = self._clock.now()
            ids = list(dict.fromkeys(file.document_id for file in files))
            new = FileBatch(new_id("vsfb"), store.id, ids, False, now)
            for number, file in enumerate(files):
                self._stores.check_document(tx, store.workspace_id, file.document_id, f"{field}[{number}]")
                rows.add_file(tx, store.id, file.document_id, file.attributes, now)
            rows.touch(tx, store.id, now)
            rows.insert_batch(tx, new.id, store.id, ids, now)
            self._stores.record(tx, principal, "vector_store.batch.create", store, batch_id=new.id)
            return self._found(tx, store, new.id)

        return await self._database.write(work)

    async def get(self, principal: Principal, workspace_id: str, vector_store_id: str, batch_id: str) -> FileBatch:
        """One batch and how far its files are."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> FileBatch:
            return self._found(tx, self._stores.found(tx, principal, workspace_id, vector_store_id), batch_id)

        return await self._database.read(work)

    async def cancel(self, principal: Principal, workspace_id: str, vector_store_id: str, batch_id: str) -> FileBatch:
        """Take the files that are still being read out of the store; one that is over stays as it is."""
        principal.require("inference")

        def work(tx: Tx) -> FileBatch:
            store = self._stores.found(tx, principal, workspace_id, vector_store_id)
            found = self._found(tx, store, batch_id)
            if found.status != "in_progress":
                return found
            for id, status in rows.statuses(tx, store.id, found.document_ids).items():
                if status == "in_progress":
                    rows.remove_file(tx, store.id, id)
            rows.cancel_batch(tx, batch_id)
            self._stores.record(tx, principal, "vector_store.batch.cancel", store, batch_id=batch_id)
            return self._found(tx, store, batch_id)

        return await self._database.write(work)

    async def files(
        self,
        principal: Principal,
        workspace_id: str,
        vector_store_id: str,
        batch_id: str,
        listing: ListPart,
        status: FileStatus | None = None,
    ) -> tuple[Sequence[VectorStoreFile], bool]:
        """The batch's files that are in the store, and whether there are more."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Sequence[VectorStoreFile]:
            store = self._stores.found(tx, principal, workspace_id, vector_store_id)
            return rows.files(tx, store.id, listing, status, self._found(tx, store, batch_id).document_ids)

        found = await self._database.read(work)
        return found[: listing.limit], len(found) > listing.limit

    @staticmethod
    def _found(tx: Tx, store: VectorStore, batch_id: str) -> FileBatch:
        row = rows.find_batch(tx, store.id, batch_id)
        if row is None:
            raise FileBatchNotFound(batch_id)
        ids, is_cancelled, created_at = row
        statuses = rows.statuses(tx, store.id, ids)
        counted = {
            name: sum(each == name for each in statuses.values()) for name in ("in_progress", "completed", "failed")
        }
        counts = BatchCounts(**counted, cancelled=len(ids) - len(statuses))
        return FileBatch(batch_id, store.id, ids, is_cancelled, created_at, counts)
