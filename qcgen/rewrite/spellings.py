"""Nodes that are another spelling of other operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.infer.facts import integers
from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import quantizer
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

# Cast of 8-bit codes to float is DequantizeLinear with scale 1 and zero point 0.


def name_casts(wiring: Wiring, node: Node) -> Change | None:
    """Images that come as bytes are cast and scaled before they are quantized: with this, all of it is one table."""
    to, x = node.attributes.get("to"), wiring.graph.value(node.input(0))
    if (node.domain, node.op_type) != ("", "Cast") or not isinstance(to, int) or x.dtype is None:
        return None
    if element_type(to) is not DType.FLOAT32 or not x.dtype.is_quantized or wiring.constant(x.name) is not None:
        return None
    scale, zero_point = wiring.fresh(f"{node.name}_scale"), wiring.fresh(f"{node.name}_zero_point")
    constants = {scale: np.array(1, np.float32), zero_point: np.array(0, x.dtype.numpy)}
    dequantize = Node(node.name, "DequantizeLinear", "", (node.inputs[0], scale, zero_point), node.outputs, {})
    return Change(node, (dequantize,), constants=constants)


# ReduceMean over all pixels is GlobalAveragePool.


def name_means(wiring: Wiring, node: Node) -> Change | None:
    """ReduceMean over every axis but the first two, which is quantized; without keepdims a Flatten follows.

    In float the two add up in other orders.
    """
    if (node.domain, node.op_type) != ("", "ReduceMean") or quantizer(wiring, node.outputs[0]) is None:
        return None
    axes, shape = axes_of(wiring, node), wiring.graph.value(node.input(0)).shape
    if axes is None or shape is None or len(shape) < 3:
        return None
    if sorted(axis % len(shape) for axis in axes) != list(range(2, len(shape))):
        return None
    pool = Node(node.name, "GlobalAveragePool", "", node.inputs[:1], node.outputs, {}, in_float=True)
    if node.attributes.get("keepdims", 1):
        return Change(node, (pool,))
    pixels = wiring.fresh(f"{node.outputs[0]}_pixels")
    flatten = Node(wiring.fresh(f"{node.name}_flatten"), "Flatten", "", (pixels,), node.outputs, {"axis": 1})
    return Change(node, (replace(pool, outputs=(pixels,)), flatten))


def axes_of(wiring: Wiring, node: Node) -> tuple[int, ...] | None:
    """The axes, an input in newer opsets; None if they are absent or not constant."""
    given = wiring.constant(node.input(1)) if node.input(1) else node.attributes.get("axes")
    return None if given is None else integers(given)


# GatherND at constant places is Gather along one axis.


def gather_places(wiring: Wiring, node: Node) -> Change | None:
    """The axes that the places name become one, along which their numbers are taken; without batch_dims."""
    if (node.domain, node.op_type) != ("", "GatherND") or node.attributes.get("batch_dims", 0):
        return None
    places, shape = wiring.constant(node.input(1)), wiring.graph.value(node.input(0)).fixed_shape
    if places is None or shape is None or places.ndim < 1 or not 1 <= places.shape[-1] <= len(shape):
        return None
    axes = places.shape[-1]
    sizes = np.array(shape[:axes])
    if places.size == 0 or (places < -sizes).any() or (places >= sizes).any():
        return None
    numbers = np.ravel_multi_index(tuple(np.moveaxis(places % sizes, -1, 0)), shape[:axes])
    names = [wiring.fresh(f"{node.name}_{role}") for role in ("joined", "shape", "numbers", "reshape")]
    joined, to, which, reshape = names
    constants = {to: np.array([-1, *shape[axes:]], np.int64), which: np.asarray(numbers, np.int64)}
    nodes = (
        Node(reshape, "Reshape", "", (node.inputs[0], to), (joined,), {}),
        Node(node.name, "Gather", "", (joined, which), node.outputs, {"axis": 0}),
    )
    return Change(node, nodes, constants=constants)


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
