"""Normalizations behind convolutions become a part of their weights: a quantizer would take them one by one."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from qcgen.ir.types import Array

_LINES = {"BatchNormalization": 1, "Add": 2, "Sub": 2, "Mul": 2, "Div": 2}
"""Operators that do the same to all elements of a channel, and the number of inputs that may be data."""


def fold_normalizations(model: ModelProto) -> int:
    """Changes the model: BatchNormalization, and what stands for it, goes into the convolution before it; how many did.

    Exporters of Keras write Sub, Mul and Add in its place, also behind a Transpose to channels last.
    """
    count = 0
    while _fold_one(model):
        count += 1
    unused = [each for each in model.graph.initializer if not _readers(model, each.name)]
    for tensor in unused:
        model.graph.initializer.remove(tensor)
    return count


def _fold_one(model: ModelProto) -> bool:
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.domain or node.op_type not in _LINES:
            continue
        for index, name in enumerate(node.input[: _LINES[node.op_type]]):
            axis, between = 1, makers.get(name)
            if between is not None and between.op_type == "Transpose" and _readers(model, name) == 1:
                perm = next((tuple(each.ints) for each in between.attribute if each.name == "perm"), ())
                axis, name = (perm.index(1) if 1 in perm else -1), between.input[0]
            conv = makers.get(name)
            if conv is None or conv.op_type != "Conv" or conv.domain or axis < 0 or _readers(model, name) != 1:
                continue
            if conv.input[1] not in constants or any(each and each not in constants for each in conv.input[2:]):
                continue
            weights = constants[conv.input[1]]
            line = _line(node, index, constants, len(weights), axis, weights.ndim)
            if line is not None:
                _take(model, conv, node, index, constants, line)
                return True
    return False


def _readers(model: ModelProto, name: str) -> int:
    """How often a tensor is used."""
    read = [used for node in model.graph.node for used in node.input]
    return [*read, *(output.name for output in model.graph.output)].count(name)


def _line(
    node: NodeProto, index: int, constants: dict[str, Array], channels: int, axis: int, rank: int
) -> tuple[Array, Array] | None:
    """Factor and summand of each channel, None if the node does something else."""
    if node.op_type == "BatchNormalization":
        if axis != 1 or len(node.output) != 1 or any(name not in constants for name in node.input[1:5]):
            return None
        gamma, beta, mean, variance = (constants[name].astype(np.float64) for name in node.input[1:5])
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-5)
        factor = gamma / np.sqrt(variance + epsilon)
        return factor, beta - mean * factor
    other = constants.get(node.input[1 - index])
    if other is None or other.dtype != np.float32:
        return None
    value = _of_channels(other.astype(np.float64), channels, axis, rank)
    if value is None:
        return None
    one, zero = np.ones(channels), np.zeros(channels)
    match node.op_type, index:
        case "Add", _:
            return one, value
        case "Sub", 0:
            return one, -value
        case "Sub", 1:
            return -one, value
        case "Mul", _:
            return value, zero
        case "Div", 0:
            return 1 / value, zero
    return None


def _of_channels(value: Array, channels: int, axis: int, rank: int) -> Array | None:
    """A number for each channel of an array that is the same along all other axes."""
    shape = (1,) * (rank - value.ndim) + value.shape
    wanted = tuple(channels if each == axis else 1 for each in range(rank))
    if len(shape) != rank or any(own not in (1, other) for own, other in zip(shape, wanted, strict=True)):
        return None
    return np.array(np.broadcast_to(value.reshape(shape), wanted).reshape(channels))


def _take(
    model: ModelProto,
    conv: NodeProto,
    node: NodeProto,
    index: int,
    constants: dict[str, Array],
    line: tuple[Array, Array],
) -> None:
    """The convolution takes up the line of each channel; the node goes."""
    factor, summand = line
    weights = constants[conv.input[1]]
    bias = constants[conv.input[2]] if len(conv.input) > 2 and conv.input[2] else np.zeros(len(weights), np.float32)
    scaled = weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
    fresh = _fresh(model, conv)
    for part, values in (("weights", scaled), ("bias", bias * factor + summand)):
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), f"{fresh}_{part}"))
    del conv.input[1:]
    conv.input.extend([f"{fresh}_weights", f"{fresh}_bias"])
    # What made the node's input makes its output now.
    source, target = node.input[index], node.output[0]
    for other in model.graph.node:
        if other is not node:
            other.output[:] = [target if name == source else name for name in other.output]
    model.graph.node.remove(node)


def _fresh(model: ModelProto, conv: NodeProto) -> str:
    """The beginning of names that the model does not have."""
    taken = {each.name for each in model.graph.initializer}
    number = 0
    while f"{conv.output[0]}_folded{number}_weights" in taken:
        number += 1
    return f"{conv.output[0]}_folded{number}"
