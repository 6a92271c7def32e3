"""Owns the model's graph in integers: the weights that ship, multiplied as the bytes they are.

The shipped file keeps its weights as bytes and makes floats of them before every product. Here each such product
becomes one step that rounds what flows in to bytes too; the weights themselves stay as they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast.engines.search.embedders import protobuf
from holdfast.engines.search.embedders.protobuf import message, text, whole

FLOAT, UNSIGNED_BYTE = 1, 2
"""Kinds of numbers, as ONNX counts them."""
WHOLE_ATTRIBUTE = 2
ONNX_VERSION, OPERATORS, OTHER_OPERATORS = 8, 17, "com.microsoft"
HALF = 128

# The numbers of ONNX's fields, whose meaning is fixed for ever.
_GRAPH, _OPERATOR_SET = 7, 8
_NODE, _GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATION, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 4, 5, 7
_DIMENSIONS, _KIND, _NAME, _RAW = 1, 2, 8, 9


@dataclass(frozen=True, slots=True)
class Node:
    """A step of the graph."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[bytes, ...] = ()
    domain: str = ""

    @property
    def written(self) -> bytes:
        """As ONNX has it."""
        parts = [text(_NODE_INPUT, one) for one in self.inputs]
        parts += [text(_NODE_OUTPUT, one) for one in self.outputs]
        parts += [text(_NODE_OPERATION, self.operation), text(_NODE_DOMAIN, self.domain)]
        parts += [message(_NODE_ATTRIBUTE, one) for one in self.attributes]
        return message(_NODE, b"".join(parts))


@dataclass(frozen=True, slots=True)
class Weights:
    """Numbers that ship with a graph."""

    name: str
    kind: int
    dimensions: tuple[int, ...]
    raw: bytes

    @property
    def written(self) -> bytes:
        """As ONNX has it."""
        parts = [whole(_DIMENSIONS, one) for one in self.dimensions]
        parts += [whole(_KIND, self.kind), text(_NAME, self.name), message(_RAW, self.raw)]
        return message(_INITIALIZER, b"".join(parts))


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """Steps, weights, and what goes in and comes out as ONNX has it."""

    nodes: tuple[Node, ...]
    weights: tuple[Weights, ...]
    ends: bytes

    @property
    def written(self) -> bytes:
        """A file's content, without weights that no step uses."""
        used = {name for node in self.nodes for name in node.inputs}
        parts = [node.written for node in self.nodes]
        parts += [text(_GRAPH_NAME, "integers"), *(one.written for one in self.weights if one.name in used), self.ends]
        sets = (("", OPERATORS), (OTHER_OPERATORS, 1))
        operators = (message(_OPERATOR_SET, text(1, name) + whole(2, version)) for name, version in sets)
        return b"".join((whole(1, ONNX_VERSION), message(_GRAPH, b"".join(parts)), *operators))


def in_integers(content: bytes, *, signed: bool) -> bytes:
    """The shipped file with products of bytes; `signed` ones are quicker, where the processor multiplies them right."""
    graph = _read(content)
    weights = {one.name: one for one in graph.weights}
    nodes = [step for node in graph.nodes for step in _gathered(node, weights)]
    nodes = _without_unused(_multiplied(nodes, weights, signed=signed), graph.ends)
    changed = weights.values() if signed else _unsigned(weights.values(), nodes)
    return replace(graph, nodes=tuple(nodes), weights=tuple(changed)).written


def product_of_ones(length: int) -> bytes:
    """A file that adds up what goes in, each times 127: a processor that overflows on the way gives too little."""
    ones = Weights("weights", 3, (length, 1), bytes([127]) * length)
    scale = Weights("scale", FLOAT, (1,), np.ones(1, np.float32).tobytes())
    node = Node("DynamicQuantizeMatMul", ("values", "weights", "scale"), ("sum",), domain=OTHER_OPERATORS)
    kind = message(2, message(1, whole(1, FLOAT)))
    ends = message(_INPUT, text(1, "values") + kind) + message(_OUTPUT, text(1, "sum") + kind)
    return ModelGraph((node,), (ones, scale), ends).written


def _read(content: bytes) -> ModelGraph:
    (graph,) = (value for number, value in protobuf.fields(memoryview(content)) if number == _GRAPH)
    nodes, weights, ends = [], [], []
    for number, value in protobuf.fields(protobuf.part(graph)):
        if number == _NODE:
            nodes.append(_node(protobuf.part(value)))
        elif number == _INITIALIZER:
            weights.append(_weights(protobuf.part(value)))
        elif number in (_INPUT, _OUTPUT):
            ends.append(message(number, bytes(protobuf.part(value))))
    return ModelGraph(tuple(nodes), tuple(weights), b"".join(ends))


def _node(content: memoryview) -> Node:
    found: dict[int, list[bytes]] = defaultdict(list)
    for number, value in protobuf.fields(content):
        found[number].append(bytes(protobuf.part(value)))
    inputs, outputs = (tuple(one.decode() for one in found[number]) for number in (_NODE_INPUT, _NODE_OUTPUT))
    return Node(found[_NODE_OPERATION][0].decode(), inputs, outputs, tuple(found[_NODE_ATTRIBUTE]))


def _weights(content: memoryview) -> Weights:
    name, kind, dimensions, raw = "", FLOAT, [], b""
    for number, value in protobuf.fields(content):
        if number == _DIMENSIONS:
            dimensions.append(protobuf.number(value))
        elif number == _KIND:
            kind = protobuf.number(value)
        elif number == _NAME:
            name = bytes(protobuf.part(value)).decode()
        elif number == _RAW:
            raw = bytes(protobuf.part(value))
    return Weights(name, kind, tuple(dimensions), raw)


def _gathered(node: Node, weights: dict[str, Weights]) -> Iterator[Node]:
    """Take a text's rows out of a table before they become floats, not the whole table."""
    table, scale = (f"{node.inputs[0]}{suffix}" if node.inputs else "" for suffix in ("_q", "_scale"))
    if node.operation != "Gather" or table not in weights:
        yield node
        return
    (out,) = node.outputs
    yield Node("Gather", (table, node.inputs[1]), (f"{out}_q",), node.attributes)
    yield Node("Gather", (scale, node.inputs[1]), (f"{out}_scale",), node.attributes)
    yield Node("Cast", (f"{out}_q",), (f"{out}_f",), (_whole_attribute("to", FLOAT),))
    yield Node("Mul", (f"{out}_f", f"{out}_scale"), (out,))


def _multiplied(nodes: Iterable[Node], weights: dict[str, Weights], *, signed: bool) -> list[Node]:
    """Each product with weights, and the sum with its bias, as one step over bytes."""
    steps = list(nodes)
    biased = {node.inputs[0]: node for node in steps if node.operation == "Add"}
    found: list[Node] = []
    merged: set[tuple[str, ...]] = set()
    for node in steps:
        name = node.inputs[1] if node.operation == "MatMul" else ""
        if f"{name}_q" in weights:
            total = biased[node.outputs[0]]
            scale = weights[f"{name}_scale"]
            weights[scale.name] = replace(scale, dimensions=scale.dimensions[-1:])
            inputs = (node.inputs[0], f"{name}_q", scale.name, "" if signed else f"{name}_middle", total.inputs[1])
            found.append(Node("DynamicQuantizeMatMul", inputs, total.outputs, domain=OTHER_OPERATORS))
            merged.add(total.outputs)
        elif node.outputs not in merged:
            found.append(node)
    return found


def _without_unused(nodes: list[Node], ends: bytes) -> list[Node]:
    """Leave out what no later step and no end asks for."""
    outputs = (protobuf.part(value) for number, value in protobuf.fields(memoryview(ends)) if number == _OUTPUT)
    wanted = {
        bytes(protobuf.part(value)).decode()
        for output in outputs
        for number, value in protobuf.fields(output)
        if number == 1
    }
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def _unsigned(weights: Iterable[Weights], nodes: Iterable[Node]) -> Iterator[Weights]:
    """The same numbers counted from 0 to 255, their zero in the middle: every processor multiplies those right."""
    middles = {node.inputs[1]: node.inputs[3] for node in nodes if node.domain == OTHER_OPERATORS}
    for one in weights:
        if one.name not in middles:
            yield one
            continue
        values = np.frombuffer(one.raw, np.uint8) + np.uint8(HALF)
        yield replace(one, kind=UNSIGNED_BYTE, raw=values.tobytes())
        columns = one.dimensions[-1:]
        yield Weights(middles[one.name], UNSIGNED_BYTE, columns, bytes([HALF]) * columns[0])


def _whole_attribute(name: str, value: int) -> bytes:
    return text(1, name) + whole(3, value) + whole(20, WHOLE_ATTRIBUTE)
