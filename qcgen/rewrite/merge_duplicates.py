"""A tensor that is quantized or dequantized twice in the same way is so once."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import is_dequantize, is_quantize, quantization_of
from qcgen.rewrite.wiring import Change, Wiring


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
