"""Owns the rules of vector stores: documents grouped, searched as one, kept as long as they are used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.features.audit.service import Audit
from holdfast.features.documents import store as document_store
from holdfast.features.documents.filters import Comparison, Compound
from holdfast.features.documents.model import DocumentPassage
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import rows as rows
from holdfast.features.documents.vector_stores.model import (
    AttributeValue,
    FileStatus,
    ListPart,
    VectorStore,
    VectorStoreChange,
    VectorStoreExpired,
    VectorStoreFile,
    VectorStoreFileNotFound,
    VectorStoreNotFound,
    checked_days,
    checked_name,
    checked_pairs,
)
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.precedence import near_the_best
from holdfast.storage.database import Database, Tx

MAX_FILES_AT_ONCE = 500
ACTIVE_MILLIS = 3_600_000
"""Use is written down at most once an hour: expiry counts in days."""


@dataclass(frozen=True, slots=True)
class StorePassage:
    """A passage with the attributes of its file."""

    passage: DocumentPassage
    attributes: Mapping[str, AttributeValue]


class VectorStoreService:
    """Groups documents and searches them."""

    def __init__(
        self, database: Database, audit: Audit, workspaces: Workspaces, documents: DocumentService, clock: Clock
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._documents = documents
        self._clock = clock

    def now(self) -> int:
        """The moment that a store's expiry is measured against."""
        return self._clock.now()

    async def create(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        name: str | None = None,
        file_ids: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        expires_after_days: int | None = None,
    ) -> VectorStore:
        """A new store, with these documents in it."""
        principal.require("inference")
        title, days = checked_name(name), checked_days(expires_after_days)
        pairs = {key: str(value) for key, value in checked_pairs(metadata, "metadata").items()}
        if len(file_ids) > MAX_FILES_AT_ONCE:
            problem = f"give at most {MAX_FILES_AT_ONCE} at once"
            raise Invalid("These are too many files.", fields=[FieldError("file_ids", problem)])

        def work(tx: Tx) -> VectorStore:
            id = self._workspaces.check(tx, principal, workspace_id).id
            now = self._clock.now()
            new = VectorStore(new_id("vs"), id, title, pairs, days, principal.actor, now, now)
            rows.insert(tx, new)
            for number, document_id in enumerate(file_ids):
                self.check_document(tx, id, document_id, f"file_ids[{number}]")
                rows.add_file(tx, new.id, document_id, {}, now)
            self.record(tx, principal, "vector_store.create", new)
            return self.found(tx, principal, workspace_id, new.id)

        return await self._database.write(work)

    async def get(self, principal: Principal, workspace_id: str, vector_store_id: str) -> VectorStore:
        """One store with its counts."""
        principal.require_any("read", "inference")
        return await self._database.read(lambda tx: self.found(tx, principal, workspace_id, vector_store_id))

    async def list(self, principal: Principal, workspace_id: str, listing: ListPart) -> tuple[list[VectorStore], bool]:
        """Stores by creation, and whether there are more."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> list[VectorStore]:
            return rows.page(tx, self._workspaces.check(tx, principal, workspace_id).id, listing)

        found = await self._database.read(work)
        return found[: listing.limit], len(found) > listing.limit

    async def modify(
        self, principal: Principal, workspace_id: str, vector_store_id: str, change: VectorStoreChange
    ) -> VectorStore:
        """Rename it, describe it, or let it live longer or shorter."""
        principal.require("inference")
        name = None if change.name is None else checked_name(change.name)
        days = checked_days(change.expires_after_days)
        pairs = None if change.metadata is None else checked_pairs(change.metadata, "metadata")

        def work(tx: Tx) -> VectorStore:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            kept = None if change.never_expires else found.expires_after_days
            changed = replace(
                found,
                name=found.name if name is None else name,
                metadata=found.metadata if pairs is None else {key: str(value) for key, value in pairs.items()},
                expires_after_days=kept if days is None else days,
                last_active_at=self._clock.now(),
            )
            rows.update(tx, changed)
            self.record(tx, principal, "vector_store.update", changed)
            return changed

        return await self._database.write(work)

    async def delete(self, principal: Principal, workspace_id: str, vector_store_id: str) -> None:
        """Remove the store; its documents stay in the workspace."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            rows.delete(tx, found.id)
            self.record(tx, principal, "vector_store.delete", found)

        await self._database.write(work)

    async def add_file(
        self,
        principal: Principal,
        workspace_id: str,
        vector_store_id: str,
        document_id: str,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> VectorStoreFile:
        """Put a document of the workspace into the store; one that is in it gets these attributes instead."""
        principal.require("inference")
        pairs = checked_pairs(attributes, "attributes")

        def work(tx: Tx) -> VectorStoreFile:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            self.check_document(tx, found.workspace_id, document_id, "file_id")
            now = self._clock.now()
            rows.add_file(tx, found.id, document_id, pairs, now)
            rows.touch(tx, found.id, now)
            self.record(tx, principal, "vector_store.file.add", found, document_id=document_id)
            return _present(rows.find_file(tx, found.id, document_id), document_id)

        return await self._database.write(work)

    async def set_attributes(
        self,
        principal: Principal,
        workspace_id: str,
        vector_store_id: str,
        document_id: str,
        attributes: Mapping[str, AttributeValue],
    ) -> VectorStoreFile:
        """Give a file of the store other attributes."""
        principal.require("inference")
        pairs = checked_pairs(attributes, "attributes")

        def work(tx: Tx) -> VectorStoreFile:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            file = _present(rows.find_file(tx, found.id, document_id), document_id)
            rows.add_file(tx, found.id, document_id, pairs, file.created_at)
            return replace(file, attributes=pairs)

        return await self._database.write(work)

    async def remove_file(
        self, principal: Principal, workspace_id: str, vector_store_id: str, document_id: str
    ) -> None:
        """Take a document out of the store; it stays in the workspace."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            if not rows.remove_file(tx, found.id, document_id):
                raise VectorStoreFileNotFound(document_id)
            self.record(tx, principal, "vector_store.file.remove", found, document_id=document_id)

        await self._database.write(work)

    async def file(
        self, principal: Principal, workspace_id: str, vector_store_id: str, document_id: str
    ) -> VectorStoreFile:
        """One file of the store and how far it has been read."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> VectorStoreFile:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            return _present(rows.find_file(tx, found.id, document_id), document_id)

        return await self._database.read(work)

    async def files(
        self,
        principal: Principal,
        workspace_id: str,
        vector_store_id: str,
        listing: ListPart,
        status: FileStatus | None = None,
    ) -> "tuple[Sequence[VectorStoreFile], bool]":
        """The files of the store, and whether there are more."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Sequence[VectorStoreFile]:
            found = self.found(tx, principal, workspace_id, vector_store_id)
            return rows.files(tx, found.id, listing, status)

        found = await self._database.read(work)
        return found[: listing.limit], len(found) > listing.limit

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        vector_store_ids: Sequence[str],
        query: str,
        *,
        limit: int = 10,
        filter: Comparison | Compound | None = None,
        score_threshold: float | None = None,
    ) -> Sequence[StorePassage]:
        """The passages of these stores that answer best, of files whose attributes the filter allows.

        A threshold that is given holds alone; without one, rows far behind the best are left out."""
        principal.require_any("read", "inference")
        attributes = await self._database.read(lambda tx: self._searched(tx, principal, workspace_id, vector_store_ids))
        allowed = frozenset(id for id, pairs in attributes.items() if filter is None or filter.allows(pairs))
        await self._touch(principal, workspace_id, vector_store_ids)
        keep = near_the_best if score_threshold is None else list
        found = await self._documents.search(
            principal, workspace_id, query, limit=limit, document_ids=allowed, keep=keep
        )
        return [
            StorePassage(passage, attributes[passage.document_id])
            for passage in found
            if passage.score >= (score_threshold or 0.0)
        ]

    def _searched(
        self, tx: Tx, principal: Principal, workspace_id: str, vector_store_ids: Sequence[str]
    ) -> dict[str, Mapping[str, AttributeValue]]:
        merged: dict[str, Mapping[str, AttributeValue]] = {}
        for id in vector_store_ids:
            found = self.found(tx, principal, workspace_id, id)
            if found.status(self._clock.now()) == "expired":
                raise VectorStoreExpired(id)
            merged |= rows.attributes(tx, found.id)
        return merged

    async def _touch(self, principal: Principal, workspace_id: str, vector_store_ids: Sequence[str]) -> None:
        now = self._clock.now()

        def old(tx: Tx) -> Sequence[str]:
            found = [self.found(tx, principal, workspace_id, id) for id in vector_store_ids]
            return [each.id for each in found if now - each.last_active_at > ACTIVE_MILLIS]

        stale = await self._database.read(old)
        if stale:

            def touch(tx: Tx) -> None:
                for id in stale:
                    rows.touch(tx, id, now)

            await self._database.write(touch)

    def found(self, tx: Tx, principal: Principal, workspace_id: str, vector_store_id: str) -> VectorStore:
        """The workspace's store of this id, for whoever works within a transaction."""
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = rows.find(tx, workspace.id, vector_store_id)
        if found is None:
            raise VectorStoreNotFound(vector_store_id)
        return found

    @staticmethod
    def check_document(tx: Tx, workspace_id: str, document_id: str, field: str) -> None:
        """Invalid for a document that the workspace does not have."""
        if document_store.find(tx, workspace_id, document_id) is None:
            problem = f"no document {document_id!r} is here; upload it first"
            raise Invalid("A file is not in this workspace.", fields=[FieldError(field, problem)])

    def record(self, tx: Tx, principal: Principal, action: str, store: VectorStore, **detail: str) -> None:
        """Write down who did what to a store."""
        self._audit.record(
            tx,
            principal,
            action,
            resource="vector_store",
            resource_id=store.id,
            workspace_id=store.workspace_id,
            detail={"name": store.name, **detail},
        )


def _present(file: VectorStoreFile | None, document_id: str) -> VectorStoreFile:
    if file is None:
        raise VectorStoreFileNotFound(document_id)
    return file
