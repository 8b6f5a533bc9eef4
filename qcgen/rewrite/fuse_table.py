"""Any function of one dequantized tensor, element by element, then QuantizeLinear: one table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite import pointwise
from qcgen.rewrite.quantization import Dequantized, Quantization, activation, is_quantize, quantization_of
from qcgen.rewrite.tables import clamp_node, lookup_node
from qcgen.rewrite.wiring import Change, Wiring

DEPTH = 16
"""Operators in a row that are followed back; longer rows are left in float."""


def fuse_table(wiring: Wiring, node: Node) -> Change | None:
    """A QuantizeLinear whose input is computed from a single 8-bit tensor and constant numbers, element by element."""
    if not is_quantize(node) or activation(wiring, node.input(0)) is not None:
        return None
    target, found = quantization_of(wiring, node), _function(wiring, node.input(0), DEPTH)
    if target is None or not target.is_8_bit_per_tensor or found is None or found.source is None:
        return None
    return _tabulated(wiring, node, found.source, target, target.codes(found.values))


def _tabulated(wiring: Wiring, node: Node, source: Dequantized, target: Quantization, table: Array) -> Change:
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
    """``values`` float32: one for each code of ``source``, or a single number that depends on nothing."""

    source: Dequantized | None
    values: Array


def _function(wiring: Wiring, tensor: str, depth: int) -> _Function | None:
    """A tensor as a function of one 8-bit tensor, None if it is no such function."""
    constant = wiring.constant(tensor)
    if constant is not None:
        is_number = constant.size == 1 and constant.ndim <= 1 and constant.dtype == np.float32
        return _Function(None, constant.reshape(())) if is_number else None
    source = activation(wiring, tensor)
    if source is not None:
        meaning, codes = source.quantization, wiring.constant(source.codes)
        if codes is not None and codes.size == 1 and codes.ndim <= 1:  # a number that was quantized
            return _Function(None, meaning.real_values(codes).reshape(()))
        return _Function(source, meaning.real_values(meaning.all_codes()))
    node = wiring.producers.get(tensor)
    names = None if node is None or depth == 0 else pointwise.arguments(wiring, node)
    return None if node is None or names is None else _applied(wiring, node, names, depth)


def _applied(wiring: Wiring, node: Node, names: tuple[str, ...], depth: int) -> _Function | None:
    """An operator applied to functions of one tensor or of none."""
    arguments = [_function(wiring, name, depth - 1) for name in names]
    functions = [argument for argument in arguments if argument is not None]
    sources = [function.source for function in functions if function.source is not None]
    if len(functions) != len(arguments) or not sources:
        return None
    first = sources[0]
    if any(other.codes != first.codes or not other.quantization.same_as(first.quantization) for other in sources):
        return None
    try:
        values = pointwise.value(wiring, node, tuple(function.values for function in functions))
    except TypeError:
        # A malformed attribute; check reports it.
        return None
    return _Function(first, values)
