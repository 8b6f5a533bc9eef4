"""Scales whose arithmetic would leave the range of float32 or int32."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.check.node import Extra, NodeView, not_positive
from qcgen.check.windows import no_image
from qcgen.errors import Problem

RESCALE = "the scales are too far apart: quantize the model again"


def scale_at(view: NodeView, operand: int | str) -> float | None:
    """A per-tensor scale, None if it is absent, malformed or wrong, which is reported elsewhere."""
    array = view.array(operand)
    if array is None or array.size != 1 or array.dtype != np.float32:
        return None
    value = float(array.reshape(()))
    return value if np.isfinite(value) and value > 0 else None


def sum_in_range(view: NodeView) -> Iterator[Problem]:
    """QLinearAdd converts its float sum to int32."""
    scales = [scale_at(view, index) for index in (1, 4, 6)]
    a, b, y = scales
    if a is not None and b is not None and y is not None and (a + b) / y * 256 + 256 >= 2**31:
        yield view.problem(f"(A_scale + B_scale) / C_scale is {(a + b) / y:.6g}", RESCALE)


def product_in_range(view: NodeView) -> Iterator[Problem]:
    """QLinearMul converts its float product to int32; a ratio that underflows makes every output the zero point."""
    a, b, y = (scale_at(view, index) for index in (1, 4, 6))
    if a is None or b is None or y is None:
        return
    ratio = float(arithmetic.multiplier_scale(np.asarray(a), np.asarray(b), np.asarray(y)))
    if not ratio < (2**31 - 256) / 255**2:
        yield view.problem(f"A_scale * B_scale / C_scale is {ratio:.6g}", RESCALE)


def average_in_range(view: NodeView) -> Iterator[Problem]:
    """QLinearAveragePool adds floats, which is emulated for normal numbers, and converts their mean to int32."""
    x, y = scale_at(view, 1), scale_at(view, 3)
    if x is not None and not 2.0**-100 <= x <= 2.0**100:
        hint = "quantize the model again, with data of usual size"
        yield view.problem(f"x_scale is {x:.6g}: float32 does not hold all sums of such numbers", hint)
    elif x is not None and y is not None and x / y * 256 + 256 >= 2**31:
        yield view.problem(f"x_scale / y_scale is {x / y:.6g}", RESCALE)


def mean_in_range(view: NodeView) -> Iterator[Problem]:
    """onnxruntime refuses global means whose multiplier leaves [2^-32, 256)."""
    x, x_scale, y_scale = view.fixed_shape(0), scale_at(view, 1), scale_at(view, 3)
    if x is None or len(x) < 3:
        if x is not None:
            yield no_image(view, x)
        return
    image = x[1:-1] if view.integer("channels_last", 0) == 1 else x[2:]
    if x_scale is not None and y_scale is not None and min(x) > 0:
        scale = float(arithmetic.global_average_scale(x_scale, y_scale, prod(image)))
        if not 2.0**-32 <= scale < 256 or prod(image) >= 2**24:
            yield view.problem(f"x_scale / (y_scale * {prod(image)} pixels) is {scale:.6g}", RESCALE)


def softmax_in_range(view: NodeView) -> Iterator[Problem]:
    """QLinearSoftmax says which Softmax is meant, and multiplies by floor(1 / y_scale)."""
    y_scale = scale_at(view, 3)
    if "opset" not in view.node.attributes:
        yield view.problem("it has no attribute opset", "add opset, the version of Softmax that is meant")
    if y_scale is not None and arithmetic.softmax_factor(y_scale) > arithmetic.SOFTMAX_LARGEST_FACTOR:
        yield view.problem(f"y_scale is {y_scale:.6g}: every code saturates", "use a larger y_scale, such as 1/256")


def multiplier_in_range(x: str, w: str, y: str) -> Extra:
    """A rule: x_scale * w_scale / y_scale is finite in float32, of which these are the names."""

    def rule(view: NodeView) -> Iterator[Problem]:
        x_scale, y_scale, w_scale = scale_at(view, x), scale_at(view, y), view.array(w)
        if x_scale is None or y_scale is None or w_scale is None or w_scale.dtype != np.float32:
            return
        scale = arithmetic.requantization_scale(np.asarray(x_scale), w_scale.reshape(-1), np.asarray(y_scale))
        wrong = not_positive(f"{x} * {w} / {y}", scale)
        if wrong is not None and not_positive(w, w_scale) is None:
            yield view.problem(f"{wrong} in float32", RESCALE)

    return rule
