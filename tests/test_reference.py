"""The reference, held against the formula of QLinearConv and ConvInteger written out in plain Python loops."""

from itertools import product

import numpy as np
import pytest
from batch import inputs, unit
from cases import CASES

from qcgen.ir.program import Conv, FloatActivation, Requantize
from qcgen.ir.types import Layout
from qcgen.reference import evaluate_operator

NAMES = (
    "line_padded_strided",
    "line_dilated",
    "strides_differ",
    "stride_exceeds_kernel",
    "dilations_differ",
    "pads_asymmetric",
    "pads_exceed_kernel",
    "windows_wholly_in_padding",
    "kernel_exceeds_image",
    "groups_of_3_in_5_out",
    "volume_in_groups",
    "four_axes",
    "depth_multiplier_2",
    "depthwise_u8_u8_s8",
    "window_w_zero_points_differ_u8",
    "ties",
    "ties_u8",
    "scale_1",
    "scale_2_1",
    "scales_far_apart",
    "sums_beyond_2_to_24",
    "window_wraps",
    "corrected_and_wraps",
    "integer_u8_s8_zero_points",
    "integer_w_zero_points_differ_s8",
    "qlinear_nhwc_groups",
    "float_nhwc",
    "float_groups",
)


def wrapped(number: int) -> int:
    """The number in [-2^31, 2^31) that equals it modulo 2^32."""
    return (number + 2**31) % 2**32 - 2**31


def code(acc: int, scale: np.float32, y_zero_point: int, low: int, high: int) -> int:
    """round_half_even(clamp(fl32(fl32(acc) * scale), low - zp, high - zp)) + zp; Python's round goes half to even."""
    value = float(np.float32(acc) * scale)
    return round(min(max(value, low - y_zero_point), high - y_zero_point)) + y_zero_point


def naive(op: Conv, x: np.ndarray) -> np.ndarray:
    """One output after the other, one product after the other; x and y are channels first."""
    g = op.geometry
    number = float if isinstance(op.epilogue, FloatActivation) else int
    y = np.zeros((g.batch, g.out_channels, *g.output), op.y.dtype.numpy)
    for n, m, *position in product(range(g.batch), range(g.out_channels), *map(range, g.output)):
        acc = number(op.bias[m])
        for c, *tap in product(range(g.in_channels // g.group), *map(range, g.kernel)):
            pixel = [
                position[i] * g.strides[i] + tap[i] * g.dilations[i] - g.pads_begin[i] for i in range(len(position))
            ]
            if any(not 0 <= pixel[i] < g.input[i] for i in range(len(pixel))):
                continue
            channel = m // (g.out_channels // g.group) * (g.in_channels // g.group) + c
            code_x, code_w = number(x[(n, channel, *pixel)]), number(op.weights[(m, c, *tap)])
            acc += (code_x - number(op.x_zero_point)) * (code_w - number(op.w_zero_point[m]))
        if isinstance(op.epilogue, Requantize):
            e = op.epilogue
            acc = code(wrapped(acc), e.scale[m], e.zero_point, e.low, e.high)
        elif number is int:
            acc = wrapped(acc)
        y[(n, m, *position)] = acc
    return y


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_equals_the_formula_in_plain_loops(name):
    [case] = [case for case in CASES if case.name == name]
    op = unit(case, "model", "size").op
    for x in (inputs(case)[0], inputs(case)[2], inputs(case)[-1]):
        y = evaluate_operator(op, x)
        if op.x.layout is Layout.CHANNELS_LAST:
            x, y = np.moveaxis(x, -1, 1), np.moveaxis(y, -1, 1)
        if op.y.dtype.is_quantized or op.y.dtype.numpy == np.int32:
            np.testing.assert_array_equal(y, naive(op, x))
        else:
            np.testing.assert_allclose(y, naive(op, x), rtol=1e-6, atol=1e-6)
