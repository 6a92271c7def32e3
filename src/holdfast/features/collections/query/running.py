"""Owns how a query of the graph is answered: records are looked at one by one, edges followed step by step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.collections import store
from holdfast.features.collections.model import RECORD, GraphEdge, GraphRecord
from holdfast.features.collections.query.language import Condition, GraphQuestion, SeenThing, Step, order_key
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.vocabulary import inverse
from holdfast.features.intelligence.model import Ref
from holdfast.storage.database import Tx

MOST_SEEN = 20_000
"""Records that one query looks at; a query that would look at more is refused rather than half answered."""
MOST_FOLLOWED = 20_000
DEFAULT_LIMIT = 50
_MOST_EDGES = 200

TitlesOf = Callable[[Tx, str, Sequence[Ref]], Mapping[Ref, str]]


@dataclass(frozen=True, slots=True)
class FoundThing:
    """A record, or something else that the workspace knows and an edge led to."""

    ref: Ref
    title: str
    record: GraphRecord | None = None

    @property
    def seen(self) -> SeenThing:
        """As conditions see it."""
        if self.record is None:
            return SeenThing({"id": self.ref.id, "type": self.ref.type, "title": self.title}, {})
        record = self.record
        facts = {
            "id": record.id,
            "type": record.type,
            "collection": record.collection,
            "title": record.title,
            "confidence": record.confidence,
            "source": record.source,
            "session": record.session_id,
            "author": record.author,
            "created": iso(record.created_at),
            "updated": iso(record.updated_at),
        }
        return SeenThing(facts, record.data)


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What was found, in order, and the edges that led there."""

    found: Sequence[FoundThing]
    edges: Sequence[GraphEdge]
    total: int
    """How many there are; more than were found where a limit cut them."""


def answer(tx: Tx, workspace_id: str, collection: str | None, asked: GraphQuestion, titles_of: TitlesOf) -> QueryAnswer:
    """What a workspace has for a query. Without a collection all of them are asked."""
    records = store.of_type(tx, workspace_id, type=asked.type, collection=collection, limit=MOST_SEEN + 1)
    if len(records) > MOST_SEEN:
        raise _too_much("name a type or a collection")
    found = [_thing(record) for record in records]
    found = [thing for thing in found if _fits(asked.where, thing.seen)]
    edges: list[GraphEdge] = []
    for step in asked.steps:
        found, edges = _followed(tx, workspace_id, found, step, titles_of)
    if asked.order is not None:
        order = asked.order
        found.sort(key=lambda thing: order_key(order.of(thing.seen)), reverse=asked.descending)
    limit = asked.limit or DEFAULT_LIMIT
    shown = found[:limit]
    ends = {thing.ref.id for thing in shown}
    told = [edge for edge in edges if edge.start in ends or edge.end in ends][:_MOST_EDGES]
    return QueryAnswer(shown, told, len(found))


def _followed(
    tx: Tx, workspace_id: str, from_: Sequence[FoundThing], step: Step, titles_of: TitlesOf
) -> tuple[list[FoundThing], list[GraphEdge]]:
    here = {thing.ref for thing in from_}
    ties = relation_store.of(tx, workspace_id, [ref.id for ref in here], MOST_FOLLOWED + 1) if here else []
    if len(ties) > MOST_FOLLOWED:
        raise _too_much("narrow what the step begins from")
    said = store.properties_of(tx, [tie.id for tie in ties])
    reached: dict[Ref, list[GraphEdge]] = {}
    for tie in ties:
        for near, far, name in ((tie.start, tie.end, tie.relation), (tie.end, tie.start, inverse(tie.relation))):
            # SeenThing from here the edge has its name, or its name for the way back.
            told = name if step.forward else inverse(name)
            if near in here and step.edge in (None, told):
                start, end = (near, far) if step.forward else (far, near)
                reached.setdefault(far, []).append(GraphEdge(start.id, told, end.id, said.get(tie.id, {})))
    things = _things(tx, workspace_id, list(reached), titles_of)
    kept = [
        thing for thing in things if step.type in (None, thing.seen.facts["type"]) and _fits(step.where, thing.seen)
    ]
    return kept, [edge for thing in kept for edge in reached[thing.ref]]


def _things(tx: Tx, workspace_id: str, refs: Sequence[Ref], titles_of: TitlesOf) -> list[FoundThing]:
    records = store.records(tx, workspace_id, [ref.id for ref in refs if ref.type == RECORD])
    titles = titles_of(tx, workspace_id, [ref for ref in refs if ref.type != RECORD])
    found = [_thing(records[ref.id]) for ref in refs if ref.id in records]
    return found + [FoundThing(ref, titles[ref]) for ref in refs if ref in titles]


def _thing(record: GraphRecord) -> FoundThing:
    return FoundThing(Ref(RECORD, record.id), record.title, record)


def _fits(condition: Condition | None, seen: SeenThing) -> bool:
    return condition is None or condition.holds(seen)


def _too_much(remedy: str) -> Invalid:
    problem = f"it would look at more than {MOST_SEEN:,} records or edges; {remedy}"
    return Invalid(f"The query asks for too much: {problem}.", fields=[FieldError("query", problem)])


def facts_of(thing: FoundThing) -> dict[str, Any]:
    """A found thing as agents are shown it."""
    facts = {key: value for key, value in thing.seen.facts.items() if value not in (None, "")}
    return {**facts, "data": dict(thing.seen.data)}
