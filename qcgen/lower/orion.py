"""QLinearConv in Orion's fixed point, unless its numbers leave 32 bits for every input."""

from __future__ import annotations

import numpy as np

from qcgen.errors import ModelRejected
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Int64s, OrionConv, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.lower.conv import conv_geometry
from qcgen.lower.orion_magnitudes import FORMATS, overflows
from qcgen.lower.orion_operands import OrionOperands
from qcgen.orion.arithmetic import multiply


def lower_orion(node: Node, graph: Graph, fraction_bits: int) -> OrionConv:
    """The convolution that a QLinearConv of ai.onnx means in FP16x16 (16 fraction bits) or FP8x23 (23).

    ``check`` has accepted the node. Raises ModelRejected with every problem: operands of other types or scales than
    Orion has or, once these are right, numbers that leave 32 bits for every input, where Orion panics. The geometry is
    ONNX's: Orion's own reading of auto_pad and dilations is not followed.
    """
    assert fraction_bits in FORMATS, f"Orion has no 32-bit format with {fraction_bits} fraction bits"
    operands = OrionOperands(node, graph, fraction_bits)
    op = _assemble(operands)
    problems = operands.problems if op is None else overflows(operands.where, op)
    if problems:
        raise ModelRejected(problems)
    assert op is not None, "what cannot be assembled has a problem"
    return op


def _assemble(operands: OrionOperands) -> OrionConv | None:
    """The convolution, its numbers of any size; None if ``operands`` has found problems."""
    node, f = operands.node, operands.fraction_bits
    (x_scale, xs), (_, ws), (y_scale, ys) = (operands.scale(name) for name in ("x_scale", "w_scale", "y_scale"))
    x_zp, w_zp, y_zp = (operands.zero_point(name) for name in ("x_zero_point", "w_zero_point", "y_zero_point"))
    codes, x_shape = operands.weights(), operands.x_shape()
    bias = None if codes is None else operands.bias(codes.shape[0], xs, ws)
    if operands.problems or codes is None or bias is None or x_shape is None:
        return None
    geometry, _ = conv_geometry(node, operands.graph)
    y_shape = (geometry.batch, geometry.out_channels, *geometry.output)
    return OrionConv(
        name=node.name,
        op_type=node.op_type,
        x=Tensor(node.input(0), DType.INT8, x_shape, Layout.CHANNELS_FIRST, x_scale, x_zp),
        y=Tensor(node.outputs[0], DType.INT8, y_shape, Layout.CHANNELS_FIRST, y_scale, y_zp),
        geometry=geometry,
        fraction_bits=f,
        x_values=dequantize(np.arange(-128, 128, dtype=np.int64), x_zp, xs, f),
        weights=dequantize(codes, w_zp, ws, f),
        bias=bias,
        y_scale=ys,
        y_zero_point=y_zp << f,
    )


def dequantize(codes: Int64s, zero_point: int, scale: int, fraction_bits: int) -> Int64s:
    """(q·2^f − zp·2^f) · scale as Orion computes it; int8 codes and zero point, 0 <= scale < 2^32: below 2^63."""
    return multiply((codes - zero_point) << fraction_bits, scale, fraction_bits)
