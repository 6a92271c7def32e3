"""Owns `holdfast graph`: show, relate, unrelate, relations."""

from typing import Any

import click

from holdfast.core.clock import iso, iso_or_none
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.intelligence.graph import MAX_DEPTH, MAX_NODES, mermaid
from holdfast.features.intelligence.model import Graph, GraphQuery, NewRelation, Ref, Relation
from holdfast.features.intelligence.vocabulary import inverse
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("graph", help="How decisions, milestones, memories, documents and artifacts relate.")

_limit = click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)


@command(
    group,
    "show",
    workspace_option,
    click.option("--mermaid", "as_mermaid", is_flag=True, help="Print a Mermaid flowchart."),
    click.option("--centre", "--center", metavar="ID", help="Start from this entity."),
    click.option("--depth", type=click.IntRange(1, MAX_DEPTH), default=2, show_default=True),
    click.option("--type", "types", multiple=True, help="Only entities of this type; may be repeated."),
    click.option("--limit", type=click.IntRange(1, MAX_NODES), default=100, show_default=True),
    help="Show the knowledge graph.",
)
async def show(
    session: Session,
    workspace: str | None,
    as_mermaid: bool,
    centre: str | None,
    depth: int,
    types: tuple[str, ...],
    limit: int,
) -> None:
    id = await session.workspace(workspace)
    wanted = GraphQuery(centre, depth, frozenset(types) or None, limit)
    found = await session.services.intelligence.graph(session.principal, id, wanted)
    drawn = mermaid(found)
    record = {**_record(found), **({"mermaid": drawn} if as_mermaid else {})}
    session.out.record(record, [drawn.rstrip("\n")] if as_mermaid else _lines(found))


@command(
    group,
    "relate",
    click.argument("start", metavar="FROM_TYPE:ID"),
    click.argument("relation"),
    click.argument("end", metavar="TO_TYPE:ID"),
    workspace_option,
    click.option("--note", default=""),
    help="Relate two entities, such as `milestone:mil_1 implements decision:dec_1`.",
)
async def relate(session: Session, start: str, relation: str, end: str, workspace: str | None, note: str) -> None:
    id = await session.workspace(workspace)
    new = NewRelation(_ref(start, "from"), _ref(end, "to"), relation, note)
    kept = await session.services.intelligence.relations.relate(session.principal, id, new)
    session.out.record(_relation(kept), [f"Related ({kept.id})."])


@command(group, "unrelate", click.argument("relation_id", metavar="ID"), workspace_option, help="Take a relation away.")
async def unrelate(session: Session, relation_id: str, workspace: str | None) -> None:
    id = await session.workspace(workspace)
    await session.services.intelligence.relations.unrelate(session.principal, id, relation_id)
    session.out.record({"relation_id": relation_id, "deleted": True}, [f"Removed {relation_id}."])


@command(
    group,
    "relations",
    workspace_option,
    click.option("--entity", metavar="ID", help="Only relations with this entity at either end."),
    _limit,
    help="List relations, newest first.",
)
async def relations(session: Session, workspace: str | None, entity: str | None, limit: int) -> None:
    id = await session.workspace(workspace)
    page = await session.services.intelligence.relations.page(session.principal, id, entity=entity, limit=limit)
    session.out.table((_relation(each) for each in page.items), ["id", "from", "relation", "to", "note"])


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


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "id": relation.id,
        "from": f"{relation.start.type}:{relation.start.id}",
        "relation": relation.relation,
        "inverse": inverse(relation.relation),
        "to": f"{relation.end.type}:{relation.end.id}",
        "note": relation.note,
        "created_at": iso(relation.created_at),
    }


def _record(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "id": node.id,
                "type": node.type,
                "title": node.title,
                "status": node.status,
                "at": iso_or_none(node.at),
                "distance": node.distance,
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "id": tie.id,
                "from": tie.start.id,
                "to": tie.end.id,
                "relation": tie.relation,
                "inverse": inverse(tie.relation),
                "note": tie.note,
            }
            for tie in graph.edges
        ],
        "truncated": graph.truncated,
    }
