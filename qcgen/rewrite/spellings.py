"""Nodes that are another spelling of other operators."""

from __future__ import annotations

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

# Products of onnxruntime's optimizer that end in float become the operators that they were made of.

CAST_TO_FLOAT = 1
"""ONNX's number of float."""


def write_out_products(wiring: Wiring, node: Node) -> Change | None:
    """DynamicQuantizeMatMul and MatMulIntegerToFloat of a constant matrix: sum * (a_scale * b_scale) + bias.

    Each operation is rounded by itself, as in onnxruntime.
    """
    if node.domain != "com.microsoft" or any(node.outputs[1:]):
        return None
    steps = Steps(wiring, node)
    if node.op_type == "DynamicQuantizeMatMul":
        x, b, b_scale, b_zero, bias = (node.input(index) for index in range(5))
        if wiring.constant(x) is not None or wiring.graph.value(x).dtype is not DType.FLOAT32:
            return None
        a, a_scale, a_zero = found = tuple(steps.fresh(role) for role in ("codes", "scale", "zero_point"))
        steps.nodes.append(Node(steps.fresh("quantize"), "DynamicQuantizeLinear", "", (x,), found, {}))
    elif node.op_type == "MatMulIntegerToFloat":
        a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(index) for index in range(7))
    else:
        return None
    matrix = wiring.constant(b)
    if matrix is None or matrix.ndim != 2 or not a_scale or not b_scale:
        return None
    sums = steps.step("MatMulInteger", a, b, a_zero, b_zero)
    numbers = steps.step("Cast", sums, to=CAST_TO_FLOAT)
    unit = steps.step("Mul", a_scale, b_scale)
    scaled = steps.step("Mul", numbers, unit, is_last=not bias)
    if bias:
        steps.step("Add", scaled, bias, is_last=True)
    return steps.change()


# Weights of few bits in blocks are unpacked, and their product is one of float32 numbers.


def write_out_blocks(wiring: Wiring, node: Node) -> Change | None:
    """MatMulNBits of constant weights (N, blocks, bytes), the lowest bits first: A times their float32 numbers (K, N).

    Scales (N, blocks), zero points packed likewise, the middle of the codes without them. Not of an accuracy_level that
    quantizes A. Source: com.microsoft.MatMulNBits-1, and onnxruntime 1.32.0 on which numbers it multiplies.
    """
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits") or node.input(4):
        return None
    k, n, bits, block, level = (_integer(node, name) for name in ("K", "N", "bits", "block_size", "accuracy_level"))
    packed, scales, zeros = (wiring.constant(node.input(index)) for index in (1, 2, 3))
    if packed is None or scales is None or scales.dtype != np.float32 or level > 1 or bits not in (2, 4, 8):
        return None
    if min(k, n, block) < 1 or (node.input(3) and zeros is None):
        return None
    blocks = -(-k // block)
    if scales.size != n * blocks or packed.size * 8 != n * blocks * block * bits:
        return None
    codes = _unpacked(packed.reshape(n, -1), bits)[:, : blocks * block].reshape(n, blocks, block)
    zero = np.full((n, blocks), 1 << (bits - 1))
    if zeros is not None:
        is_plain = zeros.dtype == np.float32
        if zeros.size != n * (blocks if is_plain else -(-blocks * bits // 8)):
            return None
        zero = zeros if is_plain else _unpacked(zeros.reshape(n, -1), bits)[:, :blocks]
    difference = codes.astype(np.float32) - zero.reshape(n, blocks, 1).astype(np.float32)
    numbers = (difference * scales.reshape(n, blocks, 1)).reshape(n, -1)[:, :k]
    steps, bias = Steps(wiring, node), node.input(5)
    product = steps.step("MatMul", node.inputs[0], steps.constant("weights", numbers.T.copy()), is_last=not bias)
    if bias:
        steps.step("Add", product, bias, is_last=True)
    return steps.change()


def _integer(node: Node, name: str) -> int:
    value = node.attributes.get(name, {"bits": 4, "accuracy_level": 0}.get(name))
    if not isinstance(value, int):
        raise NoMatch
    return value


def _unpacked(packed: Array, bits: int) -> Array:
    """Codes of few bits, along the last axis, of bytes that hold several."""
    parts = [packed >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)
