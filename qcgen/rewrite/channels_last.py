"""What onnxruntime has in another order of axes, since it moves transpositions to where they cost least.

It pushes those of the model from the inputs to the outputs, as far as its estimate gets smaller, also behind sums of
floats, whose order that changes. Then it puts two around each integer convolution, and pushes again.
This follows that estimate; tests hold it against the graphs that onnxruntime makes. Sources: NhwcTransformer,
QDQPropagationTransformer, CalculateCost and OptimizeImpl of onnxruntime's transpose optimizer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.infer.facts import integers
from qcgen.ir.graph import NEWEST, Graph, Node
from qcgen.ir.types import Q8, DType
from qcgen.rewrite.quantization import CROSSED, dequantized, quantizer
from qcgen.rewrite.wiring import Change, Steps, Wiring

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
    """Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Elu Erf
    Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax MaxPool Neg Not Pad
    QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearReduceMean QLinearSigmoid QLinearSoftmax
    QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape Resize Round Selu Shape Shrink Sigmoid Sign Sin Sinh Slice Softmax Softplus
    Softsign Split Sqrt Squeeze Tan Tanh ThresholdedRelu Tile Transpose Unsqueeze""".split()
)
"""Operators behind which a transposition of their first input can go."""

ALL = frozenset(
    """Add And BitShift Concat Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub
    Sum Where Xor""".split()
)
"""The same, of all inputs but scalars."""

SUMS = frozenset(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare".split()
)
"""Operators whose numbers depend on the order of elements in memory."""

PASSES = 10
"""How often onnxruntime looks for more to move, at most."""


@dataclass(eq=False)
class _Vertex:
    """A node as onnxruntime has it, or a transposition; ``moved``: the inputs that change their order with it."""

    op_type: str
    inputs: list[str]
    outputs: list[str]
    moved: tuple[int, ...] = ()
    perm: Perm = ()
    name: str = ""
    axes: Perm | None = None  # that are reduced or squeezed, or that are new
    keeps_axes: bool = True
    is_linear: bool = False  # a linear Resize of codes
    is_last: bool = False  # a pool of channels last


def resizes(graph: Graph) -> frozenset[str]:
    """The names of the linear Resizes of codes that onnxruntime computes with channels last."""
    if not any(_is_linear_resize(graph, node) for node in graph.nodes):
        return frozenset()
    moved = _Transpositions(graph).moved()
    return frozenset(step.name for step, perm in moved if step.is_linear and perm == CHANNELS_FIRST)


def reductions(graph: Graph) -> dict[str, Perm]:
    """By name, the reductions that onnxruntime has in front of a transposition, and its order of the axes."""
    found: dict[str, Perm] = {}
    if not any(node.op_type in SUMS for node in graph.nodes):
        return found
    for step, perm in _Transpositions(graph).moved():
        if step.op_type in SUMS:
            outer = found.get(step.name, tuple(range(len(perm))))
            found[step.name] = tuple(perm[axis] for axis in outer)
    return found


def reduce_before(orders: Mapping[str, Perm], wiring: Wiring, node: Node) -> Change | None:
    """One of these reductions, which onnxruntime has in front of a transposition: it adds up in the order there."""
    perm = orders.get(node.name) if node.op_type in SUMS else None
    x = wiring.graph.value(node.input(0))
    if perm is None or x.shape is None or x.dtype is not DType.FLOAT32 or len(x.shape) != len(perm):
        return None
    if dequantized(wiring, x.name) is not None and quantizer(wiring, node.outputs[0]) is not None:
        return None  # integers
    given, steps = wiring.integers(node, 1, "axes"), Steps(wiring, node)
    if given is None and node.input(1):
        return None
    axes = tuple(sorted(perm[axis % len(perm)] for axis in (range(len(perm)) if given is None else given)))
    keeps_axes, reduced = bool(node.attributes.get("keepdims", 1)), steps.fresh("before")
    inputs = [steps.step("Transpose", x.name, perm=tuple(np.argsort(perm).tolist()))]
    if given is not None:
        inputs.append(steps.constant("axes", np.array(axes, np.int64)))
    attributes = {key: value for key, value in node.attributes.items() if key != "axes"}
    reduce = replace(node, inputs=tuple(inputs), outputs=(reduced,), attributes=attributes, version=NEWEST)
    steps.nodes.append(reduce)
    behind = perm if keeps_axes else without_axes(perm, axes)
    steps.step("Transpose", reduced, perm=behind, is_last=True, role="behind")
    return steps.change()


def _is_linear_resize(graph: Graph, node: Node) -> bool:
    is_linear = (node.domain, node.op_type, node.attributes.get("mode")) == ("", "Resize", "linear")
    return is_linear and graph.value(node.input(0)).dtype in Q8


def _one_by_one(graph: Graph) -> Iterator[tuple[Node, str, list[str], list[str]]]:
    """The nodes of a graph with a DequantizeLinear for each reader, and codes behind what moves them.

    Each with its operator, inputs and outputs.
    """
    dequantize: dict[str, list[str]] = {}  # by a tensor in float: what the DequantizeLinear of each reader reads
    constants, outputs = graph.constants, set(graph.outputs)
    coded = {node.input(0) for node in graph.nodes if node.op_type == "QuantizeLinear"}
    for number, node in enumerate(graph.nodes):
        by = next((dequantize[name] for name in node.inputs if name in dequantize), None)
        inputs = list[str]()
        for index, name in enumerate(node.inputs):
            if given := dequantize.get(name):
                made = f"{name} for {index} of {number}"
                yield node, "DequantizeLinear", given, [made]
                name = made
            inputs.append(name)
        scale = constants.get(node.input(1))
        is_scalar = scale is not None and scale.size == 1
        if node.op_type == "DequantizeLinear" and node.outputs and is_scalar and node.inputs[0] not in constants:
            dequantize[node.outputs[0]] = inputs
            if node.outputs[0] in outputs:
                yield node, node.op_type, inputs, [*node.outputs]
            continue
        y = node.outputs[0] if node.outputs else ""
        if by is None or node.op_type not in CROSSED or y in coded:
            yield node, node.op_type, inputs, [*node.outputs]
            continue
        yield node, node.op_type, inputs, [f"{y} moved", *node.outputs[1:]]
        yield node, "QuantizeLinear", [f"{y} moved", *by[1:]], [f"{y} quantized"]
        dequantize[y] = [f"{y} quantized", *by[1:]]
        if y in outputs:
            yield node, "DequantizeLinear", dequantize[y], [y]


class _Transpositions:
    """A graph in which transpositions move, at last also those around convolutions."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._wraps = graph, False
        self._outputs, self._constants = set(graph.outputs), graph.constants.keys()
        self._shapes = {name: value.fixed_shape for name, value in graph.values.items()}
        self._shapes |= {name: array.shape for name, array in graph.constants.items()}
        self._steps: dict[_Vertex, None] = {}
        self._makers: dict[str, _Vertex] = {}
        self._reading: dict[str, dict[_Vertex, None]] = {}
        self._count = 0
        same: dict[str, str] = {}
        for node, op_type, given, outputs in _one_by_one(graph):
            if not given or not outputs:
                continue  # check refuses it
            inputs = [same.get(name, name) for name in given]
            if op_type == "Identity" and outputs[0] not in self._outputs:
                same[outputs[0]] = inputs[0]
                continue
            if outputs[0].endswith(" moved"):
                self._shapes[outputs[0]] = self._shapes.get(node.outputs[0])
            if op_type in ("DequantizeLinear", "QuantizeLinear"):
                self._shapes.setdefault(outputs[0], self._shapes.get(inputs[0]))
            step = _Vertex(op_type, inputs, outputs, self._moved(node, op_type, inputs))
            step.perm = self._perm(node) if op_type == "Transpose" else ()
            step.name = node.name
            if op_type == node.op_type:
                step.axes = self._axes(node)
                step.keeps_axes = op_type not in ("Squeeze", "Unsqueeze") and bool(node.attributes.get("keepdims", 1))
            step.is_linear = _is_linear_resize(graph, node)
            step.is_last = bool(node.attributes.get("channels_last", 0))
            self._add(step)

    def moved(self) -> Iterator[tuple[_Vertex, Perm]]:
        """Moves all that pays; the steps in front of which a transposition was, and its order."""
        for _ in range(PASSES):
            moved = list(self._pushed())
            yield from moved
            if not moved:
                break
        if any(step.op_type in ("Conv", "QLinearConv") or step.is_linear for step in self._steps):
            self._join_codes()
            self._wraps, steps = True, list(self._steps)
            for step in steps:
                self._remove(step)
                if step.op_type == "QLinearConv" and len(self._shapes.get(step.inputs[0]) or ()) == 4:
                    self._wrap(step)
                else:
                    self._add(step)
            yield from self._pushed()

    def _join_codes(self) -> None:
        """Makes of operators between codes what onnxruntime makes of them."""
        for quantize in [step for step in self._steps if step.op_type == "QuantizeLinear"]:
            maker, chain = self._makers.get(quantize.inputs[0]), [quantize]
            while maker is not None and maker.op_type in ("Clip", "Relu") and self._is_read_once(maker):
                chain.append(maker)
                maker = self._makers.get(maker.inputs[0])
            if maker is None or not self._is_read_once(maker) or maker.op_type not in {*FUSED, *CROSSED}:
                continue
            computed = [name for name in maker.inputs if name and name not in self._constants]
            makers = [self._makers.get(name) for name in computed]
            if any(each is None or each.op_type != "DequantizeLinear" for each in makers):
                continue
            maker.op_type = FUSED.get(maker.op_type, maker.op_type)
            codes = {each.outputs[0]: each.inputs[0] for each in makers if each is not None}
            inputs = [codes.get(name, name) for name in maker.inputs]
            if maker.op_type.startswith("QLinear"):
                inputs = [name for name in inputs if name in codes.values() and name not in self._constants]
                maker.moved = () if maker.op_type == "QLinearConv" else tuple(range(len(inputs)))
            outputs = [*quantize.outputs]
            for step in chain:
                self._remove(step)
            self._link(maker, inputs, outputs)
            for each in makers:
                if each is not None:
                    self._drop_unread(each)

    def _is_read_once(self, step: _Vertex) -> bool:
        return len(self._readers(step.outputs[0])) == 1 and self._outputs.isdisjoint(step.outputs)

    def _perm(self, node: Node) -> Perm:
        given = node.attributes.get("perm")
        rank = len(self._shapes.get(node.input(0)) or ())
        perm = given if isinstance(given, tuple) else tuple(reversed(range(rank)))
        return tuple(map(int, perm)) if sorted(perm) == list(range(len(perm))) else ()  # check refuses the others

    def _axes(self, node: Node) -> Perm | None:
        """Those that an operator names; None if it names none."""
        given = node.attributes.get("axes", node.attributes.get("axis") if node.op_type.startswith("Arg") else None)
        if node.op_type.startswith("Reduce") or node.op_type in ("Squeeze", "Unsqueeze"):
            given = self._graph.constants.get(node.input(1), given)
        try:
            return None if given is None else integers(given)
        except (TypeError, ValueError):  # check refuses it
            return None

    def _moved(self, node: Node, op_type: str, inputs: list[str]) -> tuple[int, ...]:
        if op_type in ("QLinearAdd", "QLinearMul"):
            return (0, 3)
        if op_type == "QLinearConcat":
            return tuple(range(2, len(inputs), 3))
        if node.domain and not op_type.startswith("QLinear") and op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return ()
        if op_type in ALL:
            return tuple(index for index, name in enumerate(inputs) if self._shapes.get(name) != ())
        return (0,) if op_type in ONE else ()

    def _wrap(self, conv: _Vertex) -> None:
        """A convolution with a transposition in front and one behind."""
        x, y = conv.inputs[0], conv.outputs[0]
        conv.inputs[0], conv.outputs[0] = self._fresh(x), self._fresh(y)
        before = _Vertex("Transpose", [x], [conv.inputs[0]], (0,), CHANNELS_LAST)
        for step in (before, conv, _Vertex("Transpose", [conv.outputs[0]], [y], (0,), CHANNELS_FIRST)):
            self._add(step)

    def _fresh(self, like: str) -> str:
        self._count += 1
        name = f"{self._count} transposed"
        self._shapes[name] = self._shapes.get(like)
        return name

    def _readers(self, name: str) -> list[_Vertex]:
        return list(self._reading.get(name, ()))

    def _add(self, step: _Vertex) -> None:
        self._steps[step] = None
        self._link(step, step.inputs, step.outputs)

    def _remove(self, step: _Vertex) -> None:
        inputs, outputs = step.inputs, step.outputs
        self._link(step, [], [])
        step.inputs, step.outputs = inputs, outputs
        del self._steps[step]

    def _link(self, step: _Vertex, inputs: list[str], outputs: list[str]) -> None:
        """Lets a step read and make these."""
        for name in step.inputs:
            self._reading.get(name, {}).pop(step, None)
        for name in step.outputs:
            if self._makers.get(name) is step:
                del self._makers[name]
        step.inputs, step.outputs = [*inputs], [*outputs]
        for name in inputs:
            self._reading.setdefault(name, {})[step] = None
        self._makers.update((name, step) for name in outputs if name)

    def _rank(self, name: str) -> int:
        """What a transposition of a tensor costs: its axes of more than one element; 5 if they are not known."""
        shape = self._shapes.get(name)
        return 5 if shape is None else sum(length != 1 for length in shape)

    def _drop_unread(self, step: _Vertex) -> None:
        if step in self._steps and not self._outputs.intersection(step.outputs) and not self._readers(step.outputs[0]):
            self._remove(step)

    def _pushed(self) -> Iterator[tuple[_Vertex, Perm]]:
        at_first = list(self._steps)
        leading = self._leading()
        for step in at_first:
            if step not in self._steps or not step.moved or step.op_type == "Shape":
                continue
            for index in step.moved:
                before = self._makers.get(step.inputs[index])
                if before is None or not before.perm or not self._goes(step, before.perm, leading):
                    continue
                yield step, before.perm
                if step.op_type in ("Reshape", "Transpose"):
                    self._join(before, step)
                else:
                    self._push(step, before.perm)
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
            fits = self._wraps and perm == CHANNELS_FIRST
        elif step.op_type == "Reshape":
            step.perm = self._as_transposition(step) or ()
            fits = bool(step.perm)
        elif step.op_type == "Transpose":
            fits = len(step.perm) == len(perm)
        else:
            fits = step.op_type != "Resize" or (self._wraps and perm in (CHANNELS_FIRST, CHANNELS_LAST))
        if not fits or step.op_type in ("MaxPool", "Transpose") or step.is_linear:
            return fits
        cost = sum(self._cost(step.inputs[index], perm) for index in step.moved)
        outputs = (name for name in step.outputs if self._wraps or len(self._readers(name)) == 1)
        leads = any(name in leading and name not in self._outputs for name in outputs)
        if step.op_type != "Reshape" and not leads:
            cost += max(map(self._rank, step.outputs))
        return cost < 0

    def _as_transposition(self, step: _Vertex) -> Perm | None:
        """The order of axes that a Reshape gives, if it moves axes of one element alone."""
        given, wanted = self._shapes.get(step.inputs[0]), self._shapes.get(step.outputs[0])
        if given is None or wanted is None or len(given) != len(wanted):
            return None
        left, perm = dict(enumerate(given)), list[int]()
        for length in wanted:
            axis = next((axis for axis, other in left.items() if other == length or 1 not in (other, length)), None)
            if axis is None or left.pop(axis) != length:
                return None
            perm.append(axis)
        return tuple(perm)

    def _cost(self, name: str, perm: Perm) -> int:
        """What it costs to have an input in another order: it is gained where only this transposition made it so."""
        if name in self._constants:
            return 0
        before = self._makers.get(name)
        if before is not None and before.op_type == "DequantizeLinear" and not self._wraps:
            if before.inputs[0] in self._constants:
                return 0
            before = self._makers.get(before.inputs[0])
        if before is None or before.op_type != "Transpose":
            return self._rank(name)
        source = before.outputs[0]
        is_removed = source not in self._outputs and all(reader.moved for reader in self._readers(source))
        return -self._rank(name) if before.perm == perm and is_removed else 0

    def _join(self, before: _Vertex, step: _Vertex) -> None:
        """Two transpositions, one behind the other, are one, or none."""
        perm = tuple(before.perm[axis] for axis in step.perm)
        output = step.outputs[0]
        step.op_type, step.perm = "Transpose", perm
        self._link(step, before.inputs, step.outputs)
        if perm == tuple(range(len(perm))):
            step.op_type = "Identity"
            if output not in self._outputs:
                for reader in self._readers(output):
                    inputs = [before.inputs[0] if name == output else name for name in reader.inputs]
                    self._link(reader, inputs, reader.outputs)
                self._remove(step)
        self._drop_unread(before)

    def _push(self, step: _Vertex, perm: Perm) -> None:
        """The inputs in the order before the transposition, which comes behind the outputs."""
        inverse = tuple(perm.index(axis) for axis in range(len(perm)))
        for index in step.moved:
            name, inputs = step.inputs[index], [*step.inputs]
            inputs[index] = ""
            self._link(step, inputs, step.outputs)
            inputs[index] = name if name in self._constants else self._ordered(name, inverse)
            self._link(step, inputs, step.outputs)
        perm, outputs = self._behind(step, perm), step.outputs
        if perm != tuple(range(len(perm))):
            self._link(step, step.inputs, [self._fresh(name) for name in outputs])
            for inner, name in zip(step.outputs, outputs, strict=True):
                self._add(_Vertex("Transpose", [inner], [name], (0,), perm))

    def _behind(self, step: _Vertex, perm: Perm) -> Perm:
        """The order of axes behind a step whose input had another one; the step names its axes as they are then."""
        rank = len(perm) + (len(step.axes or ()) if step.op_type == "Unsqueeze" else 0)
        axes = list(range(rank)) if step.axes is None else [axis % rank for axis in step.axes]
        if step.op_type == "Unsqueeze":
            others = [axis for axis in range(rank) if axis not in axes]
            order = iter(perm)
            return tuple(axis if axis in axes else others[next(order)] for axis in range(rank))
        if step.axes is not None:
            step.axes = tuple(sorted(perm[axis] for axis in axes))
        return perm if step.keeps_axes else without_axes(perm, step.axes)

    def _ordered(self, name: str, perm: Perm) -> str:
        """A tensor in another order."""
        before = self._makers.get(name)
        if before is not None and before.op_type == "Transpose" and len(before.perm) == len(perm):
            both = tuple(before.perm[axis] for axis in perm)
            source = before.inputs[0]
            self._drop_unread(before)
            return source if both == tuple(range(len(both))) else self._transposed(source, both)
        found = (step for step in self._readers(name) if step.op_type == "Transpose" and step.perm == perm)
        same = next(found, None)
        return self._transposed(name, perm) if same is None else same.outputs[0]

    def _transposed(self, name: str, perm: Perm) -> str:
        step = _Vertex("Transpose", [name], [self._fresh(name)], (0,), perm)
        self._add(step)
        return step.outputs[0]


def without_axes(perm: Perm, axes: Perm | None) -> Perm:
    """An order of axes without some of those in front of it, or without all."""
    left = [] if axes is None else [axis for axis in range(len(perm)) if axis not in axes]
    return tuple(left.index(axis) for axis in perm if axis in left)
