"""Which linear Resizes of codes onnxruntime has with channels last: it moves transpositions to where they cost least.

It puts two around each integer convolution, then pushes them from the inputs to the outputs, as far as its estimate
gets smaller. This follows that estimate; tests hold it against the graphs that onnxruntime makes. Sources:
NhwcTransformer, CalculateCost and OptimizeImpl of onnxruntime's transpose optimizer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from qcgen.ir.graph import Graph, Node
from qcgen.ir.types import DType

Perm = tuple[int, ...]
CHANNELS_FIRST, CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders of axes that make an image so."""

FUSED = {
    "Add": "QLinearAdd",
    "AveragePool": "QLinearAveragePool",
    "Concat": "QLinearConcat",
    "Conv": "QLinearConv",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "LeakyRelu": "QLinearLeakyRelu",
    "MaxPool": "MaxPool",
    "Mul": "QLinearMul",
    "Sigmoid": "QLinearSigmoid",
    "Softmax": "QLinearSoftmax",
}
"""What onnxruntime makes of an operator between DequantizeLinear and QuantizeLinear."""

ONE = frozenset(
    """Abs ArgMax Cast Ceil Celu Clip Cos DequantizeLinear Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu
    Log MaxPool Neg Pad QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearReduceMean QLinearSigmoid
    QLinearSoftmax QuantizeLinear ReduceMax ReduceMean ReduceSum Relu Reshape Resize Round Selu Shape Sigmoid Sin Slice
    Softmax Softplus Softsign Split Sqrt Squeeze Tanh Tile Transpose Unsqueeze""".split()
)
"""Operators behind which a transposition of their first input can go."""

ALL = frozenset("Add Concat Div Max Mean Min Mul Pow PRelu Sub Sum Where".split())
"""The same, of all inputs but scalars."""

KEPT = frozenset(("Reshape", "Shape", "Squeeze", "Unsqueeze"))
"""Of these, those behind which it does not go after all."""


@dataclass(eq=False)
class _Vertex:
    """A node as onnxruntime has it, or a transposition; ``moved``: the inputs that change their order with it."""

    op_type: str
    inputs: list[str]
    outputs: list[str]
    moved: tuple[int, ...] = ()
    perm: Perm = ()
    resize: str = ""  # the name of a linear Resize of codes
    is_last: bool = False  # a pool of channels last


def resizes_with_channels_last(graph: Graph) -> frozenset[str]:
    """The names of the linear Resizes of codes that onnxruntime computes with channels last."""
    if not any(_is_linear_resize(graph, node) for node in graph.nodes):
        return frozenset()
    return frozenset(_Transpositions(graph).pushed())


def _is_linear_resize(graph: Graph, node: Node) -> bool:
    is_linear = (node.domain, node.op_type, node.attributes.get("mode")) == ("", "Resize", "linear")
    return is_linear and graph.value(node.input(0)).dtype in (DType.INT8, DType.UINT8)


class _Units:
    """The nodes of a graph, those between codes joined to what onnxruntime makes of them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._producers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)

    def in_order(self) -> Iterator[tuple[Node, str, list[str], list[str]]]:
        """Each with its operator, inputs and outputs."""
        chains = {node.name: self._chain(node) for node in self._graph.nodes if node.op_type == "QuantizeLinear"}
        gone = {node.name for chain in chains.values() for node in chain}
        for node in self._graph.nodes:
            if chain := chains.get(node.name):
                maker = chain[-1]
                codes = [source.input(0) for source in self._sources(maker) if source is not None]
                computed = [name for name in codes if name not in self._graph.constants]
                yield maker, FUSED[maker.op_type], computed, [*node.outputs]
            elif node.name not in gone and not self._is_idle(node, gone):
                yield node, node.op_type, [*node.inputs], [*node.outputs]

    def _chain(self, quantize: Node) -> list[Node]:
        """What joins a QuantizeLinear: activations, behind an operator of codes alone; empty if that is not so."""
        found, name = list[Node](), quantize.input(0)
        while len(self._readers[name]) == 1 and name not in self._graph.outputs and name in self._producers:
            maker = self._producers[name]
            found.append(maker)
            if maker.op_type not in ("Clip", "Relu"):
                of_codes = all(source is not None for source in self._sources(maker))
                return found if maker.op_type in FUSED and of_codes else []
            name = maker.input(0)
        return []

    def _sources(self, maker: Node) -> list[Node | None]:
        """The DequantizeLinear of each input that is computed; None for another node."""
        names = [name for name in maker.inputs if name and name not in self._graph.constants]
        makers = [self._producers.get(name) for name in names]
        return [node if node is not None and node.op_type == "DequantizeLinear" else None for node in makers]

    def _is_idle(self, node: Node, gone: Collection[str]) -> bool:
        """A DequantizeLinear that only joined operators read."""
        readers = [reader for name in node.outputs for reader in self._readers.get(name, ())]
        is_output = not set(node.outputs).isdisjoint(self._graph.outputs)
        return node.op_type == "DequantizeLinear" and not is_output and all(each.name in gone for each in readers)


class _Transpositions:
    """A graph in which transpositions move."""

    def __init__(self, graph: Graph) -> None:
        self._outputs, self._constants = set(graph.outputs), graph.constants.keys()
        self._shapes = {name: value.fixed_shape for name, value in graph.values.items()}
        self._shapes |= {name: array.shape for name, array in graph.constants.items()}
        self._steps: list[_Vertex] = []
        self._count = 0
        same: dict[str, str] = {}
        for node, op_type, given, outputs in _Units(graph).in_order():
            if not given or not outputs:
                continue  # check refuses it
            inputs = [same.get(name, name) for name in given]
            if op_type == "Identity" and outputs[0] not in self._outputs:
                same[outputs[0]] = inputs[0]
                continue
            step = _Vertex(op_type, inputs, outputs, self._moved(node, op_type, inputs))
            step.perm = self._perm(node) if op_type == "Transpose" else ()
            step.resize = node.name if _is_linear_resize(graph, node) else ""
            step.is_last = bool(node.attributes.get("channels_last", 0))
            if op_type == "QLinearConv" and len(self._shapes.get(inputs[0]) or ()) == 4:
                self._wrap(step)
            else:
                self._steps.append(step)

    def _perm(self, node: Node) -> Perm:
        given = node.attributes.get("perm")
        rank = len(self._shapes.get(node.input(0)) or ())
        return tuple(map(int, given)) if isinstance(given, tuple) else tuple(reversed(range(rank)))

    def _moved(self, node: Node, op_type: str, inputs: list[str]) -> tuple[int, ...]:
        is_joined = op_type != node.op_type
        if op_type in ("QLinearAdd", "QLinearMul"):
            return tuple(range(len(inputs))) if is_joined else (0, 3)
        if op_type == "QLinearConcat":
            return tuple(range(len(inputs))) if is_joined else tuple(range(2, len(inputs), 3))
        if op_type in ALL:
            return tuple(index for index, name in enumerate(inputs) if self._shapes.get(name) != ())
        return (0,) if op_type in ONE else ()

    def _wrap(self, conv: _Vertex) -> None:
        """A convolution with a transposition in front and one behind."""
        x, y = conv.inputs[0], conv.outputs[0]
        conv.inputs[0], conv.outputs[0] = self._fresh(x), self._fresh(y)
        before = _Vertex("Transpose", [x], [conv.inputs[0]], (0,), CHANNELS_LAST)
        self._steps += [before, conv, _Vertex("Transpose", [conv.outputs[0]], [y], (0,), CHANNELS_FIRST)]

    def _fresh(self, like: str) -> str:
        self._count += 1
        name = f"{self._count} transposed"
        self._shapes[name] = self._shapes.get(like)
        return name

    def _producer(self, name: str) -> _Vertex | None:
        return next((step for step in self._steps if name in step.outputs), None) if name else None

    def _readers(self, name: str) -> list[_Vertex]:
        return [step for step in self._steps if name in step.inputs]

    def _rank(self, name: str) -> int:
        """What a transposition of a tensor costs: its axes of more than one element; 5 if they are not known."""
        shape = self._shapes.get(name)
        return 5 if shape is None else sum(length != 1 for length in shape)

    def _drop_unread(self, step: _Vertex) -> None:
        if step in self._steps and not self._outputs.intersection(step.outputs) and not self._readers(step.outputs[0]):
            self._steps.remove(step)

    def pushed(self) -> Iterator[str]:
        """Moves all that pays; the names of the linear Resizes in front of which a transposition was."""
        at_first = list(self._steps)
        leading = self._leading()
        for step in at_first:
            if step not in self._steps or not step.moved or step.op_type in KEPT:
                continue
            for index in step.moved:
                before = self._producer(step.inputs[index])
                if before is None or before.op_type != "Transpose" or not self._goes(step, before.perm, leading):
                    continue
                if step.op_type == "Transpose":
                    self._join(before, step)
                    break
                self._push(step, before.perm)
                if step.resize and before.perm == CHANNELS_FIRST:
                    yield step.resize
                break

    def _leading(self) -> set[str]:
        """The tensors behind which a transposition can come to meet another one."""
        found: set[str] = set()
        for step in reversed(self._steps):
            if step.op_type == "Transpose":
                found.add(step.inputs[0])
            elif step.op_type not in ("Reshape", "Shape") and found.intersection(step.outputs):
                found.update(step.inputs[index] for index in step.moved)
        return found

    def _goes(self, step: _Vertex, perm: Perm, leading: Collection[str]) -> bool:
        """Whether a transposition goes behind a step."""
        if step.op_type in ("QLinearAveragePool", "QLinearGlobalAveragePool"):
            fits = perm == (CHANNELS_LAST if step.is_last else CHANNELS_FIRST)
        elif step.op_type == "MaxPool":
            fits = perm == CHANNELS_FIRST
        else:
            fits = step.op_type != "Resize" or perm in (CHANNELS_FIRST, CHANNELS_LAST)
        if not fits or step.op_type in ("MaxPool", "Transpose") or step.resize:
            return fits
        cost = sum(self._cost(step.inputs[index], perm) for index in step.moved)
        if not any(name in leading and name not in self._outputs for name in step.outputs):
            cost += max(map(self._rank, step.outputs))
        return cost < 0

    def _cost(self, name: str, perm: Perm) -> int:
        """What it costs to have an input in another order: it is gained where only this transposition made it so."""
        if name in self._constants:
            return 0
        before = self._producer(name)
        if before is None or before.op_type != "Transpose":
            return self._rank(name)
        is_removed = name not in self._outputs and all(reader.moved for reader in self._readers(name))
        return -self._rank(name) if before.perm == perm and is_removed else 0

    def _join(self, before: _Vertex, step: _Vertex) -> None:
        """Two transpositions, one behind the other, are one, or none."""
        perm = tuple(before.perm[axis] for axis in step.perm)
        output = step.outputs[0]
        step.inputs[0], step.perm = before.inputs[0], perm
        if perm == tuple(range(len(perm))):
            step.op_type = "Identity"
            if output not in self._outputs:
                for reader in self._readers(output):
                    reader.inputs = [before.inputs[0] if name == output else name for name in reader.inputs]
                self._steps.remove(step)
        self._drop_unread(before)

    def _push(self, step: _Vertex, perm: Perm) -> None:
        """The inputs in the order before the transposition, which comes behind the outputs."""
        inverse = tuple(perm.index(axis) for axis in range(len(perm)))
        for index in step.moved:
            name, step.inputs[index] = step.inputs[index], ""
            step.inputs[index] = name if name in self._constants else self._ordered(name, inverse)
        for index, name in enumerate(step.outputs):
            step.outputs[index] = self._fresh(name)
            self._steps.append(_Vertex("Transpose", [step.outputs[index]], [name], (0,), perm))

    def _ordered(self, name: str, perm: Perm) -> str:
        """A tensor in another order."""
        before = self._producer(name)
        if before is not None and before.op_type == "Transpose":
            both = tuple(before.perm[axis] for axis in perm)
            source = before.inputs[0]
            self._drop_unread(before)
            return source if both == tuple(range(len(both))) else self._transposed(source, both)
        found = (step for step in self._readers(name) if step.op_type == "Transpose" and step.perm == perm)
        same = next(found, None)
        return self._transposed(name, perm) if same is None else same.outputs[0]

    def _transposed(self, name: str, perm: Perm) -> str:
        step = _Vertex("Transpose", [name], [self._fresh(name)], (0,), perm)
        self._steps.append(step)
        return step.outputs[0]
