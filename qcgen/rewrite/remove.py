"""Nodes without effect, and those that do what another one does."""

from __future__ import annotations

from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import is_dequantize, is_quantize, quantization_of
from qcgen.rewrite.wiring import Change, Wiring

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
