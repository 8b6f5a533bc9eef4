"""Pairs of DequantizeLinear and QuantizeLinear that change nothing vanish; two in a row become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import GraphQuantization, dequantized, is_dequantize, is_quantize, quantization_of
from qcgen.rewrite.wiring import Change, Wiring


def join_pairs(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear behind DequantizeLinear, where both mean the same."""
    if not is_quantize(node):
        return None
    source, target = dequantized(wiring, node.input(0)), quantization_of(wiring, node)
    if source is None or target is None or not source.quantization.same_as(target):
        return None
    output = node.outputs[0]
    if output in wiring.outputs:
        return Change(node, (Node(node.name, "Identity", "", (source.codes,), (output,), {}),))
    return Change(node, rename={output: source.codes})


# Quantized, dequantized, quantized and dequantized again: once is enough, with what both pairs can express.

EQUAL = 1e-20
"""Scales that differ by less are equal to onnxruntime, however small both are: each outer node keeps its own."""


def join_double_pairs(wiring: Wiring, node: Node) -> Change | None:
    """The DequantizeLinear in the middle of QuantizeLinear, DequantizeLinear, QuantizeLinear, DequantizeLinear.

    The outer two get the range that both pairs have in common, so the codes are others than those of two roundings.
    Only where the first two have one reader each, the third is read by DequantizeLinear alone, by all of them in one
    meaning, and both pairs have one type of 8 or 16 bits and all zero points.
    Source: DoubleQDQPairsRemover of onnxruntime.
    """
    first, second = wiring.producers.get(node.input(0)), wiring.only_reader(node.outputs[0])
    if first is None or second is None or wiring.only_reader(node.input(0)) is None:
        return None
    if not (is_dequantize(node) and is_quantize(first) and is_quantize(second)):
        return None
    last = () if second.outputs[0] in wiring.outputs else wiring.readers.get(second.outputs[0], ())
    by, then = _of_pair(wiring, first, node), _of_pairs(wiring, second, last)
    if by is None or then is None or by.dtype is not then.dtype or by.same_as(then):
        return None
    # Four pairs in a row become two, then one, as in onnxruntime: under its new name a last node is looked at later.
    last_joined = tuple(replace(each, name=wiring.fresh(f"{each.name}_joined")) for each in last)
    if int(by.zero_point) == int(then.zero_point) and abs(np.float32(by.scale) - np.float32(then.scale)) < EQUAL:
        nodes = tuple(replace(each, inputs=(node.inputs[0], *each.inputs[1:])) for each in last_joined)
        return Change(node, nodes, remove=(second, *last))
    common = _common(by, then)
    if common is None:
        return None
    names = tuple(wiring.fresh(f"{node.name}_{role}") for role in ("scale", "zero_point"))
    constants: Mapping[str, Array] = dict(zip(names, common, strict=True))
    nodes = (
        replace(first, inputs=(first.inputs[0], *names)),
        *(replace(each, inputs=(first.outputs[0], *names)) for each in last_joined),
    )
    return Change(node, nodes, remove=(first, second, *last), constants=constants)


def _of_pairs(wiring: Wiring, quantize: Node, readers: tuple[Node, ...]) -> GraphQuantization | None:
    """The meaning of the codes that a QuantizeLinear makes for DequantizeLinear nodes that all say the same of it."""
    if not readers or not all(map(is_dequantize, readers)):
        return None
    meanings = [_of_pair(wiring, quantize, reader) for reader in readers]
    return meanings[0] if None not in meanings else None


def _of_pair(wiring: Wiring, quantize: Node, dequantize: Node) -> GraphQuantization | None:
    """The meaning of the codes between two nodes that say the same of it."""
    if not (quantize.input(2) and dequantize.input(2)):
        return None
    one, other = quantization_of(wiring, quantize), quantization_of(wiring, dequantize)
    return one if one is not None and other is not None and one.same_as(other) and one.is_per_tensor else None


def _common(first: GraphQuantization, second: GraphQuantization) -> tuple[Array, Array] | None:
    """Scale and zero point of the common range, in float32 and rounded half away from 0; None if there is none."""
    low, high = first.dtype.low, first.dtype.high
    lows, highs = (
        [np.float32(end - int(by.zero_point)) * np.float32(by.scale) for by in (first, second)] for end in (low, high)
    )
    smallest, largest = max(lows), min(highs)
    scale = np.float32((largest - smallest) / np.float32(high - low))
    place = float(np.float32(low) - smallest / scale) if scale > 0 else low - 1.0
    zero_point = int(np.floor(abs(place) + 0.5)) * (1 if place >= 0 else -1)
    if not low <= zero_point <= high:
        return None
    return np.asarray(scale, np.float32), np.asarray(zero_point, first.dtype.numpy)
