"""Owns the REST operations of relations and of the knowledge graph."""

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso, iso_or_none
from holdfast.core.model import Model, NoQuery, PageQuery
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.paging import Page
from holdfast.features.intelligence.graph.drawing import MAX_DEPTH, MAX_NODES, mermaid
from holdfast.features.intelligence.graph.vocabulary import inverse
from holdfast.features.intelligence.model import Graph, GraphQuery, NewRelation, Node, Ref, Relation
from holdfast.features.intelligence.service import IntelligenceService

_RELATIONS = "/api/workspaces/{workspace_id}/relations"
_GRAPH = "/api/workspaces/{workspace_id}/graph"
_TAG = "graph"


class EntityBody(Model):
    type: str = Field(description="memory, document, artifact, decision or milestone")
    id: str = Field(max_length=200)


class RelationBody(Model):
    start: EntityBody = Field(alias="from")
    end: EntityBody = Field(alias="to")
    relation: str = Field(description="snake_case: depends_on, blocks, implements, or a word of your own")
    note: str = ""


class RelationQuery(PageQuery):
    entity_id: str | None = Field(default=None, max_length=200, description="Only relations with this at either end")
    relation: str | None = Field(default=None, max_length=100, description="Only relations of this name")


class GraphShape(NoQuery):
    centre: str | None = Field(default=None, max_length=200, description="Id of the entity to start from")
    depth: int = Field(default=2, ge=1, le=MAX_DEPTH, description="Relations away from the centre")
    types: str | None = Field(default=None, max_length=500, description="Only these types, separated by commas")
    limit: int = Field(default=100, ge=1, le=MAX_NODES, description="How many nodes at most")


class RelationAnswer(Model):
    id: str
    start: EntityBody = Field(alias="from")
    end: EntityBody = Field(alias="to")
    relation: str
    inverse: str
    note: str
    author: str
    created_at: str


class NodeAnswer(Model):
    id: str
    type: str
    title: str
    status: str | None
    at: str | None
    distance: int | None


class EdgeAnswer(Model):
    id: str
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    relation: str
    inverse: str
    note: str


class GraphAnswer(Model):
    nodes: list[NodeAnswer]
    edges: list[EdgeAnswer]
    truncated: bool


def relation_answer(relation: Relation) -> RelationAnswer:
    """A relation as REST shows it."""
    return RelationAnswer.model_validate(
        {
            "id": relation.id,
            "from": {"type": relation.start.type, "id": relation.start.id},
            "to": {"type": relation.end.type, "id": relation.end.id},
            "relation": relation.relation,
            "inverse": inverse(relation.relation),
            "note": relation.note,
            "author": relation.author,
            "created_at": iso(relation.created_at),
        }
    )


def graph_answer(graph: Graph) -> GraphAnswer:
    """A graph as REST shows it."""
    edges = [_edge_answer(tie) for tie in graph.edges]
    return GraphAnswer(nodes=[_node_answer(node) for node in graph.nodes], edges=edges, truncated=graph.truncated)


def operations(service: IntelligenceService) -> list[Operation]:
    """Every operation of relations and the graph."""

    async def relate(call: Call) -> RelationAnswer:
        given: RelationBody = call.body
        new = NewRelation(
            Ref(given.start.type, given.start.id), Ref(given.end.type, given.end.id), given.relation, given.note
        )
        return relation_answer(await service.relations.relate(call.principal, call.path["workspace_id"], new))

    async def page(call: Call) -> Page[RelationAnswer]:
        asked: RelationQuery = call.query
        found = await service.relations.page(
            call.principal,
            call.path["workspace_id"],
            entity=asked.entity_id,
            relation=asked.relation,
            limit=asked.limit,
            cursor=asked.cursor,
        )
        return found.map(relation_answer)

    async def unrelate(call: Call) -> None:
        await service.relations.unrelate(call.principal, call.path["workspace_id"], call.path["relation_id"])

    async def read(call: Call) -> GraphAnswer:
        return graph_answer(await service.graph(call.principal, call.path["workspace_id"], _wanted(call.query)))

    async def draw(call: Call) -> Download:
        found = await service.graph(call.principal, call.path["workspace_id"], _wanted(call.query))
        return Download(mermaid(found).encode(), "text/plain")

    return [
        Operation(
            method="GET",
            path=_RELATIONS,
            handler=page,
            summary="List relations, newest first",
            tag=_TAG,
            access=READ_INTEL,
            query=RelationQuery,
            answer=RelationAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=_RELATIONS,
            handler=relate,
            summary="Relate two entities",
            tag=_TAG,
            access=WRITE_INTEL,
            body=RelationBody,
            answer=RelationAnswer,
            status=201,
        ),
        Operation(
            method="DELETE",
            path=_RELATIONS + "/{relation_id}",
            handler=unrelate,
            summary="Take a relation away",
            tag=_TAG,
            access=WRITE_INTEL,
            status=204,
        ),
        Operation(
            method="GET",
            path=_GRAPH,
            handler=read,
            summary="The knowledge graph, around a centre or the newest of it",
            tag=_TAG,
            access=READ_INTEL,
            query=GraphShape,
            answer=GraphAnswer,
        ),
        Operation(
            method="GET",
            path=_GRAPH + "/mermaid",
            handler=draw,
            summary="The knowledge graph as a Mermaid flowchart",
            tag=_TAG,
            access=READ_INTEL,
            query=GraphShape,
            produces="text/plain",
        ),
    ]


def _wanted(asked: GraphShape) -> GraphQuery:
    types = None if asked.types is None else frozenset(part.strip() for part in asked.types.split(",") if part.strip())
    return GraphQuery(asked.centre, asked.depth, types, asked.limit)


def _node_answer(node: Node) -> NodeAnswer:
    return NodeAnswer(
        id=node.id,
        type=node.type,
        title=node.title,
        status=node.status,
        at=iso_or_none(node.at),
        distance=node.distance,
    )


def _edge_answer(tie: Relation) -> EdgeAnswer:
    return EdgeAnswer.model_validate(
        {
            "id": tie.id,
            "from": tie.start.id,
            "to": tie.end.id,
            "relation": tie.relation,
            "inverse": inverse(tie.relation),
            "note": tie.note,
        }
    )
