"""Scales whose arithmetic would leave the range of float32 or int32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.check.node import Q8, Extra, NodeView, not_positive
from qcgen.check.windows import no_image
from qcgen.errors import Problem
from qcgen.ir.types import Array

RESCALE = "the scales are too far apart: quantize the model again"


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


def _rule(scales: Scales, problem: Callable[..., tuple[str, str] | None]) -> Extra:
    """A rule: ``problem`` finds nothing wrong with the scales, nor what to do about it."""

    def rule(view: NodeView) -> Iterator[Problem]:
        found = scales(view)
        wrong = None if None in found else problem(*found)
        if wrong is not None:
            yield view.problem(*wrong)

    return rule


def sum_in_range(scales: Scales) -> Extra:
    """A rule: QLinearAdd converts its float sum to int32."""

    def problem(a: float, b: float, y: float) -> tuple[str, str] | None:
        is_right = (a + b) / y * 256 + 256 < 2**31
        return None if is_right else (f"(A_scale + B_scale) / C_scale is {(a + b) / y:.6g}", RESCALE)

    return _rule(scales, problem)


def product_in_range(scales: Scales) -> Extra:
    """A rule: QLinearMul converts its float product to int32; a ratio that underflows makes all outputs zero points."""

    def problem(a: float, b: float, y: float) -> tuple[str, str] | None:
        ratio = float(arithmetic.multiplier_scale(np.asarray(a), np.asarray(b), np.asarray(y)))
        is_right = ratio < (2**31 - 256) / 255**2
        return None if is_right else (f"A_scale * B_scale / C_scale is {ratio:.6g}", RESCALE)

    return _rule(scales, problem)


def average_in_range(scales: Scales) -> Extra:
    """A rule: QLinearAveragePool adds floats, emulated for normal numbers, and converts their mean to int32."""

    def problem(x: float, y: float) -> tuple[str, str] | None:
        if not 2.0**-100 <= x <= 2.0**100:
            hint = "quantize the model again, with data of usual size"
            return f"x_scale is {x:.6g}: float32 does not hold all sums of such numbers", hint
        is_right = x / y * 256 + 256 < 2**31
        return None if is_right else (f"x_scale / y_scale is {x / y:.6g}", RESCALE)

    return _rule(scales, problem)


def mean_in_range(scales: Scales) -> Extra:
    """A rule: onnxruntime refuses global means whose multiplier leaves [2^-32, 256)."""

    def rule(view: NodeView) -> Iterator[Problem]:
        x, found = view.fixed_shape(0), scales(view)
        if x is None or len(x) < 3:
            if x is not None:
                yield no_image(view, x)
            return
        pixels, [x_scale, y_scale] = (
            prod(x[1:-1] if view.integer("channels_last", 0) == 1 else x[2:]),
            (*found, None)[:2],
        )
        if x_scale is not None and y_scale is not None and min(x) > 0:
            scale = float(arithmetic.global_average_scale(x_scale, y_scale, pixels))
            if not 2.0**-32 <= scale < 256 or pixels >= 2**24:
                yield view.problem(f"x_scale / (y_scale * {pixels} pixels) is {scale:.6g}", RESCALE)

    return rule


def softmax_in_range(scales: Scales) -> Extra:
    """A rule: QLinearSoftmax multiplies by floor(1 / y_scale)."""

    def problem(_: float, y: float) -> tuple[str, str] | None:
        is_right = arithmetic.softmax_factor(y) <= arithmetic.SOFTMAX_LARGEST_FACTOR
        return (
            None if is_right else (f"y_scale is {y:.6g}: every code saturates", "use a larger y_scale, such as 1/256")
        )

    return _rule(scales, problem)


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
