"""Owns the REST operations of relations and of the knowledge graph."""

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.intelligence.graph.drawing import MAX_DEPTH, MAX_NODES, mermaid
from holdfast.features.intelligence.graph.vocabulary import inverse
from holdfast.features.intelligence.model import GraphQuery, NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService

_RELATIONS = "/api/workspaces/{workspace_id}/relations"
_GRAPH = "/api/workspaces/{workspace_id}/graph"

_Inverse = Annotated[str, BeforeValidator(inverse)]

api = Operations("graph")


class EntityBody(Answer):
    type: str = Field(description="memory, document, artifact, decision or milestone")
    id: str = Field(max_length=200)


class RelationBody(Model):
    start: EntityBody = Field(alias="from")
    end: EntityBody = Field(alias="to")
    relation: str = Field(description="snake_case: depends_on, blocks, implements, or a word of your own")
    note: str = ""


class RelationQuery(PageQuery):
    entity_id: str | None = Field(
        default=None, max_length=200, description="Only relations with this id or slug at either end"
    )
    relation: str | None = Field(default=None, max_length=100, description="Only relations of this name")


class GraphShapeQuery(Model):
    centre: str | None = Field(default=None, max_length=200, description="Id or slug of the entity to start from")
    depth: int = Field(default=2, ge=1, le=MAX_DEPTH, description="Relations away from the centre")
    types: str | None = Field(default=None, max_length=500, description="Only these types, separated by commas")
    limit: int = Field(default=100, ge=1, le=MAX_NODES, description="How many nodes at most")

    def wanted(self) -> GraphQuery:
        """What the service is asked for."""
        types = (
            None if self.types is None else frozenset(word.strip() for word in self.types.split(",") if word.strip())
        )
        return self.into(GraphQuery, types=types)


class RelationAnswer(Answer):
    id: str
    start: EntityBody = Field(serialization_alias="from")
    end: EntityBody = Field(serialization_alias="to")
    relation: str
    inverse: _Inverse = Field(validation_alias="relation")
    note: str
    author: str
    created_at: Time


class NodeAnswer(Answer):
    id: str
    type: str
    title: str
    status: str | None
    at: Time | None
    distance: int | None


class EdgeAnswer(Answer):
    id: str
    start: str = Field(validation_alias=AliasPath("start", "id"), serialization_alias="from")
    end: str = Field(validation_alias=AliasPath("end", "id"), serialization_alias="to")
    relation: str
    inverse: _Inverse = Field(validation_alias="relation")
    note: str


class GraphAnswer(Answer):
    nodes: list[NodeAnswer]
    edges: list[EdgeAnswer]
    truncated: bool


@api.get(_RELATIONS, READ_INTEL, "List relations, newest first")
async def page(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: RelationQuery
) -> Page[RelationAnswer]:
    found = await intelligence.relations.page(
        principal,
        workspace_id,
        entity=query.entity_id,
        relation=query.relation,
        limit=query.limit,
        cursor=query.cursor,
    )
    return found.map(RelationAnswer.of)


@api.post(_RELATIONS, WRITE_INTEL, "Relate two entities", status=201)
async def relate(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, body: RelationBody
) -> RelationAnswer:
    new = body.into(NewRelation, start=body.start.into(Ref), end=body.end.into(Ref))
    return RelationAnswer.of(await intelligence.relations.relate(principal, workspace_id, new))


@api.delete(_RELATIONS + "/{relation_id}", WRITE_INTEL, "Take a relation away")
async def unrelate(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, relation_id: str
) -> None:
    await intelligence.relations.unrelate(principal, workspace_id, relation_id)


@api.get(_GRAPH, READ_INTEL, "The knowledge graph, around a centre or the newest of it")
async def read(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: GraphShapeQuery
) -> GraphAnswer:
    return GraphAnswer.of(await intelligence.graph(principal, workspace_id, query.wanted()))


@api.get(_GRAPH + "/mermaid", READ_INTEL, "The knowledge graph as a Mermaid flowchart", produces="text/plain")
async def draw(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: GraphShapeQuery
) -> Download:
    found = await intelligence.graph(principal, workspace_id, query.wanted())
    return Download(mermaid(found).encode(), "text/plain")
