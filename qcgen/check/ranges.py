"""Scales whose arithmetic would leave the range of float32 or int32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.check.node import Q8, Extra, NodeView, not_positive
from qcgen.errors import Problem
from qcgen.ir.types import Array

RESCALE = "the scales are too far apart: quantize the model again"
LARGER = "use a larger y_scale, such as 1/256"


def scale_at(view: NodeView, operand: int | str) -> float | None:
    """A per-tensor scale, None if it is absent, malformed or wrong, which is reported elsewhere."""
    array = view.array(operand)
    if array is None or array.size != 1 or array.dtype != np.float32:
        return None
    value = float(array.reshape(()))
    return value if np.isfinite(value) and value > 0 else None


Scales = Callable[[NodeView], list[float | None]]
"""From a node to the scales of its inputs and its output."""


def at(*roles: str) -> Scales:
    """Those of these names."""
    return lambda view: [scale_at(view, role) for role in roles]


def between(count: int) -> Scales:
    """Those of the codes of 8 bits of which the first inputs, ``count``, are dequantized, and of the output."""

    def scales(view: NodeView) -> list[float | None]:
        graph, codes = view.graph, [view.graph.dequantizer(view.node.input(index)) for index in range(count)]
        ends = [(node, node.input(0)) for node in codes if node is not None]
        quantize = graph.quantizer(view.node)
        ends += [] if quantize is None else [(quantize, quantize.outputs[0])]
        found = [scale_at(view.beside(node), 1) for node, name in ends if graph.dtype(name) in Q8]
        return found if len(found) == count + 1 else [None]

    return scales


def of_codes(rule: Extra) -> Extra:
    """A rule for operators of one input between codes of 8 bits alone."""

    def where(view: NodeView) -> Iterator[Problem]:
        yield from rule(view) if None not in between(1)(view) else ()

    return where


ScaleRange = Callable[..., str]
"""From a node, and its scales, to what is out of range of the arithmetic of codes, "" if nothing is."""


def in_range(what: ScaleRange, scales: Scales, hint: str = RESCALE) -> Extra:
    """A rule: these scales are in this range."""

    def rule(view: NodeView) -> Iterator[Problem]:
        found = scales(view)
        wrong = "" if None in found else what(view, *found)
        if wrong:
            yield view.problem(wrong, hint)

    return rule


def sums(_: NodeView, a: float, b: float, y: float) -> str:
    """QLinearAdd converts its float sum to int32."""
    return "" if (a + b) / y * 256 + 256 < 2**31 else f"(A_scale + B_scale) / C_scale is {(a + b) / y:.6g}"


def products(_: NodeView, a: float, b: float, y: float) -> str:
    """QLinearMul converts its float product to int32; a ratio that underflows makes every output the zero point."""
    ratio = float(arithmetic.multiplier_scale(np.asarray(a), np.asarray(b), np.asarray(y)))
    return "" if ratio < (2**31 - 256) / 255**2 else f"A_scale * B_scale / C_scale is {ratio:.6g}"


def averages(_: NodeView, x: float, y: float) -> str:
    """QLinearAveragePool adds floats, emulated for normal numbers, and converts their mean to int32."""
    if not 2.0**-100 <= x <= 2.0**100:
        return f"x_scale is {x:.6g}: float32 does not hold all sums of such numbers"
    return "" if x / y * 256 + 256 < 2**31 else f"x_scale / y_scale is {x / y:.6g}"


def means(view: NodeView, x: float, y: float) -> str:
    """onnxruntime refuses global means whose multiplier leaves [2^-32, 256)."""
    shape = view.fixed_shape(0)
    if shape is None or min(shape, default=0) < 1:
        return ""
    pixels = prod(shape[1:-1] if view.integer("channels_last", 0) == 1 else shape[2:])
    scale = float(arithmetic.global_average_scale(x, y, pixels))
    is_right = 2.0**-32 <= scale < 256 and pixels < 2**24
    return "" if is_right else f"x_scale / (y_scale * {pixels} pixels) is {scale:.6g}"


def softmaxes(_: NodeView, __: float, y: float) -> str:
    """QLinearSoftmax multiplies by floor(1 / y_scale)."""
    is_right = arithmetic.softmax_factor(y) <= arithmetic.SOFTMAX_LARGEST_FACTOR
    return "" if is_right else f"y_scale is {y:.6g}: every code saturates"


def says_which_softmax(view: NodeView) -> Iterator[Problem]:
    """QLinearSoftmax says which Softmax is meant."""
    if "opset" not in view.node.attributes:
        yield view.problem("it has no attribute opset", "add opset, the version of Softmax that is meant")


def multiplier_in_range(x: str, w: str, y: str) -> Extra:
    """A rule: x_scale * w_scale / y_scale is finite in float32, of which these are the names."""

    def rule(view: NodeView) -> Iterator[Problem]:
        yield from _multiplier(view, f"{x} * {w} / {y}", scale_at(view, x), view.array(w), scale_at(view, y))

    return rule


def multiplier_between_in_range(view: NodeView) -> Iterator[Problem]:
    """The same of a product between codes of 8 bits."""
    x_scale, y_scale = (*between(1)(view), None)[:2]
    weights = view.graph.dequantizer(view.node.input(1))
    w_scale = None if weights is None else view.graph.constants.get(weights.input(1))
    yield from _multiplier(view, "the product of its scales", x_scale, w_scale, y_scale)


def _multiplier(
    view: NodeView, name: str, x_scale: float | None, w_scale: Array | None, y_scale: float | None
) -> Iterator[Problem]:
    if x_scale is None or y_scale is None or w_scale is None or w_scale.dtype != np.float32:
        return
    scale = arithmetic.requantization_scale(np.asarray(x_scale), w_scale.reshape(-1), np.asarray(y_scale))
    wrong = not_positive(name, scale)
    if wrong is not None and not_positive(name, w_scale) is None:
        yield view.problem(f"{wrong} in float32", RESCALE)
