"""Dequantizing and quantizing again is nothing, or a table."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import GraphQuantization, dequantized, is_quantize, quantization_of
from qcgen.rewrite.tables import lookup_node
from qcgen.rewrite.wiring import Change, Wiring


def join_pairs(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear behind DequantizeLinear: gone if both mean the same, else a table of 256 codes."""
    if not is_quantize(node):
        return None
    source, target = dequantized(wiring, node.input(0)), quantization_of(wiring, node)
    if source is None or target is None:
        return None
    output = node.outputs[0]
    if source.quantization.same_as(target):
        if output in wiring.outputs:
            return Change(node, (Node(node.name, "Identity", "", (source.codes,), (output,), {}),))
        return Change(node, rename={output: source.codes})
    if not (source.quantization.is_8_bit_per_tensor and target.is_8_bit_per_tensor):
        return None
    return _recoded(wiring, node, source.codes, (source.quantization, target))


def _recoded(wiring: Wiring, node: Node, codes: str, meaning: tuple[GraphQuantization, GraphQuantization]) -> Change:
    """Codes of one meaning turned into codes of the other, at once if they are constant."""
    source, target = meaning
    output, constant = node.outputs[0], wiring.constant(codes)
    if constant is not None and output not in wiring.outputs:
        name = wiring.fresh(f"{output}_codes")
        return Change(node, constants={name: target.codes(source.real_values(constant))}, rename={output: name})
    table = target.codes(source.real_values(source.all_codes()))
    lookup, constants = lookup_node(wiring, node.name, codes, output, meaning, table)
    return Change(node, (lookup,), constants=constants)
