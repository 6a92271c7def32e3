"""Owns the REST operations of collections: what there is, their records, queries of the graph, texts and vectors."""

from typing import Any

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import NotFound
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.collections.model import DEFAULT, NewRecord
from holdfast.features.collections.query.running import facts_of
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections

_BASE = "/api/workspaces/{workspace_id}/collections"
_RECORDS = "/api/workspaces/{workspace_id}/records"

api = Operations("collections")


class RecordQuery(PageQuery):
    collection: str | None = Field(default=None, max_length=64, description="Only those of this collection")
    type: str | None = Field(default=None, max_length=64, description="Only those of this type")


class RecordBody(Model):
    type: str = Field(max_length=64, description="Such as person")
    data: dict[str, Any] = Field(description="With the id of a record that is there, what is new of it")
    collection: str = Field(default=DEFAULT, max_length=64)
    confidence: float | None = Field(default=None, description="0 to 1")
    source: str = Field(default="", description="Where it is known from")


class GraphQueryBody(Model):
    query: str = Field(min_length=1, description='Such as: find person where name = "Ada" -> works_at company limit 5')
    collection: str | None = Field(default=None, max_length=64)
    vars: dict[str, Any] = Field(default_factory=dict[str, Any], description="Values of $names in the query")


class VectorSearchBody(Model):
    vector: list[float] | None = Field(default=None, description="Or text")
    text: str | None = None
    top_k: int = 10
    filter: dict[str, Any] | None = Field(default=None, description="What metadata must say")


class CollectionAnswer(Answer):
    name: str
    records: int
    edges: int
    vectors: int
    dimensions: int | None = Field(description="Of its vectors; none of texts, which we embed")
    holds_text: bool


class RecordAnswer(Answer):
    id: str
    collection: str
    type: str
    title: str
    data: dict[str, Any]
    confidence: float | None
    source: str
    session_id: str | None = Field(description="The session that kept it last")
    author: str
    created_at: Time
    updated_at: Time


class RecordEdgeAnswer(Answer):
    start: str
    edge: str
    end: str
    properties: dict[str, Any]


class FoundRecordsAnswer(Answer):
    records: list[dict[str, Any]]
    edges: list[RecordEdgeAnswer]
    total: int


class FoundVectorAnswer(Answer):
    id: str
    score: float
    metadata: dict[str, Any]
    text: str | None


@api.get(_BASE, READ, "List collections and what each holds")
async def list_collections(graph: GraphRecords, principal: Principal, workspace_id: str) -> Page[CollectionAnswer]:
    return Page([CollectionAnswer.of(each) for each in await graph.collections(principal, workspace_id)])


@api.get(_RECORDS, READ, "List records, the first made first")
async def list_records(
    graph: GraphRecords, principal: Principal, workspace_id: str, query: RecordQuery
) -> Page[RecordAnswer]:
    found = await graph.records(
        principal, workspace_id, type=query.type, collection=query.collection, limit=query.limit, cursor=query.cursor
    )
    return found.map(lambda each: RecordAnswer.of(each, data=dict(each.data)))


@api.post(_RECORDS, WRITE, "Keep a record, or what is new about one", status=201)
async def keep_record(graph: GraphRecords, principal: Principal, workspace_id: str, body: RecordBody) -> RecordAnswer:
    made, _ = await graph.write(principal, workspace_id, body.into(NewRecord))
    return RecordAnswer.of(made, data=dict(made.data))


@api.get(_RECORDS + "/{record_id}", READ, "Read a record")
async def read_record(graph: GraphRecords, principal: Principal, workspace_id: str, record_id: str) -> RecordAnswer:
    found = await graph.get(principal, workspace_id, record_id)
    return RecordAnswer.of(found, data=dict(found.data))


@api.post(_RECORDS + "/search", READ, "Ask the graph of records")
async def query_graph(
    graph: GraphRecords, principal: Principal, workspace_id: str, body: GraphQueryBody
) -> FoundRecordsAnswer:
    found = await graph.query(principal, workspace_id, body.query, collection=body.collection, variables=body.vars)
    edges = [RecordEdgeAnswer.of(each, properties=dict(each.properties)) for each in found.edges]
    return FoundRecordsAnswer(records=[facts_of(each) for each in found.found], edges=edges, total=found.total)


@api.post(_BASE + "/{name}/search", READ, "Find the nearest texts or vectors of a collection")
async def search_vectors(
    vectors: VectorCollections,
    graph: GraphRecords,
    principal: Principal,
    workspace_id: str,
    name: str,
    body: VectorSearchBody,
) -> Page[FoundVectorAnswer]:
    if all(each.name != name for each in await graph.collections(principal, workspace_id)):
        raise NotFound("collection", name[:80])
    found = await vectors.search(
        principal,
        workspace_id,
        vector=body.vector,
        text=body.text,
        top_k=body.top_k,
        filter=body.filter,
        collection=name,
    )
    return Page([FoundVectorAnswer.of(each, metadata=dict(each.metadata)) for each in found])
