"""Owns the operations of file batches, in OpenAI's shape."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.model import Answer, Model
from holdfast.core.operations import Operations
from holdfast.core.principal import Principal
from holdfast.features.documents.vector_stores.batches import BatchFile, FileBatch, FileBatches
from holdfast.features.documents.vector_stores.model import AttributeValue
from holdfast.features.documents.vector_stores.operations import (
    ChunkingStrategy,
    FileCountsAnswer,
    Seconds,
    VectorStoreFileBody,
    VectorStoreFileListAnswer,
    VectorStoreFileQuery,
    file_answer,
)

_BASE = "/api/workspaces/{workspace_id}/vector_stores/{vector_store_id}/file_batches"
_ONE = _BASE + "/{batch_id}"

api = Operations("vector stores")


class FileBatchBody(Model):
    file_ids: list[str] | None = Field(default=None, description="Ids of documents; they share the attributes")
    files: list[VectorStoreFileBody] | None = Field(default=None, description="Documents with attributes of their own")
    attributes: dict[str, AttributeValue] | None = None
    chunking_strategy: ChunkingStrategy | None = Field(
        default=None, description="Accepted for OpenAI's clients; documents are cut by their structure"
    )


class FileBatchAnswer(Answer):
    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: Seconds
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled"]
    file_counts: FileCountsAnswer = Field(validation_alias="counts")


def _named(body: FileBatchBody) -> tuple[list[BatchFile], str]:
    """The files, and the field that names them."""
    if (body.file_ids is None) == (body.files is None):
        raise Invalid(
            "The batch can't be made.", fields=[FieldError("file_ids", "name file_ids or files, one of them")]
        )
    if body.files is not None:
        return [BatchFile(file.file_id, file.attributes or {}) for file in body.files], "files"
    return [BatchFile(id, body.attributes or {}) for id in body.file_ids or ()], "file_ids"


def _batch(batch: FileBatch) -> FileBatchAnswer:
    return FileBatchAnswer.of(batch)


@api.post(_BASE, WRITE, "Add several documents to a vector store")
async def create(
    batches: FileBatches, principal: Principal, workspace_id: str, vector_store_id: str, body: FileBatchBody
) -> FileBatchAnswer:
    files, field = _named(body)
    return _batch(await batches.create(principal, workspace_id, vector_store_id, files, field))


@api.get(_ONE, READ, "Get a batch and how far its files are")
async def get(
    batches: FileBatches, principal: Principal, workspace_id: str, vector_store_id: str, batch_id: str
) -> FileBatchAnswer:
    return _batch(await batches.get(principal, workspace_id, vector_store_id, batch_id))


@api.post(_ONE + "/cancel", WRITE, "Take the files of a batch that are not read yet out again")
async def cancel(
    batches: FileBatches, principal: Principal, workspace_id: str, vector_store_id: str, batch_id: str
) -> FileBatchAnswer:
    return _batch(await batches.cancel(principal, workspace_id, vector_store_id, batch_id))


@api.get(_ONE + "/files", READ, "List the files of a batch")
async def files(
    batches: FileBatches,
    principal: Principal,
    workspace_id: str,
    vector_store_id: str,
    batch_id: str,
    query: VectorStoreFileQuery,
) -> VectorStoreFileListAnswer:
    if query.filter == "cancelled":
        return VectorStoreFileListAnswer.listed([], has_more=False)
    found, more = await batches.files(principal, workspace_id, vector_store_id, batch_id, query.listing(), query.filter)
    return VectorStoreFileListAnswer.listed([file_answer(each) for each in found], more)
