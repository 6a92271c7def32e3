"""Owns where the graph's nodes are drawn: rings around what is related most, the same for the same graph."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.features.intelligence.model import Graph, GraphNode

_STEP = 74.0
_WIDE_STEP = 112.0
_FEW = 40
"""Up to so many nodes the rings lie further apart, for their names to have room."""
_APART = 46.0
_LEAST = 190.0


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node with its place."""

    node: GraphNode
    x: float
    y: float
    degree: int

    @property
    def radius(self) -> int:
        return min(16, 6 + self.degree)


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A relation between two drawn nodes."""

    start: DrawnNode
    end: DrawnNode
    relation: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Nodes and edges in a square of that half width."""

    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]
    reach: float

    @property
    def types(self) -> Sequence[str]:
        """What kinds of things are in it, for the legend."""
        return sorted({each.node.type for each in self.nodes})


def drawn(graph: Graph) -> Picture:
    """The most related in the middle; each ring holds as many as have room on it."""
    degrees = Counter(end for edge in graph.edges for end in (edge.start.id, edge.end.id))
    order = sorted(graph.nodes, key=lambda node: (node.distance or 0, -degrees[node.id], node.id))
    nodes: list[DrawnNode] = []
    ring, left, radius = 0, 1, 0.0
    room = 1
    step = _WIDE_STEP if len(order) <= _FEW else _STEP
    for number, node in enumerate(order):
        if left == 0:
            ring += 1
            radius = ring * step
            # Who is left shares the last ring evenly.
            room = left = max(1, min(int(2 * math.pi * radius / _APART), len(order) - number))
        angle = 2 * math.pi * (room - left) / room + ring * 0.4
        place = round(radius * math.cos(angle), 1), round(radius * math.sin(angle), 1)
        nodes.append(DrawnNode(node, *place, degrees[node.id]))
        left -= 1
    by_id = {each.node.id: each for each in nodes}
    edges = [
        DrawnEdge(by_id[edge.start.id], by_id[edge.end.id], edge.relation)
        for edge in graph.edges
        if edge.start.id in by_id and edge.end.id in by_id
    ]
    return Picture(nodes, edges, max(_LEAST, radius + 60))
