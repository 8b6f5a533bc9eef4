"""A dequantized tensor, ReduceMean or ReduceSum, QuantizeLinear: the sums of codes along axes, requantized."""

from __future__ import annotations

from qcgen.infer.reduction import REDUCE_MEAN, REDUCE_SUM
from qcgen.ir.graph import Node
from qcgen.rewrite.name_means import axes_of
from qcgen.rewrite.quantization import activation, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring

FUSED = {("", "ReduceMean"): REDUCE_MEAN, ("", "ReduceSum"): REDUCE_SUM}
"""The operators of qcgen's own domain, by the operator that they compute."""


def fuse_reduction(wiring: Wiring, node: Node) -> Change | None:
    """ReduceMean or ReduceSum on 8-bit codes, along any axes that are known."""
    fused = FUSED.get((node.domain, node.op_type))
    if fused is None or (node.input(1) and wiring.constant(node.input(1)) is None):
        return None
    x, y, axes = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0]), axes_of(wiring, node)
    if x is None or y is None or (not axes and node.attributes.get("noop_with_empty_axes", 0)):
        return None
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    y_meaning, y_constants = named(wiring, y.quantization, y.output)
    attributes = {"keepdims": node.attributes.get("keepdims", 1), **({"axes": axes} if axes else {})}
    domain, op_type = fused
    inputs = (x.codes, *x_meaning.names, *y_meaning.names)
    sums = Node(node.name, op_type, domain, inputs, (y.output,), attributes, in_float=True)
    return Change(y.node, (sums,), remove=(node,), constants={**x_constants, **y_constants})
