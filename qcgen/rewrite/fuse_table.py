"""Any function of one dequantized tensor, element by element, then QuantizeLinear: one table, or one a channel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite import pointwise
from qcgen.rewrite.fold_constants import float_constant
from qcgen.rewrite.quantization import Dequantized, GraphQuantization, activation, is_quantize, quantization_of
from qcgen.rewrite.tables import clamp_node, lookup_node
from qcgen.rewrite.wiring import Change, Wiring

DEPTH = 16
"""Operators in a row that are followed back; longer rows are left in float."""


def fuse_table(wiring: Wiring, node: Node) -> Change | None:
    """A QuantizeLinear whose input is computed from a single 8-bit tensor and constants, element by element."""
    if not is_quantize(node) or activation(wiring, node.input(0)) is not None:
        return None
    target, found = quantization_of(wiring, node), _function(wiring, node.input(0), DEPTH)
    if target is None or not target.is_8_bit_per_tensor or found is None or found.source is None:
        return None
    table = target.codes(found.values)
    if found.axis is not None and (table != table[0]).any():
        return _tabulated_by_channel(wiring, node, found, target, table)
    return _tabulated(wiring, node, found.source, target, table[0])


def _tabulated_by_channel(
    wiring: Wiring, node: Node, found: _Function, target: GraphQuantization, table: Array
) -> Change:
    """A table for each channel."""
    assert found.source is not None, "a table is looked up by codes"
    assert found.axis is not None, "channels lie along an axis"
    source, rank = found.source, len(wiring.graph.value(found.source.codes).shape or ())
    meaning = (source.quantization, target)
    lookup, constants = lookup_node(wiring, node.name, source.codes, node.outputs[0], meaning, table)
    return Change(node, (replace(lookup, attributes={"axis": rank + found.axis}),), constants=constants)


def _tabulated(wiring: Wiring, node: Node, source: Dequantized, target: GraphQuantization, table: Array) -> Change:
    """A table, or a clamp of the codes where the table is one and the codes mean the same before and behind it."""
    meaning, output = source.quantization, node.outputs[0]
    low, high = table.min(), table.max()
    if meaning.same_as(target) and np.array_equal(np.clip(meaning.all_codes(), low, high), table):
        bounds = (int(low), int(high))
        clamp, constants = clamp_node(wiring, node.name, source.codes, output, bounds, target.dtype)
        return Change(node, (clamp,), constants=constants)
    lookup, constants = lookup_node(wiring, node.name, source.codes, output, (meaning, target), table)
    return Change(node, (lookup,), constants=constants)


@dataclass(frozen=True)
class _Function:
    """``values`` (channels or 1, codes or 1) float32: of each code of ``source``, or of numbers that depend on nothing.

    With more than one channel, these are the places of ``axis``, counted back from the last one, -1.
    """

    source: Dequantized | None
    values: Array
    axis: int | None = None


def _function(wiring: Wiring, tensor: str, depth: int) -> _Function | None:
    """A tensor as a function of one 8-bit tensor, None if it is not such a function."""
    constant = float_constant(wiring, tensor)
    if constant is not None:
        return _constant(constant)
    source = activation(wiring, tensor)
    if source is not None:
        meaning = source.quantization
        return _Function(source, meaning.real_values(meaning.all_codes()).reshape(1, -1))
    node = wiring.producers.get(tensor)
    if node is None or depth == 0:
        return None
    if (node.domain, node.op_type) == ("", "BatchNormalization"):
        return _normalized(wiring, node, depth)
    names = pointwise.arguments(wiring, node)
    return None if names is None else _applied(wiring, node, names, depth)


def _normalized(wiring: Wiring, node: Node, depth: int) -> _Function | None:
    """BatchNormalization in inference: x * s + (bias - mean * s), s = scale * (1 / sqrt(var + epsilon)), in float32.

    Each operation is rounded. Source: BatchNormalization of onnxruntime's CPU provider.
    """
    if len(node.inputs) != 5 or any(node.outputs[1:]) or node.attributes.get("training_mode", 0):
        return None
    x, epsilon = _function(wiring, node.inputs[0], depth - 1), node.attributes.get("epsilon", 1e-5)
    found = [float_constant(wiring, name) for name in node.inputs[1:]]
    constants = [constant.reshape(-1, 1) for constant in found if constant is not None]
    if x is None or x.source is None or len(constants) != 4 or not isinstance(epsilon, int | float):
        return None
    shape, channels = wiring.graph.value(x.source.codes).shape or (), len(constants[0])
    if len(shape) < 2 or shape[1] != channels or {len(constant) for constant in constants} != {channels}:
        return None
    if node.attributes.get("spatial", 1) != 1 or x.axis not in (None, 1 - len(shape)):
        return None
    scale, bias, mean, variance = constants
    with np.errstate(all="ignore"):
        factor = scale * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))
        values = np.asarray(x.values * factor + (bias - mean * factor), np.float32)
    return _Function(x.source, values, 1 - len(shape) if channels > 1 else None)


def _constant(constant: Array) -> _Function | None:
    """Numbers along one axis at most."""
    long = [axis for axis, size in enumerate(constant.shape) if size > 1]
    if len(long) > 1 or constant.size == 0:
        return None
    return _Function(None, constant.reshape(-1, 1), long[0] - constant.ndim if long else None)


def _applied(wiring: Wiring, node: Node, names: tuple[str, ...], depth: int) -> _Function | None:
    """An operator applied to functions of one tensor or of none."""
    arguments = [_function(wiring, name, depth - 1) for name in names]
    functions = [argument for argument in arguments if argument is not None]
    sources = [function.source for function in functions if function.source is not None]
    axes = {function.axis for function in functions if function.axis is not None}
    if len(functions) != len(arguments) or not sources or len(axes) > 1:
        return None
    first = sources[0]
    if any(other.codes != first.codes or not other.quantization.same_as(first.quantization) for other in sources):
        return None
    if not _keeps_shape(wiring, first, names, max(len(function.values) for function in functions), axes):
        return None
    values = pointwise.value(wiring, node, tuple(function.values for function in functions))
    return _Function(first, values, next(iter(axes), None))


def _keeps_shape(wiring: Wiring, source: Dequantized, names: tuple[str, ...], channels: int, axes: set[int]) -> bool:
    """Whether broadcasting constants leaves the tensor its shape, with as many channels as the constants have."""
    shape = wiring.graph.value(source.codes).shape
    ranks = [constant.ndim for name in names if (constant := float_constant(wiring, name)) is not None]
    if shape is None:
        return not axes and max(ranks, default=0) <= 1
    if max(ranks, default=0) > max(len(shape), 1 if not axes else 0):
        return False
    return all(-axis <= len(shape) and shape[axis] == channels for axis in axes)
