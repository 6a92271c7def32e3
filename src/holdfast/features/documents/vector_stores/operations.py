"""Owns the operations of vector stores, in OpenAI's shape: times in seconds, lists with `data` and `has_more`."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Answer, Model
from holdfast.core.operations import Operations
from holdfast.core.principal import Principal
from holdfast.engines.extract.chunk import MAX_TOKENS
from holdfast.features.documents.filters import Filter
from holdfast.features.documents.vector_stores.model import (
    AttributeValue,
    FileStatus,
    ListPart,
    VectorStore,
    VectorStoreChange,
    VectorStoreFile,
)
from holdfast.features.documents.vector_stores.service import StorePassage, VectorStoreService

_BASE = "/api/workspaces/{workspace_id}/vector_stores"
_ONE = _BASE + "/{vector_store_id}"
_FILES = _ONE + "/files"
_FILE = _FILES + "/{file_id}"

Seconds = Annotated[int, BeforeValidator(lambda millis: millis // 1000)]

api = Operations("vector stores")


class VectorStoreQuery(Model):
    limit: int = Field(default=20, ge=1, le=100, description="How many at most")
    order: Literal["asc", "desc"] = Field(default="desc", description="By creation")
    after: str | None = Field(default=None, max_length=100, description="The last id of the page before")
    before: str | None = Field(default=None, max_length=100, description="The first id of the page after")

    def listing(self) -> ListPart:
        return ListPart(self.limit, self.order == "desc", self.after, self.before)


class VectorStoreFileQuery(VectorStoreQuery):
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


class VectorStoreFileBody(Model):
    file_id: str = Field(description="A document's id")
    attributes: dict[str, AttributeValue] | None = None
    chunking_strategy: ChunkingStrategy | None = None


class VectorStoreFileChangeBody(Model):
    attributes: dict[str, AttributeValue]


class RankingOptions(Model):
    ranker: str | None = None
    score_threshold: float | None = Field(
        default=None, ge=0, le=1, description="Holds alone; without it, rows far behind the best are left out"
    )


class VectorStoreSearchBody(Model):
    query: str | list[str]
    max_num_results: int = Field(default=10, ge=1, le=50)
    filters: Filter | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool = False


class FileCountsAnswer(Answer):
    in_progress: int
    completed: int
    failed: int
    cancelled: int = 0
    total: int


class VectorStoreAnswer(Answer):
    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: Seconds
    name: str
    usage_bytes: int
    file_counts: FileCountsAnswer = Field(validation_alias="counts")
    status: Literal["expired", "in_progress", "completed"]
    expires_after: ExpiresAfter | None
    expires_at: Seconds | None
    last_active_at: Seconds
    metadata: dict[str, str]


class LastErrorAnswer(Answer):
    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class VectorStoreFileAnswer(Answer):
    id: str = Field(validation_alias="document_id")
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: Seconds
    vector_store_id: str
    usage_bytes: int
    status: FileStatus
    last_error: LastErrorAnswer | None
    chunking_strategy: ChunkingStrategy
    attributes: dict[str, AttributeValue]


class _ListAnswer(Answer):
    object: Literal["list"] = "list"
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def listed(cls, data: Sequence[VectorStoreAnswer] | Sequence[VectorStoreFileAnswer], has_more: bool) -> Self:
        """A list as OpenAI's clients page through it."""
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return cls.model_validate({"data": data, "first_id": first, "last_id": last, "has_more": has_more})


class VectorStoreListAnswer(_ListAnswer):
    data: list[VectorStoreAnswer]


class VectorStoreFileListAnswer(_ListAnswer):
    data: list[VectorStoreFileAnswer]


class DeletedStoreAnswer(Answer):
    id: str
    object: Literal["vector_store.deleted"] = "vector_store.deleted"
    deleted: Literal[True] = True


class DeletedFileAnswer(Answer):
    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: Literal[True] = True


class FoundContentAnswer(Answer):
    type: Literal["text"] = "text"
    text: str


class FoundFileAnswer(Answer):
    file_id: str = Field(validation_alias="document_id")
    filename: str
    score: float
    attributes: dict[str, AttributeValue]
    content: list[FoundContentAnswer]


class VectorStoreSearchAnswer(Answer):
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[FoundFileAnswer]
    has_more: bool = False
    next_page: str | None = None


def _store(store: VectorStore, now: int) -> VectorStoreAnswer:
    days = store.expires_after_days
    expires_after = None if days is None else ExpiresAfter(days=days)
    return VectorStoreAnswer.of(store, status=store.status(now), expires_after=expires_after)


def file_answer(file: VectorStoreFile) -> VectorStoreFileAnswer:
    """A file as OpenAI's clients read it."""
    error = None
    if file.status == "failed":
        code: Literal["server_error", "invalid_file"] = (
            "server_error" if file.reason_code == "internal" else "invalid_file"
        )
        error = LastErrorAnswer(code=code, message=file.reason or "")
    static = StaticStrategy(max_chunk_size_tokens=MAX_TOKENS, chunk_overlap_tokens=0)
    return VectorStoreFileAnswer.of(
        file, last_error=error, chunking_strategy=ChunkingStrategy(type="static", static=static)
    )


def _found(found: StorePassage) -> FoundFileAnswer:
    content = [FoundContentAnswer(text=found.passage.text)]
    return FoundFileAnswer.of(found.passage, attributes=found.attributes, content=content)


@api.post(_BASE, WRITE, "Create a vector store")
async def create(
    stores: VectorStoreService, principal: Principal, workspace_id: str, body: VectorStoreBody
) -> VectorStoreAnswer:
    made = await stores.create(
        principal,
        workspace_id,
        name=body.name,
        file_ids=body.file_ids,
        metadata=body.metadata,
        expires_after_days=body.expires_after.days if body.expires_after else None,
    )
    return _store(made, stores.now())


@api.get(_BASE, READ, "List vector stores")
async def page(
    stores: VectorStoreService, principal: Principal, workspace_id: str, query: VectorStoreQuery
) -> VectorStoreListAnswer:
    found, more = await stores.list(principal, workspace_id, query.listing())
    return VectorStoreListAnswer.listed([_store(each, stores.now()) for each in found], more)


@api.get(_ONE, READ, "Get a vector store with its counts")
async def get(
    stores: VectorStoreService, principal: Principal, workspace_id: str, vector_store_id: str
) -> VectorStoreAnswer:
    return _store(await stores.get(principal, workspace_id, vector_store_id), stores.now())


@api.post(_ONE, WRITE, "Change a vector store")
async def modify(
    stores: VectorStoreService,
    principal: Principal,
    workspace_id: str,
    vector_store_id: str,
    body: VectorStoreChangeBody,
) -> VectorStoreAnswer:
    change = body.into(
        VectorStoreChange,
        expires_after_days=body.expires_after.days if body.expires_after else None,
        never_expires="expires_after" in body.model_fields_set and body.expires_after is None,
    )
    return _store(await stores.modify(principal, workspace_id, vector_store_id, change), stores.now())


@api.delete(_ONE, WRITE, "Delete a vector store; its documents stay")
async def delete(
    stores: VectorStoreService, principal: Principal, workspace_id: str, vector_store_id: str
) -> DeletedStoreAnswer:
    await stores.delete(principal, workspace_id, vector_store_id)
    return DeletedStoreAnswer(id=vector_store_id)


@api.post(_ONE + "/search", READ, "Search the files of a vector store")
async def search(
    stores: VectorStoreService,
    principal: Principal,
    workspace_id: str,
    vector_store_id: str,
    body: VectorStoreSearchBody,
) -> VectorStoreSearchAnswer:
    words = [body.query] if isinstance(body.query, str) else body.query
    ranking = body.ranking_options or RankingOptions()
    found = await stores.search(
        principal,
        workspace_id,
        [vector_store_id],
        " ".join(words),
        limit=body.max_num_results,
        filter=body.filters,
        score_threshold=ranking.score_threshold,
    )
    return VectorStoreSearchAnswer(search_query=words, data=[_found(each) for each in found])


@api.post(_FILES, WRITE, "Add a document to a vector store")
async def add_file(
    stores: VectorStoreService, principal: Principal, workspace_id: str, vector_store_id: str, body: VectorStoreFileBody
) -> VectorStoreFileAnswer:
    return file_answer(await stores.add_file(principal, workspace_id, vector_store_id, body.file_id, body.attributes))


@api.get(_FILES, READ, "List the files of a vector store")
async def files(
    stores: VectorStoreService,
    principal: Principal,
    workspace_id: str,
    vector_store_id: str,
    query: VectorStoreFileQuery,
) -> VectorStoreFileListAnswer:
    if query.filter == "cancelled":
        return VectorStoreFileListAnswer.listed([], has_more=False)
    found, more = await stores.files(principal, workspace_id, vector_store_id, query.listing(), query.filter)
    return VectorStoreFileListAnswer.listed([file_answer(each) for each in found], more)


@api.get(_FILE, READ, "Get a file of a vector store")
async def get_file(
    stores: VectorStoreService, principal: Principal, workspace_id: str, vector_store_id: str, file_id: str
) -> VectorStoreFileAnswer:
    return file_answer(await stores.file(principal, workspace_id, vector_store_id, file_id))


@api.post(_FILE, WRITE, "Change a file's attributes")
async def change_file(
    stores: VectorStoreService,
    principal: Principal,
    workspace_id: str,
    vector_store_id: str,
    file_id: str,
    body: VectorStoreFileChangeBody,
) -> VectorStoreFileAnswer:
    return file_answer(await stores.set_attributes(principal, workspace_id, vector_store_id, file_id, body.attributes))


@api.delete(_FILE, WRITE, "Remove a file; the document stays")
async def remove_file(
    stores: VectorStoreService, principal: Principal, workspace_id: str, vector_store_id: str, file_id: str
) -> DeletedFileAnswer:
    await stores.remove_file(principal, workspace_id, vector_store_id, file_id)
    return DeletedFileAnswer(id=file_id)
