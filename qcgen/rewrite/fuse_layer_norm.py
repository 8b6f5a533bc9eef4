"""A dequantized tensor, LayerNormalization, QuantizeLinear: one normalization of codes."""

from __future__ import annotations

import numpy as np

from qcgen.infer.normalization import LAYER_NORM
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.fold_constants import FOLDS
from qcgen.rewrite.operands import Operands
from qcgen.rewrite.quantization import activation, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring


def fuse_layer_norm(wiring: Wiring, node: Node) -> Change | None:
    """LayerNormalization with constant scale and bias, quantized or not, of an 8-bit tensor; its first output alone."""
    if (node.domain, node.op_type) != ("", "LayerNormalization") or any(node.outputs[1:]):
        return None
    x, y = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0])
    scale = float_constant(wiring, node.input(1))
    bias = float_constant(wiring, node.input(2)) if node.input(2) else None
    if x is None or y is None or scale is None or (node.input(2) and bias is None):
        return None
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    y_meaning, y_constants = named(wiring, y.quantization, y.output)
    names = (wiring.fresh(f"{node.name}_scale"), wiring.fresh(f"{node.name}_bias") if bias is not None else "")
    constants = {name: array for name, array in zip(names, (scale, bias), strict=True) if array is not None}
    domain, op_type = LAYER_NORM
    inputs = (x.codes, *x_meaning.names, *y_meaning.names, *names)
    fused = Node(node.name, op_type, domain, inputs, (y.output,), node.attributes)
    return Change(y.node, (fused,), remove=(node,), constants={**x_constants, **y_constants, **constants})


def float_constant(wiring: Wiring, tensor: str) -> Array | None:
    """A float32 constant, or what a DequantizeLinear makes of constant codes; None for anything else."""
    constant, maker = wiring.constant(tensor), wiring.producers.get(tensor)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        arrays = tuple(wiring.constant(name) if name else None for name in maker.inputs)
        fold = FOLDS.get((maker.domain, maker.op_type))
        if fold is None or any(array is None for array, name in zip(arrays, maker.inputs, strict=True) if name):
            return None
        found = fold(Operands(maker, arrays, wiring.graph.opsets.get(maker.domain, 1)))
        constant = None if found is None else found[0]
    return constant if constant is not None and constant.dtype == np.float32 else None
