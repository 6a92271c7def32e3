"""Owns the reading of the knowledge graph: around a centre to a depth, or the newest of everything; and Mermaid."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.intelligence import store
from holdfast.features.intelligence.briefing.budget import clip
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.relations import Relations
from holdfast.features.intelligence.model import (
    DecisionFilter,
    Graph,
    GraphNode,
    GraphQuery,
    MilestoneFilter,
    Ref,
    Relation,
)
from holdfast.registry.entities import Entities
from holdfast.storage.database import Tx

MAX_DEPTH = 5
MAX_NODES = 500


class GraphReader:
    """Nodes and edges of a workspace."""

    def __init__(self, relations: Relations, entities: Entities) -> None:
        self._relations = relations
        self._entities = entities

    def read(self, tx: Tx, workspace_id: str, wanted: GraphQuery) -> Graph:
        """The wanted part; edges are the relations among the nodes shown."""
        self._check(wanted)
        if wanted.centre is None:
            distances, whole = self._newest(tx, workspace_id, wanted)
        else:
            distances, whole = self._around(tx, workspace_id, wanted, wanted.centre)
        nodes = self._nodes(tx, workspace_id, list(distances)[: wanted.limit], distances)
        shown = {Ref(node.type, node.id) for node in nodes}
        ties = relation_store.among(tx, workspace_id, [node.id for node in nodes])
        ties += self._own_ties(tx, workspace_id, [Ref(node.type, node.id) for node in nodes], _ties(wanted))
        edges = tuple(tie for tie in ties if tie.start in shown and tie.end in shown)
        return Graph(tuple(nodes), edges, truncated=not whole or len(distances) > wanted.limit)

    def _check(self, wanted: GraphQuery) -> None:
        _check_bounds(wanted)
        known = self._entities.titles
        unknown = sorted((wanted.types or frozenset()) - known.keys())
        if unknown:
            problem = f"{unknown[0][:40]!r} is not one of {', '.join(known)}"
            raise Invalid(f"A type cannot be drawn: {problem}.", fields=[FieldError("types", problem)])

    def _newest(self, tx: Tx, workspace_id: str, wanted: GraphQuery) -> tuple[dict[Ref, int | None], bool]:
        """The newest entities, then those that relate to them; and whether that is all."""
        shown = _selector(wanted.types)
        most = wanted.limit + 1
        moments: dict[Ref, int] = {}
        if shown("decision"):
            for decision in store.list_decisions(tx, workspace_id, DecisionFilter(), most):
                moments[Ref("decision", decision.id)] = decision.decided_at
        if shown("milestone"):
            for milestone in store.list_milestones(tx, workspace_id, MilestoneFilter(), most):
                moments[Ref("milestone", milestone.id)] = milestone.occurred_at
        # Other kinds can be many: they come by their relations, or all of them when asked for by name.
        for type in sorted((wanted.types or frozenset()) & self._entities.recent.keys()):
            for source in self._entities.recent[type](tx, workspace_id, most):
                moments[Ref(type, source.id)] = source.at
        found: dict[Ref, int | None] = dict.fromkeys(sorted(moments, key=lambda ref: (-moments[ref], ref.id)))
        ties = relation_store.newest(tx, workspace_id, _ties(wanted))
        found |= dict.fromkeys(ref for ref in _ends(ties) if ref not in found and shown(ref.type))
        return found, len(ties) < _ties(wanted)

    def _around(self, tx: Tx, workspace_id: str, wanted: GraphQuery, centre: str) -> tuple[dict[Ref, int | None], bool]:
        """Entities by their distance from the centre, nearest first; and whether that is all."""
        shown = _selector(wanted.types)
        start, _ = self._relations.find(tx, workspace_id, centre)
        found: dict[Ref, int | None] = {start: 0}
        frontier = [start]
        whole = True
        for distance in range(1, wanted.depth + 1):
            met = relation_store.of(tx, workspace_id, [ref.id for ref in frontier], _ties(wanted))
            met += self._own_ties(tx, workspace_id, frontier, _ties(wanted))
            whole = whole and len(met) < _ties(wanted)
            frontier = [ref for ref in _ends(met) if ref not in found and shown(ref.type)]
            found |= dict.fromkeys(frontier, distance)
            if not frontier or len(found) > wanted.limit:
                break
        return found, whole

    def _own_ties(self, tx: Tx, workspace_id: str, refs: Sequence[Ref], limit: int) -> list[Relation]:
        """What features themselves tie, such as a case to what it blocks."""
        found = []
        for type, ties in self._entities.ties.items():
            ids = [ref.id for ref in refs if ref.type == type]
            for each in ties(tx, workspace_id, ids, limit) if ids else ():
                start, end = Ref(type, each.from_id), Ref(type, each.to_id)
                id = f"{each.from_id}:{each.relation}:{each.to_id}"
                found.append(Relation(id, workspace_id, start, end, each.relation, "", "", each.at))
        return found

    def _nodes(
        self, tx: Tx, workspace_id: str, refs: Sequence[Ref], distances: Mapping[Ref, int | None]
    ) -> list[GraphNode]:
        decisions = store.get_decisions(tx, workspace_id, [ref.id for ref in refs if ref.type == "decision"])
        milestones = store.get_milestones(tx, workspace_id, [ref.id for ref in refs if ref.type == "milestone"])
        others = [ref for ref in refs if ref.type not in ("decision", "milestone")]
        titles = self._relations.titles(tx, workspace_id, others)
        nodes = []
        for ref in refs:
            distance = distances[ref]
            if ref.id in decisions:
                decision = decisions[ref.id]
                nodes.append(
                    GraphNode(ref.id, ref.type, decision.title, decision.status, decision.decided_at, distance)
                )
            elif ref.id in milestones:
                milestone = milestones[ref.id]
                nodes.append(GraphNode(ref.id, ref.type, milestone.title, None, milestone.occurred_at, distance))
            elif ref in titles:
                nodes.append(GraphNode(ref.id, ref.type, titles[ref], distance=distance))
        return nodes


def mermaid(graph: Graph) -> str:
    """The graph as a Mermaid flowchart."""
    shapes = {"decision": ('{{"', '"}}'), "milestone": ('(["', '"])')}
    names = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        opening, closing = shapes.get(node.type, ('["', '"]'))
        lines.append(f"    {names[node.id]}{opening}{_escaped(node.title)}{closing}")
    lines += [f"    {names[tie.start.id]} -->|{tie.relation}| {names[tie.end.id]}" for tie in graph.edges]
    ended = [names[node.id] for node in graph.nodes if node.status == "superseded"]
    if ended:
        lines += ["    classDef superseded stroke-dasharray: 4 4", f"    class {','.join(ended)} superseded"]
    return "\n".join(lines) + "\n"


def _escaped(title: str) -> str:
    """Mermaid reads `#` codes inside quotes; everything that could end the quotes or become markup is one."""
    return "".join(c if c.isalnum() or c in " .,-_:/()'" else f"#{ord(c)};" for c in clip(title, 60))


def _check_bounds(wanted: GraphQuery) -> None:
    if not 1 <= wanted.depth <= MAX_DEPTH:
        raise Invalid("The depth is out of range.", fields=[FieldError("depth", f"choose 1 to {MAX_DEPTH}")])
    if not 1 <= wanted.limit <= MAX_NODES:
        raise Invalid("The limit is out of range.", fields=[FieldError("limit", f"choose 1 to {MAX_NODES}")])


def _selector(types: frozenset[str] | None) -> Callable[[str], bool]:
    return lambda type: types is None or type in types


def _ends(ties: Iterable[Relation]) -> list[Ref]:
    return list(dict.fromkeys(ref for tie in ties for ref in (tie.start, tie.end)))


def _ties(wanted: GraphQuery) -> int:
    """How many relations are read at a time to find nodes by: an entity may relate to thousands."""
    return 10 * wanted.limit + 100
