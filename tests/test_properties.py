"""Random convolutions: generated C equals the reference, and the reference the formula."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from batch import build, cropped, inputs, require, unit
from cases import Case
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from models import NHWC, conv_integer, qlinear_conv
from test_reference import naive

from qcgen.ir.types import Layout
from qcgen.reference import evaluate_operator

PROFILE = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)

Q8 = st.sampled_from(["int8", "uint8"])
SCALES = st.one_of(
    st.floats(-13, -5).map(lambda exponent: 2.0**exponent),  # outputs over much of the range
    st.integers(-13, 2).map(lambda exponent: 2.0**exponent),  # ties
    st.floats(-40, 10).map(lambda exponent: 2.0**exponent),
)


def codes(dtype: str):
    bounds = np.iinfo(dtype)
    return st.integers(int(bounds.min), int(bounds.max))


@st.composite
def geometries(draw):
    """(x_shape, w_shape, attributes) that ONNX allows."""
    rank = draw(st.sampled_from([1, 2, 2, 2, 3, 4]))
    depthwise = draw(st.booleans()) and draw(st.booleans())
    group = draw(st.integers(1, 4))
    group_in, group_out = (1, 1) if depthwise else (draw(st.integers(1, 5)), draw(st.integers(1, 3)))
    most = (12, 7, 4, 3)[rank - 1]
    kernel, image, pads, strides, dilations = [], [], [], [], []
    auto_pad = draw(st.sampled_from([None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID"]))
    for _ in range(rank):
        kernel.append(draw(st.integers(1, min(most, 4))))
        dilations.append(draw(st.integers(1, 3)))
        strides.append(draw(st.integers(1, 4)))
        extent = (kernel[-1] - 1) * dilations[-1] + 1
        pads.append((draw(st.integers(0, 5)), draw(st.integers(0, 3))) if auto_pad is None else (0, 0))
        least = 1 if auto_pad in ("SAME_UPPER", "SAME_LOWER") else max(1, extent - sum(pads[-1]))
        image.append(least + draw(st.integers(0, most)))
    attributes = {"group": group, "strides": strides, "dilations": dilations}
    if auto_pad is None:
        attributes["pads"] = [begin for begin, _ in pads] + [end for _, end in pads]
    else:
        attributes["auto_pad"] = auto_pad
    if draw(st.booleans()):
        attributes["kernel_shape"] = kernel
    batch = draw(st.sampled_from([1, 1, 2]))
    return (batch, group * group_in, *image), (group * group_out, group_in, *kernel), attributes


@st.composite
def weights(draw, shape, dtype):
    """Random weights, some channels of them constant."""
    bounds = np.iinfo(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    w = rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)
    constant = draw(st.sampled_from([None, None, 0, bounds.min, bounds.max]))
    if constant is not None:
        w[rng.integers(0, shape[0])] = constant
    return w


def per_channel(draw, elements, channels):
    """One of the elements, or a list of one for each channel."""
    if draw(st.booleans()):
        return draw(elements)
    return draw(st.lists(elements, min_size=channels, max_size=channels))


@st.composite
def quantized(draw):
    """QLinearConv of all types, parameters and spellings."""
    x_shape, w_shape, attributes = draw(geometries())
    x_type, w_type, y_type = draw(Q8), draw(Q8), draw(Q8)
    last = draw(st.booleans())
    given = {
        "x_type": x_type,
        "y_type": y_type,
        "x_zero_point": draw(codes(x_type)),
        "y_zero_point": draw(codes(y_type)),
        "w_zero_point": per_channel(draw, codes(w_type), w_shape[0]),
        "x_scale": 0.5,
        "w_scale": per_channel(draw, SCALES, w_shape[0]),
        "y_scale": 0.5,
    }
    bound = draw(st.sampled_from([1000, 2**20, 2**31 - 1]))
    if draw(st.booleans()):
        given["bias"] = draw(st.lists(st.integers(-bound - 1, bound), min_size=w_shape[0], max_size=w_shape[0]))
    w = draw(weights(w_shape, w_type))
    if last:
        x_shape, attributes = (x_shape[0], *x_shape[2:], x_shape[1]), {**attributes, "domain": NHWC}
    return Case("example", lambda: qlinear_conv(x_shape, w, **given, **attributes))


@st.composite
def integers(draw):
    """ConvInteger with and without zero points."""
    x_shape, w_shape, attributes = draw(geometries())
    x_type, w_type = draw(Q8), draw(Q8)
    given = {"x_type": x_type}
    if draw(st.booleans()):
        given["x_zero_point"] = draw(codes(x_type))
    if draw(st.booleans()):
        given["w_zero_point"] = per_channel(draw, codes(w_type), w_shape[0])
    w = draw(weights(w_shape, w_type))
    return Case("example", lambda: conv_integer(x_shape, w, **given, **attributes))


convolutions = given(st.one_of(quantized(), quantized(), integers()))


@settings(PROFILE, max_examples=20)
@convolutions
def test_generated_c_equals_the_reference(case):
    assert_generated_c_equals_the_reference(case)


@pytest.mark.all
@settings(PROFILE, max_examples=200)
@convolutions
def test_generated_c_equals_the_reference_for_many_convolutions(case):
    assert_generated_c_equals_the_reference(case)


def assert_generated_c_equals_the_reference(case):
    require("gcc")
    units = [unit(case, "nhwc", "size"), unit(case, "nchw", "speed")]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), units, "gcc", ("-O0",)).assert_equals_reference("guarded", 0xFF)


@pytest.mark.all
@settings(PROFILE, max_examples=400)
@convolutions
def test_the_reference_equals_the_formula(case):
    op = unit(case, "model", "size").op
    for x in cropped(case, inputs(case)[[0, -1]]):
        y = evaluate_operator(op, x)
        if op.x.layout is Layout.CHANNELS_LAST:
            x, y = np.moveaxis(x, -1, 1), np.moveaxis(y, -1, 1)
        np.testing.assert_array_equal(y, naive(op, x))
