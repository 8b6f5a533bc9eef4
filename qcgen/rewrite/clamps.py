"""Relu and Clip as bounds on real numbers or on codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import GraphQuantization
from qcgen.rewrite.wiring import Wiring


@dataclass(frozen=True)
class Clamp:
    """min(max(x, low), high) in float32: where the bounds are crossed the upper one wins."""

    low: float
    high: float

    def of(self, values: Array) -> Array:
        """The clamped values."""
        return np.asarray(np.minimum(np.maximum(values, np.float32(self.low)), np.float32(self.high)))

    def codes(self, quantization: GraphQuantization) -> tuple[int, int]:
        """The clamp of codes that equals clamping first and quantizing then.

        Quantization never decreases, so Q(min(max(x, low), high)) = min(max(Q(x), Q(low)), Q(high)), whether or not a
        bound lies on a code.
        """
        low, high = quantization.codes(np.array([self.low, self.high], np.float32))
        return int(low), int(high)


def clamp_of(wiring: Wiring, node: Node) -> Clamp | None:
    """The bounds of a float Relu or Clip, None for other nodes and for bounds that are not constant numbers."""
    match (node.domain, node.op_type):
        case ("", "Relu"):
            return Clamp(0.0, float("inf"))
        case ("", "Clip"):
            low = _bound(wiring, node, 1, "min", float("-inf"))
            high = _bound(wiring, node, 2, "max", float("inf"))
            return None if low is None or high is None or are_crossed(node) else Clamp(low, high)
    return None


def are_crossed(node: Node) -> bool:
    """Whether a Clip has attributes, those before opset 11, whose min is above its max: onnxruntime refuses that."""
    low, high = (node.attributes.get(name) for name in ("min", "max"))
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high


def _bound(wiring: Wiring, node: Node, index: int, attribute: str, default: float) -> float | None:
    """A bound, an attribute before opset 11."""
    if not node.input(index):
        value = node.attributes.get(attribute, default)
        return float(value) if isinstance(value, int | float) else None
    constant = wiring.constant(node.input(index))
    if constant is None or constant.size != 1 or constant.dtype != np.float32 or np.isnan(constant).any():
        return None
    return float(constant.reshape(()))


def code_bounds(wiring: Wiring, node: Node) -> tuple[Array, Array] | None:
    """The bounds of a Clip of codes, None for other nodes."""
    if (node.domain, node.op_type) != ("", "Clip"):
        return None
    low, high = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if low is None or high is None or low.size != 1 or high.size != 1 or low.dtype != high.dtype:
        return None
    return (low.reshape(()), high.reshape(())) if DType.of(low).is_code else None


def clamp_node(
    wiring: Wiring, name: str, x: str, y: str, bounds: tuple[int, int], dtype: DType
) -> tuple[Node, Mapping[str, Array]]:
    """Clip of the codes themselves between two codes, as a node called ``name``, and its constants."""
    low, high = wiring.fresh(f"{name}_low"), wiring.fresh(f"{name}_high")
    constants = {low: np.array(bounds[0], dtype.numpy), high: np.array(bounds[1], dtype.numpy)}
    return Node(name, "Clip", "", (x, low, high), (y,), {}), constants
