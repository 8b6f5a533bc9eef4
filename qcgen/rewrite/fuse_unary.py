"""A dequantized tensor, an operator that has an integer form of one input, QuantizeLinear: that form."""

from __future__ import annotations

from collections.abc import Mapping

from qcgen.ir.graph import Attribute, Node
from qcgen.rewrite.kept_in_float import is_kept
from qcgen.rewrite.one_type import operand_of_type
from qcgen.rewrite.quantization import activation, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring

FUSED = {
    ("", "AveragePool"): "QLinearAveragePool",
    ("", "GlobalAveragePool"): "QLinearGlobalAveragePool",
    ("", "LeakyRelu"): "QLinearLeakyRelu",
    ("", "Sigmoid"): "QLinearSigmoid",
    ("", "Softmax"): "QLinearSoftmax",
}
"""The operators of com.microsoft, by the operator that they compute."""


def fuse_unary(wiring: Wiring, node: Node) -> Change | None:
    """AveragePool, GlobalAveragePool, LeakyRelu, Sigmoid or Softmax on 8-bit codes; all codes get the output's type."""
    op_type = FUSED.get((node.domain, node.op_type))
    if op_type is None or _is_dilated(node):
        return None
    x, y = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0])
    if x is None or y is None:
        return None
    operand = operand_of_type(wiring, x, y.quantization.dtype, node, "x")
    meaning, constants = named(wiring, y.quantization, y.output)
    attributes = _attributes(node)
    inputs, kept = (*operand.names, *meaning.names), is_kept(y, x) or node.in_float
    fused = Node(node.name, op_type, "com.microsoft", inputs, (y.output,), attributes, in_float=kept)
    constants = {**operand.constants, **constants}
    return Change(y.node, (*operand.nodes, fused), remove=(node,), constants=constants)


def _is_dilated(node: Node) -> bool:
    """Whether windows skip elements, which QLinearAveragePool cannot say."""
    dilations = node.attributes.get("dilations", ())
    return not isinstance(dilations, tuple) or any(dilation != 1 for dilation in dilations)


def _attributes(node: Node) -> Mapping[str, Attribute]:
    """The node's attributes and those that only the integer form has."""
    match node.op_type:
        case "GlobalAveragePool" | "AveragePool":
            kept = {name: value for name, value in node.attributes.items() if name != "dilations"}
            return {**kept, "channels_last": 0}
        case "Softmax":
            return {"axis": -1 if node.version >= 13 else 1, **node.attributes, "opset": node.version}
    return node.attributes
