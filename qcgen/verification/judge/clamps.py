"""The ranges that Clip and Relu leave of the tensors of a model file: no rounding before them leads outside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from qcgen.ir.types import Array

ClampRange = tuple[float, float]

MOVING = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators that only move elements."""


class Clamps:
    """The clamps of a model file; ``range_of`` gives the values that a tensor can have."""

    def __init__(self, model: ModelProto) -> None:
        self._producers = {name: node for node in model.graph.node for name in node.output if name}
        self._constants: Mapping[str, Array] = {
            each.name: numpy_helper.to_array(each) for each in model.graph.initializer if np.prod(each.dims) == 1
        }

    def range_of(self, tensor: str) -> ClampRange | None:
        """The least and the greatest value, numbers or codes; None where nothing clamps the tensor."""
        node = self._behind_movement(tensor)
        if node is None:
            return None
        if node.op_type == "DequantizeLinear":
            codes = self._codes(self._behind_movement(node.input[0]))
            return None if codes is None else self._numbers(node, codes)
        return self._numbers_left(node) or self._codes(node)

    def _behind_movement(self, tensor: str) -> NodeProto | None:
        node = self._producers.get(tensor)
        while node is not None and node.op_type in MOVING:
            node = self._producers.get(node.input[0])
        return node

    def _numbers_left(self, node: NodeProto | None) -> ClampRange | None:
        if node is None or node.op_type not in ("Clip", "Relu"):
            return None
        if node.op_type == "Relu":
            return 0.0, np.inf
        ends = {each.name: each.f for each in node.attribute}
        for name, tensor in zip(("min", "max"), node.input[1:], strict=False):
            if tensor and tensor not in self._constants:
                return None
            if tensor:
                ends[name] = float(self._constants[tensor].reshape(()))
        low, high = ends.get("min", -np.inf), ends.get("max", np.inf)
        return (low, high) if low <= high else None

    def _codes(self, node: NodeProto | None) -> ClampRange | None:
        """The codes of clamped numbers; None for dequantized numbers, because onnxruntime joins such pairs."""
        if node is None or node.op_type != "QuantizeLinear" or (meaning := self._meaning(node)) is None:
            return None
        numbers = self._numbers_left(self._behind_movement(node.input[0]))
        if numbers is None:
            return None
        scale, zero_point = meaning
        low, high = (float(np.rint(np.float32(number) / scale)) + int(zero_point) for number in numbers)
        ends = np.iinfo(zero_point.dtype)
        return max(low, ends.min), min(high, ends.max)

    def _numbers(self, node: NodeProto, codes: ClampRange) -> ClampRange | None:
        meaning = self._meaning(node)
        if meaning is None:
            return None
        low, high = (np.float32(code - int(meaning[1])) * meaning[0] for code in codes)
        return float(low), float(high)

    def _meaning(self, node: NodeProto) -> tuple[np.float32, Array] | None:
        """Scale and zero point; None unless both are given, one for all elements, as float32 and an integer."""
        found = [self._constants.get(name) for name in node.input[1:]]
        if len(found) != 2 or found[0] is None or found[1] is None or found[1].dtype.kind not in "iu":
            return None
        return np.float32(found[0].reshape(())), found[1].reshape(())


def only_inside(bound: Array, got: Array, inside: ClampRange | None) -> Array:
    """The largest |error| of every element: -1, which allows none, where it lies outside of the range."""
    if inside is None:
        return bound
    return np.where((got < inside[0]) | (got > inside[1]), -1.0, bound)
