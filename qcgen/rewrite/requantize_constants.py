"""Constant codes that QLinearConcat joins to others get the meaning of its output when the model is compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import GraphQuantization
from qcgen.rewrite.wiring import Change, Wiring

CONCAT = ("com.microsoft", "QLinearConcat")


def requantize_constants(wiring: Wiring, node: Node) -> Change | None:
    """The first input of a QLinearConcat that is constant and has another scale or zero point than the output."""
    if (node.domain, node.op_type) != CONCAT or len(node.inputs) < 2:
        return None
    target = _meaning(wiring, node, 0)
    for index in range(2, len(node.inputs) - 1, 3):
        codes, meaning = wiring.constant(node.input(index)), _meaning(wiring, node, index + 1)
        if codes is None or meaning is None or target is None or DType.of(codes) is not meaning.dtype:
            continue
        if meaning.same_as(target):
            continue
        name = wiring.fresh(f"{node.input(index)}_requantized")
        inputs = (*node.inputs[:index], name, *node.inputs[:2], *node.inputs[index + 3 :])
        constants: dict[str, Array] = {name: target.codes(meaning.real_values(codes))}
        return Change(node, (replace(node, inputs=inputs),), constants=constants, again=(node.name,))
    return None


def _meaning(wiring: Wiring, node: Node, index: int) -> GraphQuantization | None:
    """The scale at an input and the zero point behind it, None if they are malformed."""
    scale, zero_point = wiring.constant(node.input(index)), wiring.constant(node.input(index + 1))
    if scale is None or zero_point is None or scale.dtype != np.float32 or scale.size != 1 or zero_point.size != 1:
        return None
    dtype = DType.of(zero_point)
    if not dtype.is_quantized or not (np.isfinite(scale) & (scale > 0)).all():
        return None
    names = (node.input(index), node.input(index + 1))
    return GraphQuantization(dtype, scale.reshape(()), zero_point.reshape(()), None, *names)
