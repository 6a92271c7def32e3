"""Owns `holdfast graph`: show, relate, unrelate, relations."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.intelligence.graph.drawing import MAX_DEPTH, MAX_NODES, mermaid
from holdfast.features.intelligence.model import Graph, GraphQuery, NewRelation, Ref
from holdfast.features.intelligence.operations.graph import EntityBody, GraphAnswer, RelationAnswer
from holdfast.features.intelligence.service import IntelligenceService

graph = Commands("graph", help="How decisions, milestones, memories, documents and artifacts relate.")


class Show(InWorkspace):
    """What `show` is given."""

    mermaid: bool = Field(False, description="Print a Mermaid flowchart.")
    centre: Annotated[str | None, Option(also="--center", metavar="ID")] = Field(
        None, description="Start from this entity."
    )
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    types: Annotated[list[str], Option("--type")] = Field(
        [], description="Only entities of this type; may be repeated."
    )
    limit: int = Field(100, ge=1, le=MAX_NODES)


@graph.command("show", help="Show the knowledge graph.")
async def show(session: Session, service: IntelligenceService, given: Show) -> None:
    id = await session.workspace(given.workspace)
    wanted = GraphQuery(given.centre, given.depth, frozenset(given.types) or None, given.limit)
    found = await service.graph(session.principal, id, wanted)
    drawn = mermaid(found)
    record = {**GraphAnswer.of(found).model_dump(by_alias=True), **({"mermaid": drawn} if given.mermaid else {})}
    session.out.record(record, [drawn.rstrip("\n")] if given.mermaid else _lines(found))


class Relate(InWorkspace):
    """What `relate` is given."""

    start: Annotated[str, Argument("FROM_TYPE:ID")]
    relation: Annotated[str, Argument()]
    end: Annotated[str, Argument("TO_TYPE:ID")]
    note: str = ""


@graph.command("relate", help="Relate two entities, such as `milestone:mil_1 implements decision:dec_1`.")
async def relate(session: Session, service: IntelligenceService, given: Relate) -> None:
    id = await session.workspace(given.workspace)
    new = NewRelation(_ref(given.start, "from"), _ref(given.end, "to"), given.relation, given.note)
    kept = await service.relations.relate(session.principal, id, new)
    session.out.record(RelationAnswer.of(kept), [f"Related ({kept.id})."])


class Unrelate(InWorkspace):
    """What `unrelate` is given."""

    relation_id: Annotated[str, Argument("ID")]


@graph.command("unrelate", help="Take a relation away.")
async def unrelate(session: Session, service: IntelligenceService, given: Unrelate) -> None:
    id = await session.workspace(given.workspace)
    await service.relations.unrelate(session.principal, id, given.relation_id)
    session.out.record({"relation_id": given.relation_id, "deleted": True}, [f"Removed {given.relation_id}."])


class Relations(InWorkspace):
    """What `relations` is given."""

    entity: Annotated[str | None, Option(metavar="ID")] = Field(
        None, description="Only relations with this entity at either end."
    )
    limit: int = Field(50, ge=1, le=200)


@graph.command("relations", help="List relations, newest first.")
async def relations(session: Session, service: IntelligenceService, given: Relations) -> None:
    id = await session.workspace(given.workspace)
    page = await service.relations.page(session.principal, id, entity=given.entity, limit=given.limit)
    found = [RelationAnswer.of(each) for each in page.items]
    short = [{**each.model_dump(by_alias=True), "from": _end(each.start), "to": _end(each.end)} for each in found]
    session.out.table(found if session.out.as_json else short, ["id", "from", "relation", "to", "note"])


def _ref(text: str, field: str) -> Ref:
    type, _, id = text.partition(":")
    if not id:
        raise Invalid(f"{text!r} names no entity.", fields=[FieldError(field, "write TYPE:ID, like decision:dec_1")])
    return Ref(type, id)


def _lines(graph: Graph) -> list[str]:
    titles = {node.id: node.title for node in graph.nodes}
    lines = [f"{node.type} {node.id}  {node.title}" for node in graph.nodes]
    lines += [f"{titles[tie.start.id]} — {tie.relation} → {titles[tie.end.id]}" for tie in graph.edges]
    return lines or ["Nothing here yet."]


def _end(entity: EntityBody) -> str:
    return f"{entity.type}:{entity.id}"
