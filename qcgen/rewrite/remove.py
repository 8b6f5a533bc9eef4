"""Nodes without effect: identities, second ones of two alike, pairs of quantization, branches that are not taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Graph, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import GraphQuantization, dequantized, is_dequantize, is_quantize, quantization_of
from qcgen.rewrite.wiring import Change, Wiring, apply

# Nodes that give their input unchanged vanish.


def remove_identities(wiring: Wiring, node: Node) -> Change | None:
    """Identity, Dropout outside of training, Cast to the type and Expand to the shape that the input has, addition
    of 0, multiplication by 1 and the like, unless they make an output.
    """
    if node.domain or not node.inputs:
        return None
    same = 0 if _is_identity(wiring, node) else _unchanged_operand(wiring, node)
    output = node.outputs[0]
    if same is None or output in wiring.outputs or any(wiring.readers.get(name) for name in node.outputs[1:]):
        return None
    return Change(node, rename={output: node.inputs[same]})


def _is_identity(wiring: Wiring, node: Node) -> bool:
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            training = wiring.constant(node.input(2))
            return not node.input(2) or (training is not None and not training.any())
        case "Cast":
            to = node.attributes.get("to")
            dtype = wiring.graph.value(node.input(0)).dtype
            return isinstance(to, int) and dtype is not None and element_type(to) is dtype
        case "Expand":
            return _has_the_shape_of(wiring, node, 0)
    return False


NEUTRAL = {"Add": (0, (0, 1)), "Div": (1, (1,)), "Mul": (1, (0, 1)), "Sub": (0, (1,))}
"""By operator: the number that changes nothing, and as which operands."""


def _unchanged_operand(wiring: Wiring, node: Node) -> int | None:
    """Which operand the result equals; None if it equals neither. Source: NoopElimination of onnxruntime."""
    neutral, places = NEUTRAL.get(node.op_type, (0, ()))
    for place in places:
        number = wiring.constant(node.input(place))
        is_neutral = number is not None and number.size == 1 and number.reshape(-1)[0] == neutral
        if is_neutral and wiring.constant(node.input(1 - place)) is None and _has_the_shape_of(wiring, node, 1 - place):
            return 1 - place
    return None


def _has_the_shape_of(wiring: Wiring, node: Node, index: int) -> bool:
    """Whether the result has the known shape of an operand."""
    shape = wiring.graph.value(node.input(index)).fixed_shape
    return shape is not None and shape == wiring.graph.value(node.outputs[0]).fixed_shape


# A tensor that is quantized or dequantized twice in the same way is so once.


def merge_duplicates(wiring: Wiring, node: Node) -> Change | None:
    """Readers of the second of two equal QuantizeLinear or DequantizeLinear read the first."""
    if not (is_quantize(node) or is_dequantize(node)) or node.outputs[0] in wiring.outputs:
        return None
    quantization = quantization_of(wiring, node)
    if quantization is None:
        return None
    for other in wiring.readers[node.input(0)]:
        if other.name == node.name:
            return None
        if other.op_type != node.op_type or other.input(0) != node.input(0) or not other.outputs[0]:
            continue
        first = quantization_of(wiring, other)
        if first is not None and first.same_as(quantization):
            return Change(node, rename={node.outputs[0]: other.outputs[0]})
    return None


# Pairs of DequantizeLinear and QuantizeLinear that change nothing vanish; two in a row become one.


def join_pairs(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear behind DequantizeLinear, where both mean the same."""
    if not is_quantize(node):
        return None
    source, target = dequantized(wiring, node.input(0)), quantization_of(wiring, node)
    if source is None or target is None or not source.quantization.same_as(target):
        return None
    output = node.outputs[0]
    if output in wiring.outputs:
        return Change(node, (Node(node.name, "Identity", "", (source.codes,), (output,), {}),))
    return Change(node, rename={output: source.codes})


# Quantized, dequantized, quantized and dequantized again: once is enough, with what both pairs can express.

EQUAL = 1e-20
"""Scales that differ by less are equal to onnxruntime, however small both are: each outer node keeps its own."""


def join_double_pairs(wiring: Wiring, node: Node) -> Change | None:
    """The DequantizeLinear in the middle of QuantizeLinear, DequantizeLinear, QuantizeLinear, DequantizeLinear.

    The outer two get the range that both pairs have in common, so the codes are others than those of two roundings.
    Only where the first two have one reader each, the third is read by DequantizeLinear alone, by all of them in one
    meaning, and both pairs have one type of 8 or 16 bits and all zero points.
    Source: DoubleQDQPairsRemover of onnxruntime.
    """
    first, second = wiring.producers.get(node.input(0)), wiring.only_reader(node.outputs[0])
    if first is None or second is None or wiring.only_reader(node.input(0)) is None:
        return None
    if not (is_dequantize(node) and is_quantize(first) and is_quantize(second)):
        return None
    last = () if second.outputs[0] in wiring.outputs else wiring.readers.get(second.outputs[0], ())
    by, then = _of_pair(wiring, first, node), _of_pairs(wiring, second, last)
    if by is None or then is None or by.dtype is not then.dtype or by.same_as(then):
        return None
    # Four pairs in a row become two, then one, as in onnxruntime: under its new name a last node is looked at later.
    last_joined = tuple(replace(each, name=wiring.fresh(f"{each.name}_joined")) for each in last)
    if int(by.zero_point) == int(then.zero_point) and abs(np.float32(by.scale) - np.float32(then.scale)) < EQUAL:
        nodes = tuple(replace(each, inputs=(node.inputs[0], *each.inputs[1:])) for each in last_joined)
        return Change(node, nodes, remove=(second, *last))
    common = _common(by, then)
    if common is None:
        return None
    names = tuple(wiring.fresh(f"{node.name}_{role}") for role in ("scale", "zero_point"))
    constants: Mapping[str, Array] = dict(zip(names, common, strict=True))
    nodes = (
        replace(first, inputs=(first.inputs[0], *names)),
        *(replace(each, inputs=(first.outputs[0], *names)) for each in last_joined),
    )
    return Change(node, nodes, remove=(first, second, *last), constants=constants)


def _of_pairs(wiring: Wiring, quantize: Node, readers: tuple[Node, ...]) -> GraphQuantization | None:
    """The meaning of the codes that a QuantizeLinear makes for DequantizeLinear nodes that all say the same of it."""
    if not readers or not all(map(is_dequantize, readers)):
        return None
    meanings = [_of_pair(wiring, quantize, reader) for reader in readers]
    return meanings[0] if None not in meanings else None


def _of_pair(wiring: Wiring, quantize: Node, dequantize: Node) -> GraphQuantization | None:
    """The meaning of the codes between two nodes that say the same of it."""
    if not (quantize.input(2) and dequantize.input(2)):
        return None
    one, other = quantization_of(wiring, quantize), quantization_of(wiring, dequantize)
    return one if one is not None and other is not None and one.same_as(other) and one.is_per_tensor else None


def _common(first: GraphQuantization, second: GraphQuantization) -> tuple[Array, Array] | None:
    """Scale and zero point of the common range, in float32 and rounded half away from 0; None if there is none."""
    low, high = first.dtype.low, first.dtype.high
    lows, highs = (
        [np.float32(end - int(by.zero_point)) * np.float32(by.scale) for by in (first, second)] for end in (low, high)
    )
    smallest, largest = max(lows), min(highs)
    scale = np.float32((largest - smallest) / np.float32(high - low))
    place = float(np.float32(low) - smallest / scale) if scale > 0 else low - 1.0
    zero_point = int(np.floor(abs(place) + 0.5)) * (1 if place >= 0 else -1)
    if not low <= zero_point <= high:
        return None
    return np.asarray(scale, np.float32), np.asarray(zero_point, first.dtype.numpy)


# If nodes whose branches lie in the graph around them: one is taken now, or both are computed and one is chosen.


def choose_branches(graph: Graph) -> Graph:
    """The graph without If nodes whose condition is constant, and with Where nodes for those that give float32 numbers.

    Branches only compute, so what an If gives, Where gives, too. That both are computed is noted.
    """
    changed = apply(graph, _choose)
    left = {node.name for node in changed.nodes if node.op_type == "If"}
    gone = [node for node in graph.nodes if node.op_type == "If" and node.name not in left]
    notes = (
        f"node {node.name!r} (If): both branches are computed, then one is chosen"
        for node in gone
        if node.input(0) not in graph.constants
    )
    return replace(changed, notes=(*graph.notes, *notes)) if gone else graph


def _choose(wiring: Wiring, node: Node) -> Change | None:
    count = len(node.outputs)
    if (node.domain, node.op_type) != ("", "If") or not count or len(node.inputs) != 1 + 2 * count:
        return None
    branches = node.inputs[1 : 1 + count], node.inputs[1 + count :]
    condition = wiring.constant(node.inputs[0])
    inputs: list[tuple[str, ...]]
    if condition is not None and condition.size == 1:
        op_type, inputs = "Identity", [(name,) for name in branches[0 if condition.reshape(-1)[0] else 1]]
    elif all(_can_be_chosen(wiring, node.inputs[0], *pair) for pair in zip(*branches, strict=True)):
        op_type, inputs = "Where", [(node.inputs[0], *pair) for pair in zip(*branches, strict=True)]
    else:
        return None
    names = [node.name, *(wiring.fresh(f"{node.name}_{number}") for number in range(1, count))]
    nodes = (
        Node(name, op_type, "", reads, (output,), {})
        for name, output, reads in zip(names, node.outputs, inputs, strict=True)
        if output
    )
    return Change(node, tuple(nodes))


def _can_be_chosen(wiring: Wiring, condition: str, one: str, other: str) -> bool:
    """Whether two float32 tensors have one shape, which the condition leaves as it is."""
    shapes = [_shape(wiring, name) for name in (condition, one, other)]
    types = {wiring.graph.dtype(name) for name in (one, other)}
    is_known = types == {DType.FLOAT32} and shapes[1] is not None and shapes[1] == shapes[2]
    return is_known and shapes[0] in ((), (1,)[: len(shapes[1] or ())])


def _shape(wiring: Wiring, name: str) -> tuple[int, ...] | None:
    constant = wiring.constant(name)
    return wiring.graph.value(name).fixed_shape if constant is None else constant.shape
