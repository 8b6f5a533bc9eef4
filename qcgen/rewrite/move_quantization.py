"""Quantization moves forward, dequantization back, through nodes that only move elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.clamps import clamp_of
from qcgen.rewrite.movement import CHOICES, data_inputs, is_movement, on_codes, pad_value
from qcgen.rewrite.quantization import (
    Dequantized,
    GraphQuantization,
    activation,
    activation_of_codes,
    dequantized,
    is_dequantize,
    quantizer,
    quantizer_to_codes,
)
from qcgen.rewrite.wiring import Change, Wiring

# Quantization moves in front of operators that commute with it.

CROSSED = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""The operators in front of which onnxruntime, too, moves a QuantizeLinear."""


def quantize_earlier(wiring: Wiring, node: Node) -> Change | None:
    """A movement, MaxPool, Relu or Clip that QuantizeLinear alone reads works on the codes instead.

    Split is left out: it has several readers. What chooses one of many elements that are dequantized stays: there is
    less to quantize behind it.
    """
    if (
        not (is_movement(node) or clamp_of(wiring, node) is not None)
        or len(node.outputs) != 1
        or _recodes(wiring, node)
    ):
        return None
    found = quantizer_to_codes(wiring, node.outputs[0])
    if found is None or (node.op_type in CHOICES and activation_of_codes(wiring, node.input(0)) is not None):
        return None
    sources = data_inputs(node)
    codes = tuple(wiring.fresh(f"{source}_quantized") for source in dict.fromkeys(sources))
    by_source = dict(zip(dict.fromkeys(sources), codes, strict=True))
    inputs = tuple(by_source[source] for source in sources)
    moved = on_codes(wiring, node, inputs, (found.output,), found.quantization)
    clamp = clamp_of(wiring, node)
    if moved is None or (clamp is not None and _may_be_nan(wiring, node.input(0))):
        return None
    bounds = None if clamp is None else clamp.codes(found.quantization)
    stops = _stops_quantization(node, bounds, found.quantization.dtype)
    earlier = tuple(
        replace(
            found.node,
            name=found.node.name if index == 0 else wiring.fresh(f"{found.node.name}_of_{source}"),
            inputs=(source, *found.node.inputs[1:]),
            outputs=(by_source[source],),
            in_float=found.node.in_float or stops,
        )
        for index, source in enumerate(by_source)
    )
    # On through all movements at once; a clamp may become part of what is in front of it, and waits for that.
    before = (wiring.producers.get(source) for source in by_source)
    again = tuple(maker.name for maker in before if maker is not None and is_movement(maker))
    return Change(node, (*earlier, moved[0]), remove=(found.node,), constants=moved[1], again=again)


MAKE_NAN = frozenset({"Div", "Log", "Pow", "Sqrt"})
"""Operators that may give NaN for finite numbers."""


def _may_be_nan(wiring: Wiring, tensor: str) -> bool:
    """Whether a tensor may hold NaN, which gives the lowest code, also behind a Relu: not the code of its bound."""
    left, seen = [tensor], set[str]()
    while left:
        maker = wiring.producers.get(left.pop())
        if maker is None or maker.name in seen or is_dequantize(maker):
            continue
        seen.add(maker.name)
        divisor = wiring.constant(maker.input(1)) if maker.op_type == "Div" else None
        if maker.op_type in MAKE_NAN and (divisor is None or not divisor.all()):
            return True
        left += maker.inputs
    return False


def _stops_quantization(node: Node, codes: tuple[int, int] | None, dtype: DType) -> bool:
    """Whether a QuantizeLinear stays behind this node in onnxruntime, so that what is in front of it stays in float.

    ``codes`` are the bounds of a Relu or Clip, None for a movement: one that reaches from end to end of the codes'
    type is dropped there. Source: models as onnxruntime 1.32.0 optimizes them, with session.qdqisint8allowed=1.
    """
    return node.op_type not in CROSSED if codes is None else codes != (dtype.low, dtype.high)


def _recodes(wiring: Wiring, node: Node) -> bool:
    """Whether this is a Relu or Clip between 8-bit codes of two meanings: one table does it all."""
    source, target = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0]) if node.outputs else None
    is_between = source is not None and target is not None and not source.quantization.same_as(target.quantization)
    return is_between and clamp_of(wiring, node) is not None


# Dequantization moves behind operators that commute with it.


def dequantize_later(wiring: Wiring, node: Node) -> Change | None:
    """A movement, MaxPool, Relu or Clip whose data are all dequantized alike works on the codes instead.

    Only where the values stay what they were, to the last bit: bounds and the constant of a Pad must be values of
    codes, or bounds beyond all of them.
    """
    if not (is_movement(node) or clamp_of(wiring, node) is not None) or _recodes(wiring, node):
        return None
    sources = [dequantized(wiring, name) for name in data_inputs(node)]
    first = sources[0] if sources else None
    if first is None or not all(source and source.quantization.same_as(first.quantization) for source in sources):
        return None
    after = _meaning_after(wiring, node, first)
    if after is None:
        return None
    codes = tuple(wiring.fresh(f"{name}_quantized") if name else "" for name in node.outputs)
    inputs = tuple(source.codes for source in sources if source is not None)
    moved = on_codes(wiring, node, inputs, codes, first.quantization)
    if moved is None:
        return None
    pairs = zip(codes, node.outputs, strict=True)
    later = tuple(_dequantize(wiring, source, name, after) for source, name in pairs if name)
    return Change(node, (moved[0], *later), constants=moved[1])


def _dequantize(wiring: Wiring, codes: str, output: str, meaning: GraphQuantization) -> Node:
    attributes: Mapping[str, int] = {} if meaning.axis is None else {"axis": meaning.axis}
    name = wiring.fresh(f"{output}_dequantize")
    return Node(name, "DequantizeLinear", "", (codes, *meaning.names), (output,), attributes)


def _meaning_after(wiring: Wiring, node: Node, source: Dequantized) -> GraphQuantization | None:
    """What the codes mean behind the node; None if a value would change."""
    quantization = source.quantization
    if quantization.axis is not None:
        return _transposed(wiring, node, source)
    if not quantization.dtype.is_code:
        return quantization if node.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose") else None
    clamp = clamp_of(wiring, node)
    if clamp is not None:
        codes = quantization.all_codes()
        clamped = np.minimum(np.maximum(codes, clamp.codes(quantization)[0]), clamp.codes(quantization)[1])
        same = np.array_equal(quantization.real_values(clamped), clamp.of(quantization.real_values(codes)))
        return quantization if same else None
    if node.op_type == "Pad" and node.attributes.get("mode", "constant") == "constant":
        value = pad_value(wiring, node)
        return quantization if value is not None and _is_value(quantization, np.array(value, np.float32)) else None
    return quantization


def _is_value(quantization: GraphQuantization, value: Array) -> bool:
    return not np.isnan(value) and bool(quantization.real_values(quantization.codes(value)) == value)


def _transposed(wiring: Wiring, node: Node, source: Dequantized) -> GraphQuantization | None:
    """Scales along an axis survive a Transpose of constants, and nothing else."""
    codes, axis = wiring.constant(source.codes), source.quantization.axis
    if node.op_type != "Transpose" or codes is None or axis is None:
        return None
    perm = node.attributes.get("perm", tuple(reversed(range(codes.ndim))))
    if not isinstance(perm, tuple) or axis not in perm:
        return None
    return replace(source.quantization, axis=perm.index(axis))
