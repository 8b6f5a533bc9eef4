"""A dequantized tensor, a normalization, mostly QuantizeLinear: one normalization of codes."""

from __future__ import annotations

import numpy as np

from qcgen.infer.normalization import INSTANCE_NORM, LAYER_NORM
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.fold_constants import FOLDS
from qcgen.rewrite.operands import Operands
from qcgen.rewrite.quantization import Quantizer, activation, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring

FUSED = {("", "InstanceNormalization"): INSTANCE_NORM, ("", "LayerNormalization"): LAYER_NORM}
"""The operators of qcgen's own domain, by the operator that they compute of codes."""


def fuse_normalization(wiring: Wiring, node: Node) -> Change | None:
    """A normalization of an 8-bit tensor with constant scale and bias, quantized or not; its first output alone."""
    if (node.domain, node.op_type) not in FUSED or any(node.outputs[1:]):
        return None
    y = quantizer(wiring, node.outputs[0])
    return None if y is None else _fused(wiring, node, y)


def fuse_normalization_to_float(wiring: Wiring, node: Node) -> Change | None:
    """LayerNormalization where no QuantizeLinear follows: looked for when none can come nearer any more."""
    if (node.domain, node.op_type) != ("", "LayerNormalization") or any(node.outputs[1:]):
        return None
    return _fused(wiring, node, None)


def _fused(wiring: Wiring, node: Node, y: Quantizer | None) -> Change | None:
    x, scale = activation(wiring, node.input(0)), float_constant(wiring, node.input(1))
    bias = float_constant(wiring, node.input(2)) if node.input(2) else None
    if x is None or scale is None or (node.input(2) and bias is None):
        return None
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    y_names, y_constants = ("", ""), dict[str, Array]()
    if y is not None:
        y_meaning, constants_of_y = named(wiring, y.quantization, y.output)
        y_names, y_constants = y_meaning.names, dict(constants_of_y)
    names = (wiring.fresh(f"{node.name}_scale"), wiring.fresh(f"{node.name}_bias") if bias is not None else "")
    constants = {name: array for name, array in zip(names, (scale, bias), strict=True) if array is not None}
    domain, op_type = FUSED[node.domain, node.op_type]
    inputs = (x.codes, *x_meaning.names, *y_names, *names)
    outputs = (node.outputs[0] if y is None else y.output,)
    fused = Node(node.name, op_type, domain, inputs, outputs, node.attributes)
    constants = {**x_constants, **y_constants, **constants}
    return Change(node if y is None else y.node, (fused,), remove=(node,), constants=constants)


def float_constant(wiring: Wiring, tensor: str) -> Array | None:
    """A float32 constant, or what a DequantizeLinear makes of constant codes; None for anything else."""
    constant, maker = wiring.constant(tensor), wiring.producers.get(tensor)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        arrays = tuple(wiring.constant(name) if name else None for name in maker.inputs)
        fold = FOLDS.get((maker.domain, maker.op_type))
        if fold is None or any(array is None for array, name in zip(arrays, maker.inputs, strict=True) if name):
            return None
        found = fold(Operands(maker, arrays))
        constant = None if found is None else found[0]
    return constant if constant is not None and constant.dtype == np.float32 else None
