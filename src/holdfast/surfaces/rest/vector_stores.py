"""Owns the REST operations of vector stores, in OpenAI's shape: times in seconds, lists with `data` and `has_more`."""

from typing import Literal, Self

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Model, NoQuery
from holdfast.core.operations import Call, Handler, Operation
from holdfast.core.principal import Principal
from holdfast.engines.extract.chunk import MAX_TOKENS
from holdfast.features.documents.filters import Filter
from holdfast.features.documents.vector_store_model import (
    AttributeValue,
    FileStatus,
    Listing,
    VectorStore,
    VectorStoreChange,
    VectorStoreFile,
)
from holdfast.features.documents.vector_stores import FoundPassage, VectorStoreService

_BASE = "/api/workspaces/{workspace_id}/vector_stores"
_ONE = _BASE + "/{vector_store_id}"
_FILES = _ONE + "/files"
_FILE = _FILES + "/{file_id}"
_TAG = "vector stores"


class ListQuery(NoQuery):
    limit: int = Field(default=20, ge=1, le=100, description="How many at most")
    order: Literal["asc", "desc"] = Field(default="desc", description="By creation")
    after: str | None = Field(default=None, max_length=100, description="The last id of the page before")
    before: str | None = Field(default=None, max_length=100, description="The first id of the page after")

    def listing(self) -> Listing:
        return Listing(self.limit, self.order == "desc", self.after, self.before)


class FileListQuery(ListQuery):
    filter: Literal["in_progress", "completed", "failed", "cancelled"] | None = Field(
        default=None, description="Only those of this status"
    )


class ExpiresAfter(Model):
    anchor: Literal["last_active_at"] = "last_active_at"
    days: int = Field(ge=1, le=365)


class StaticStrategy(Model):
    max_chunk_size_tokens: int = Field(ge=100, le=4096)
    chunk_overlap_tokens: int = Field(ge=0)


class ChunkingStrategy(Model):
    type: Literal["auto", "static"]
    static: StaticStrategy | None = None


class VectorStoreBody(Model):
    name: str | None = None
    description: str | None = Field(default=None, description="Accepted for OpenAI's clients; not kept")
    file_ids: list[str] = Field(default=[], max_length=500, description="Ids of documents")
    metadata: dict[str, str] | None = None
    expires_after: ExpiresAfter | None = None
    chunking_strategy: ChunkingStrategy | None = Field(
        default=None, description="Accepted for OpenAI's clients; documents are cut by their structure"
    )


class VectorStoreChangeBody(Model):
    name: str | None = None
    metadata: dict[str, str] | None = None
    expires_after: ExpiresAfter | None = None


class FileBody(Model):
    file_id: str = Field(description="A document's id")
    attributes: dict[str, AttributeValue] | None = None
    chunking_strategy: ChunkingStrategy | None = None


class AttributesBody(Model):
    attributes: dict[str, AttributeValue]


class RankingOptions(Model):
    ranker: str | None = None
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class SearchBody(Model):
    query: str | list[str]
    max_num_results: int = Field(default=10, ge=1, le=50)
    filters: Filter | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool = False


class FileCountsAnswer(Model):
    in_progress: int
    completed: int
    failed: int
    cancelled: int = 0
    total: int


class VectorStoreAnswer(Model):
    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCountsAnswer
    status: Literal["expired", "in_progress", "completed"]
    expires_after: ExpiresAfter | None
    expires_at: int | None
    last_active_at: int
    metadata: dict[str, str]


class LastError(Model):
    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class VectorStoreFileAnswer(Model):
    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    vector_store_id: str
    usage_bytes: int
    status: FileStatus
    last_error: LastError | None
    chunking_strategy: ChunkingStrategy
    attributes: dict[str, AttributeValue]


class VectorStoreList(Model):
    object: Literal["list"] = "list"
    data: list[VectorStoreAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VectorStoreFileList(Model):
    object: Literal["list"] = "list"
    data: list[VectorStoreFileAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedStore(Model):
    id: str
    object: Literal["vector_store.deleted"] = "vector_store.deleted"
    deleted: Literal[True] = True


class DeletedFile(Model):
    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: Literal[True] = True


class FoundContent(Model):
    type: Literal["text"] = "text"
    text: str


class FoundFile(Model):
    file_id: str
    filename: str
    score: float
    attributes: dict[str, AttributeValue]
    content: list[FoundContent]

    @classmethod
    def of(cls, found: FoundPassage) -> Self:
        passage = found.passage
        return cls(
            file_id=passage.document_id,
            filename=passage.filename,
            score=passage.score,
            attributes=dict(found.attributes),
            content=[FoundContent(text=passage.text)],
        )


class SearchAnswer(Model):
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[FoundFile]
    has_more: bool = False
    next_page: str | None = None


def vector_store_answer(store: VectorStore, now: int) -> VectorStoreAnswer:
    """A store as OpenAI's clients read it."""
    days = store.expires_after_days
    counts = store.counts
    return VectorStoreAnswer(
        id=store.id,
        created_at=store.created_at // 1000,
        name=store.name,
        usage_bytes=store.usage_bytes,
        file_counts=FileCountsAnswer(
            in_progress=counts.in_progress, completed=counts.completed, failed=counts.failed, total=counts.total
        ),
        status=store.status(now),
        expires_after=None if days is None else ExpiresAfter(days=days),
        expires_at=None if store.expires_at is None else store.expires_at // 1000,
        last_active_at=store.last_active_at // 1000,
        metadata=dict(store.metadata),
    )


def _file_answer(file: VectorStoreFile) -> VectorStoreFileAnswer:
    error = None
    if file.status == "failed":
        code: Literal["server_error", "invalid_file"] = (
            "server_error" if file.reason_code == "internal" else "invalid_file"
        )
        error = LastError(code=code, message=file.reason or "")
    return VectorStoreFileAnswer(
        id=file.document_id,
        created_at=file.created_at // 1000,
        vector_store_id=file.vector_store_id,
        usage_bytes=file.usage_bytes,
        status=file.status,
        last_error=error,
        chunking_strategy=ChunkingStrategy(
            type="static", static=StaticStrategy(max_chunk_size_tokens=MAX_TOKENS, chunk_overlap_tokens=0)
        ),
        attributes=dict(file.attributes),
    )


def operations(service: VectorStoreService) -> list[Operation]:
    """Every operation of vector stores."""

    async def create(call: Call) -> VectorStoreAnswer:
        given: VectorStoreBody = call.body
        made = await service.create(
            call.principal,
            call.path["workspace_id"],
            name=given.name,
            file_ids=given.file_ids,
            metadata=given.metadata,
            expires_after_days=given.expires_after.days if given.expires_after else None,
        )
        return vector_store_answer(made, service.now())

    async def list_stores(call: Call) -> VectorStoreList:
        asked: ListQuery = call.query
        found, more = await service.list(call.principal, call.path["workspace_id"], asked.listing())
        data = [vector_store_answer(each, service.now()) for each in found]
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return VectorStoreList(data=data, first_id=first, last_id=last, has_more=more)

    async def get(call: Call) -> VectorStoreAnswer:
        return vector_store_answer(await service.get(*_at(call)), service.now())

    async def modify(call: Call) -> VectorStoreAnswer:
        given: VectorStoreChangeBody = call.body
        change = VectorStoreChange(
            name=given.name,
            metadata=given.metadata,
            expires_after_days=given.expires_after.days if given.expires_after else None,
            never_expires="expires_after" in given.model_fields_set and given.expires_after is None,
        )
        return vector_store_answer(await service.modify(*_at(call), change), service.now())

    async def delete(call: Call) -> DeletedStore:
        await service.delete(*_at(call))
        return DeletedStore(id=call.path["vector_store_id"])

    async def search(call: Call) -> SearchAnswer:
        given: SearchBody = call.body
        words = [given.query] if isinstance(given.query, str) else given.query
        ranking = given.ranking_options or RankingOptions()
        principal, workspace_id, vector_store_id = _at(call)
        found = await service.search(
            principal,
            workspace_id,
            [vector_store_id],
            " ".join(words),
            limit=given.max_num_results,
            filter=given.filters,
            score_threshold=ranking.score_threshold,
        )
        return SearchAnswer(search_query=words, data=[FoundFile.of(each) for each in found])

    async def add_file(call: Call) -> VectorStoreFileAnswer:
        given: FileBody = call.body
        return _file_answer(await service.add_file(*_at(call), given.file_id, given.attributes))

    async def list_files(call: Call) -> VectorStoreFileList:
        asked: FileListQuery = call.query
        if asked.filter == "cancelled":
            return VectorStoreFileList(data=[], first_id=None, last_id=None, has_more=False)
        found, more = await service.files(*_at(call), asked.listing(), asked.filter)
        data = [_file_answer(each) for each in found]
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return VectorStoreFileList(data=data, first_id=first, last_id=last, has_more=more)

    async def get_file(call: Call) -> VectorStoreFileAnswer:
        return _file_answer(await service.file(*_at(call), call.path["file_id"]))

    async def change_file(call: Call) -> VectorStoreFileAnswer:
        given: AttributesBody = call.body
        return _file_answer(await service.set_attributes(*_at(call), call.path["file_id"], given.attributes))

    async def remove_file(call: Call) -> DeletedFile:
        await service.remove_file(*_at(call), call.path["file_id"])
        return DeletedFile(id=call.path["file_id"])

    return [
        _write("POST", _BASE, create, "Create a vector store", VectorStoreBody, VectorStoreAnswer),
        _read(_BASE, list_stores, "List vector stores", VectorStoreList, ListQuery),
        _read(_ONE, get, "Get a vector store with its counts", VectorStoreAnswer),
        _write("POST", _ONE, modify, "Change a vector store", VectorStoreChangeBody, VectorStoreAnswer),
        _write("DELETE", _ONE, delete, "Delete a vector store; its documents stay", None, DeletedStore),
        Operation(
            method="POST",
            path=_ONE + "/search",
            handler=search,
            summary="Search the files of a vector store",
            tag=_TAG,
            access=READ,
            body=SearchBody,
            answer=SearchAnswer,
        ),
        _write("POST", _FILES, add_file, "Add a document to a vector store", FileBody, VectorStoreFileAnswer),
        _read(_FILES, list_files, "List the files of a vector store", VectorStoreFileList, FileListQuery),
        _read(_FILE, get_file, "Get a file of a vector store", VectorStoreFileAnswer),
        _write("POST", _FILE, change_file, "Change a file's attributes", AttributesBody, VectorStoreFileAnswer),
        _write("DELETE", _FILE, remove_file, "Remove a file; the document stays", None, DeletedFile),
    ]


def _read(path: str, handler: Handler, summary: str, answer: type[Model], query: type[NoQuery] = NoQuery) -> Operation:
    return Operation(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        tag=_TAG,
        access=READ,
        query=query,
        answer=answer,
    )


def _write(
    method: str, path: str, handler: Handler, summary: str, body: type[Model] | None, answer: type[Model]
) -> Operation:
    return Operation(
        method=method,
        path=path,
        handler=handler,
        summary=summary,
        tag=_TAG,
        access=WRITE,
        body=body,
        answer=answer,
    )


def _at(call: Call) -> tuple[Principal, str, str]:
    return call.principal, call.path["workspace_id"], call.path["vector_store_id"]
