"""Owns the tools over the workspace's knowledge: records, edges and queries of the graph, and vectors."""

from typing import Any

from pydantic import Field

from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.agents.x1.base import AckOutput, X1Input, X1Output, X1Turn, x1_tool
from holdfast.features.collections.model import DEFAULT, NewRecord
from holdfast.features.collections.query.running import facts_of
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections

Collection = Field(
    None, max_length=64, description="A named collection; all of them where you ask, `default` where you write"
)
OneCollection = Field(None, max_length=64, description="A named collection; `default` where you name none")
RecordType = Field(min_length=1, max_length=64, description="Such as person")


class NothingInput(X1Input):
    pass


class CollectionsOutput(X1Output):
    collections: list[dict[str, Any]]


class QueryInput(X1Input):
    query: str = Field(
        min_length=1,
        description="find TYPE [where COND] [-> EDGE [TYPE] [where COND]] [order by FIELD [desc]] [limit N]; COND: "
        'name = "x" and (age >= 3 or not tag in ["a"]); @id, @type, @confidence are facts of a record; $x is from vars',
    )
    collection: str | None = Collection
    vars: dict[str, Any] | None = Field(None, description="Values of $names in the query")


class QueryOutput(X1Output):
    records: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    total: int
    truncated: bool


class WriteInput(X1Input):
    record_type: str = RecordType
    data: dict[str, Any] = Field(description="What is known; with the id of a record that is there, what is new of it")
    collection: str | None = OneCollection
    confidence: float | None = Field(None, description="0 to 1")
    source: str | None = Field(None, description="Where you know it from")
    derived_from: list[str] | str | None = Field(None, description="Ids of what it was concluded from")


class WriteOutput(X1Output):
    id: str
    created: bool
    collection: str


class EdgeInput(X1Input):
    from_: str = Field(alias="from", min_length=1, max_length=200, description="An id or slug of anything known here")
    edge: str = Field(min_length=1, max_length=64, description="Such as works_at")
    to: str = Field(min_length=1, max_length=200)
    collection: str | None = OneCollection
    properties: dict[str, Any] | None = None


class EdgeOutput(X1Output):
    start: str = Field(serialization_alias="from")
    edge: str
    to: str
    created: bool
    properties: dict[str, Any]


class ResolveInput(X1Input):
    record_type: str = RecordType
    name: str | None = Field(None, max_length=500)
    email: str | None = Field(None, max_length=500)
    attributes: dict[str, Any] | None = None
    collection: str | None = Collection


class ResolveOutput(X1Output):
    record: dict[str, Any] | None
    confidence: float
    candidates: list[dict[str, Any]]


class DiscoverInput(X1Input):
    collection: str | None = Collection


class DiscoverOutput(X1Output):
    record_types: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class UpsertInput(X1Input):
    id: str = Field(min_length=1, max_length=256)
    vector: list[float] | None = Field(None, description="Or text, which is embedded here")
    text: str | None = None
    collection: str | None = OneCollection
    metadata: dict[str, Any] | None = None


class VectorSearchInput(X1Input):
    vector: list[float] | None = Field(None, description="Or text")
    text: str | None = None
    top_k: int = 10
    filter: dict[str, Any] | None = Field(
        None, description='{"lang": "de"}, or {"type": "gte", "key": "year", "value": 2020}'
    )
    collection: str | None = OneCollection


class VectorSearchOutput(X1Output):
    results: list[dict[str, Any]]


class VectorDeleteInput(X1Input):
    id: str = Field(min_length=1, max_length=256)
    collection: str | None = OneCollection


async def _saved(turn: X1Turn, id: str, type: str, collection: str, title: str) -> None:
    """Tell that something was kept, which is marked with the session."""
    data = {"memory_id": id, "type": type, "collection": collection, "title": title}
    await turn.actions.emit(turn.session, "memory", data)


def knowledge_tools(graph: GraphRecords, vectors: VectorCollections) -> list[AnyTool]:
    """Collections, the graph, vectors."""

    async def list_collections(call: ToolCall, turn: X1Turn, given: NothingInput) -> CollectionsOutput:
        found = await graph.collections(call.principal, call.workspace())
        return CollectionsOutput(
            collections=[
                {
                    "name": each.name,
                    "records": each.records,
                    "edges": each.edges,
                    "vectors": each.vectors,
                    "dimensions": each.dimensions,
                    "holds_text": each.holds_text,
                }
                for each in found
            ]
        )

    async def query(call: ToolCall, turn: X1Turn, given: QueryInput) -> QueryOutput:
        found = await graph.query(
            call.principal, call.workspace(), given.query, collection=given.collection, variables=given.vars
        )
        edges = [
            {"from": edge.start, "edge": edge.edge, "to": edge.end, "properties": dict(edge.properties)}
            for edge in found.edges
        ]
        shown = [facts_of(thing) for thing in found.found]
        return QueryOutput(records=shown, edges=edges, total=found.total, truncated=found.total > len(shown))

    async def write(call: ToolCall, turn: X1Turn, given: WriteInput) -> WriteOutput:
        origins = [given.derived_from] if isinstance(given.derived_from, str) else given.derived_from or []
        new = NewRecord(
            type=given.record_type,
            data=given.data,
            collection=given.collection or DEFAULT,
            confidence=given.confidence,
            source=given.source or "",
            derived_from=origins,
            session_id=turn.session.id,
        )
        made, is_new = await graph.write(call.principal, call.workspace(), new)
        await _saved(turn, made.id, "record", made.collection, made.title)
        return WriteOutput(id=made.id, created=is_new, collection=made.collection)

    async def relate(call: ToolCall, turn: X1Turn, given: EdgeInput) -> EdgeOutput:
        edge = await graph.relate(
            call.principal,
            call.workspace(),
            given.from_,
            given.edge,
            given.to,
            collection=given.collection,
            properties=given.properties,
        )
        return EdgeOutput(
            start=edge.start, edge=edge.edge, to=edge.end, created=edge.is_new, properties=dict(edge.properties)
        )

    async def resolve(call: ToolCall, turn: X1Turn, given: ResolveInput) -> ResolveOutput:
        found = await graph.resolve(
            call.principal,
            call.workspace(),
            given.record_type,
            name=given.name,
            email=given.email,
            attributes=given.attributes,
            collection=given.collection,
        )
        shown = [
            {
                "id": each.record.id,
                "type": each.record.type,
                "data": dict(each.record.data),
                "score": each.score,
                "matched_on": list(each.matched_on),
            }
            for each in found
        ]
        # Two that are equally likely are not one that is meant.
        clear = bool(found) and (len(found) == 1 or found[0].score > found[1].score)
        best = shown[0] if clear else None
        return ResolveOutput(record=best, confidence=found[0].score if clear else 0.0, candidates=shown)

    async def discover(call: ToolCall, turn: X1Turn, given: DiscoverInput) -> DiscoverOutput:
        return DiscoverOutput(**await graph.discover(call.principal, call.workspace(), given.collection))

    async def upsert(call: ToolCall, turn: X1Turn, given: UpsertInput) -> AckOutput:
        await vectors.upsert(
            call.principal,
            call.workspace(),
            given.id,
            vector=given.vector,
            text=given.text,
            metadata=given.metadata,
            collection=given.collection,
            session_id=turn.session.id,
        )
        name = given.collection or DEFAULT
        await _saved(
            turn, given.id, "vector" if given.text is None else "passage", name, (given.text or given.id)[:200]
        )
        return AckOutput()

    async def vector_search(call: ToolCall, turn: X1Turn, given: VectorSearchInput) -> VectorSearchOutput:
        found = await vectors.search(
            call.principal,
            call.workspace(),
            vector=given.vector,
            text=given.text,
            top_k=given.top_k,
            filter=given.filter,
            collection=given.collection,
        )
        return VectorSearchOutput(
            results=[
                {
                    "id": each.id,
                    "score": each.score,
                    "metadata": dict(each.metadata),
                    **({} if each.text is None else {"text": each.text}),
                }
                for each in found
            ]
        )

    async def delete(call: ToolCall, turn: X1Turn, given: VectorDeleteInput) -> AckOutput:
        await vectors.delete(call.principal, call.workspace(), given.id, given.collection)
        return AckOutput()

    return [
        x1_tool(
            "list_collections",
            "The named collections of this workspace and what each holds.",
            NothingInput,
            CollectionsOutput,
            list_collections,
            reads=True,
        ),
        x1_tool(
            "graph_query",
            "Ask the graph. Example: find person where email = $mail -> works_at company limit 5",
            QueryInput,
            QueryOutput,
            query,
            reads=True,
        ),
        x1_tool("graph_write", "Keep a record of the graph.", WriteInput, WriteOutput, write),
        x1_tool(
            "graph_relate",
            "Tie two records, or anything else that is known here, by a named edge.",
            EdgeInput,
            EdgeOutput,
            relate,
            repeats=True,
        ),
        x1_tool(
            "graph_resolve",
            "Find the record that is meant by a name, an e-mail address or attributes, before you write a second one.",
            ResolveInput,
            ResolveOutput,
            resolve,
            reads=True,
        ),
        x1_tool(
            "graph_discover",
            "What kinds of records, fields and edges there are.",
            DiscoverInput,
            DiscoverOutput,
            discover,
            reads=True,
        ),
        x1_tool(
            "vector_upsert",
            "Keep a vector, or a text to be found by its meaning, under an id of yours.",
            UpsertInput,
            AckOutput,
            upsert,
            repeats=True,
        ),
        x1_tool(
            "vector_search",
            "The nearest vectors or texts of a collection.",
            VectorSearchInput,
            VectorSearchOutput,
            vector_search,
            reads=True,
        ),
        x1_tool("vector_delete", "Forget a vector or text by its id.", VectorDeleteInput, AckOutput, delete),
    ]
