"""Operators as several simpler ones: normalized batches, sums behind products, products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.fold_constants import float_constant
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring


def decompose_float_ops(wiring: Wiring, node: Node) -> Change | None:
    """A float node as several simpler ones."""
    way = WAYS.get((node.domain, node.op_type))
    is_float = wiring.graph.dtype(node.input(0)) is DType.FLOAT32
    return way(wiring, node) if way is not None and is_float and not any(node.outputs[1:]) else None


def _batch_normalization(wiring: Wiring, node: Node) -> Change | None:
    """x * s + (bias - mean * s), s = scale * (1 / sqrt(var + epsilon)), each operation rounded as in onnxruntime.

    Of an image in blocks of channels s = scale / sqrt(var + epsilon).
    """
    x, found = wiring.graph.value(node.inputs[0]).shape, [float_constant(wiring, name) for name in node.inputs[1:]]
    constants = [constant for constant in found if constant is not None]
    if x is None or len(x) < 2 or len(constants) != 4 or {each.shape for each in constants} != {(x[1],)}:
        return None
    if node.attributes.get("training_mode", 0) or node.attributes.get("spatial", 1) != 1:
        return None
    scale, bias, mean, variance = constants
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance + _epsilon(node))
        factor = scale / deviation if node.inputs[0] in wiring.graph.in_blocks else scale * (np.float32(1) / deviation)
        addend = bias - mean * factor
    steps, shape = Steps(wiring, node), (-1, *(1,) * (len(x) - 2))
    product = steps.step("Mul", node.inputs[0], steps.constant("factor", factor.reshape(shape)))
    inputs = (product, steps.constant("addend", addend.reshape(shape)))
    steps.nodes.append(Node(node.name, "Add", "", inputs, node.outputs[:1], {}, written=node.operator))
    return steps.change()


def _epsilon(node: Node) -> np.float32:
    epsilon = node.attributes.get("epsilon", 1e-5)
    if not isinstance(epsilon, int | float):
        raise NoMatch
    return np.float32(epsilon)


def _gemm(wiring: Wiring, node: Node) -> Change | None:
    """alpha * A * B, then beta * C where that is computed."""
    if not node.input(2) or wiring.constant(node.input(2)) is not None:
        return None
    beta, addend = node.attributes.get("beta", 1.0), node.input(2)
    if not isinstance(beta, int | float):
        return None
    steps = Steps(wiring, node)
    attributes = {name: value for name, value in node.attributes.items() if name != "beta"}
    product = steps.fresh("step_0")
    steps.nodes.append(Node(steps.fresh("gemm_0"), "Gemm", "", node.inputs[:2], (product,), attributes))
    if beta != 1:
        addend = steps.step("Mul", addend, steps.constant("beta", np.asarray(beta, np.float32)))
    steps.step("Add", product, addend, is_last=True)
    return steps.change()


WAYS: Mapping[tuple[str, str], Callable[[Wiring, Node], Change | None]] = {
    ("", "BatchNormalization"): _batch_normalization,
    ("", "Gemm"): _gemm,
}
"""By (domain, op_type)."""


def widen_vectors(wiring: Wiring, node: Node) -> Change | None:
    """The product with a vector that is constant, or dequantized, is that with a matrix of one row or column."""
    if (node.domain, node.op_type) != ("", "MatMul") or len(node.inputs) != 2:
        return None
    shape, operands, steps = wiring.graph.value(node.outputs[0]).fixed_shape, list(node.inputs), Steps(wiring, node)
    for axis, name in enumerate(node.inputs):
        if _is_vector(wiring, name):
            operands[axis] = steps.step("Unsqueeze", name, steps.constant(f"axis_{axis}", np.array([axis], np.int64)))
    if shape is None or tuple(operands) == node.inputs:
        return None
    product, reshape = wiring.fresh(f"{node.name}_product"), wiring.fresh(f"{node.name}_reshape")
    steps.nodes.append(replace(node, inputs=tuple(operands), outputs=(product,)))
    to = steps.constant("shape", np.array(shape, np.int64))
    steps.nodes.append(Node(reshape, "Reshape", "", (product, to), node.outputs, {}))
    return steps.change()


def _is_vector(wiring: Wiring, name: str) -> bool:
    found = dequantized(wiring, name)
    constant = wiring.constant(name if found is None else found.codes)
    return constant is not None and constant.ndim == 1
