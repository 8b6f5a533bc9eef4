"""The portable float32 convolution: generated C, built with the host's compilers, against the float64 reference."""

import os
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from marks import share_at_first, some_at_first
from tools import require

from qcgen.build import load
from qcgen.cores import TARGETS
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv, ConvGeometry, FloatActivation, Program, RawAccumulator, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels import Setting
from qcgen.kernels.portable.conv import CONV_FLOAT, chunks
from qcgen.kernels.portable.float_pointwise import number_function
from qcgen.plan import plan
from qcgen.reference import evaluate
from qcgen.reference.tolerance import tolerance
from qcgen.render import render

NONE = FloatActivation()
FIRST, LAST = Layout.CHANNELS_FIRST, Layout.CHANNELS_LAST
BUILDS = {"gcc": ("-O2", "-Wdouble-promotion"), "clang": ("-O3", "-Wdouble-promotion")}


@dataclass(frozen=True)
class Case:
    """A geometry in the words of the operator document; pads as there, all begins, then all ends."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    channels: tuple[int, int]
    group: int = 1
    batch: int = 1
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()

    @property
    def geometry(self) -> ConvGeometry:
        rank = len(self.image)
        strides, dilations = self.strides or (1,) * rank, self.dilations or (1,) * rank
        begin, end = (self.pads or (0,) * 2 * rank)[:rank], (self.pads or (0,) * 2 * rank)[rank:]
        axes = zip(self.image, begin, end, self.kernel, dilations, strides, strict=True)
        output = tuple((i + b + e - (k - 1) * d - 1) // s + 1 for i, b, e, k, d, s in axes)
        in_channels, out_channels = self.channels
        return ConvGeometry(
            batch=self.batch,
            group=self.group,
            in_channels=in_channels,
            out_channels=out_channels,
            input=self.image,
            kernel=self.kernel,
            strides=strides,
            dilations=dilations,
            pads_begin=begin,
            pads_end=end,
            output=output,
        )


CASES = {
    "one_product": Case((1,), (1,), (1, 1)),
    "line": Case((9,), (3,), (2, 5)),
    "line_padded": Case((9,), (4,), (3, 2), pads=(2, 3), strides=(2,)),
    "plane": Case((7, 9), (3, 3), (4, 6), pads=(1, 1, 1, 1)),
    "plane_asymmetric": Case((7, 9), (3, 2), (3, 5), pads=(0, 2, 3, 1), strides=(2, 3)),
    "plane_dilated": Case((9, 8), (3, 3), (2, 3), pads=(2, 0, 1, 3), dilations=(2, 3)),
    "pads_exceed_kernel": Case((3, 2), (2, 2), (3, 4), pads=(4, 3, 3, 5)),
    "windows_in_padding_only": Case((1, 1), (1, 1), (2, 3), pads=(2, 2, 2, 2), strides=(2, 2)),
    "never_inside": Case((2, 2), (3, 5), (2, 3), pads=(2, 2, 2, 2)),
    "batch": Case((5, 4), (3, 3), (2, 3), batch=2, pads=(1, 0, 0, 1)),
    "groups": Case((5, 6), (3, 3), (6, 4), group=2, batch=2, pads=(1, 1, 1, 1)),
    "depthwise": Case((6, 5), (3, 3), (5, 5), group=5, pads=(1, 1, 1, 1)),
    "depth_multiplier": Case((6, 5), (3, 3), (3, 9), group=3, strides=(2, 2)),
    "pointwise": Case((3, 5), (1, 1), (7, 4), batch=2),
    "pointwise_groups": Case((3, 3), (1, 1), (8, 6), group=2),
    "pointwise_strided": Case((5, 5), (1, 1), (6, 3), strides=(2, 3)),
    "pointwise_padded": Case((2, 3), (1, 1), (4, 3), pads=(1, 0, 0, 2)),
    "one_output": Case((4, 4), (4, 4), (3, 10)),
    "volume": Case((4, 3, 5), (2, 3, 2), (2, 3), pads=(0, 1, 1, 1, 1, 0), strides=(1, 2, 1)),
    "four_axes": Case((3, 2, 3, 4), (2, 1, 2, 3), (2, 4), 2, pads=(1, 0, 0, 1, 0, 1, 1, 0), dilations=(1, 1, 2, 1)),
    "65_taps": Case((13, 5), (13, 5), (1, 9)),
    "576_taps": Case((4, 4), (3, 3), (64, 9), pads=(1, 1, 1, 1)),
    "4610_taps": Case((3, 1), (2, 1), (2305, 2)),
}
LAYOUTS = {"nchw": (FIRST, FIRST), "nhwc": (LAST, LAST), "nchw_to_nhwc": (FIRST, LAST), "nhwc_to_nchw": (LAST, FIRST)}


def shape(layout, batch, channels, spatial):
    return (batch, *spatial, channels) if layout is LAST else (batch, channels, *spatial)


def conv(name, case, layouts, numbers, activation=NONE, bias=True):
    """A convolution whose weights and bias are drawn by ``numbers``, a function of a shape."""
    g = case.geometry
    x_layout, y_layout = layouts
    x = Tensor(f"{name}_x", DType.FLOAT32, shape(x_layout, g.batch, g.in_channels, g.input), x_layout)
    y = Tensor(f"{name}_y", DType.FLOAT32, shape(y_layout, g.batch, g.out_channels, g.output), y_layout)
    weights = numbers((g.out_channels, g.group_in, *g.kernel))
    biases = numbers((g.out_channels,)) if bias else np.zeros(g.out_channels, np.float32)
    zeros = np.zeros(g.out_channels, np.int32)
    return Conv(name, "Conv", x, y, g, 0, weights, zeros, biases, activation)


def program(operators):
    inputs, outputs = tuple(op.x for op in operators), tuple(op.y for op in operators)
    return Program("m", inputs, outputs, tuple(operators), "0" * 64)


def generated(operators):
    return render(plan(program(operators), Options(), "m", "m.onnx"))["m.c"]


class Built:
    """Many convolutions in one C file, and what they yield for their inputs."""

    def __init__(self, operators, inputs, flags):
        self.operators = {op.name: op for op in operators}
        whole = program(operators)
        planned = plan(whole, Options(), "m", "m.onnx")
        self.inputs = {op.name: inputs(op.x.shape) for op in operators}
        feeds = {op.x.name: self.inputs[op.name] for op in operators}
        model = load(planned, render(planned), flags)
        self.actual = dict(zip(self.operators, model.run([op.y.name for op in operators], feeds), strict=True))
        with np.errstate(all="ignore"):
            expected = evaluate(whole, feeds)
        self.expected = {op.name: expected[op.y.name] for op in operators}


def normals(seed):
    generator = np.random.default_rng(seed)
    return lambda size: generator.normal(size=size).astype(np.float32)


def integers(seed):
    generator = np.random.default_rng(seed)
    return lambda size: generator.integers(-8, 8, size, endpoint=True).astype(np.float32)


def always(value):
    return lambda size: np.full(size, value, np.float32)


@pytest.fixture(scope="module", params=some_at_first(BUILDS))
def compiler(request):
    """Builds with one compiler; the flags are the strict ones of qcgen.build and those that this yields."""
    require(request.param)
    before = os.environ.get("CC")
    os.environ["CC"] = request.param
    yield BUILDS[request.param]
    if before is None:
        del os.environ["CC"]
    else:
        os.environ["CC"] = before


NAMES = [f"{case}_{layouts}" for case, layouts in product(CASES, LAYOUTS)]
every_name = pytest.mark.parametrize("name", share_at_first(NAMES))


def every_case(numbers, names):
    pairs = product(CASES.items(), LAYOUTS.items())
    return [
        conv(f"{name}_{key}", case, layouts, numbers, bias=index % 3 > 0)
        for index, ((name, case), (key, layouts)) in enumerate(pairs)
        if f"{name}_{key}" in names
    ]


@pytest.fixture(scope="module")
def random_cases(compiler, selected):
    return Built(every_case(normals(1), selected(NAMES)), normals(2), compiler)


@pytest.fixture(scope="module")
def integer_cases(compiler, selected):
    return Built(every_case(integers(3), selected(NAMES)), integers(4), compiler)


@every_name
def test_outputs_lie_within_the_tolerance_of_float64(random_cases, name):
    op, x = random_cases.operators[name], random_cases.inputs[name]
    error = np.abs(random_cases.actual[name].astype(np.float64) - random_cases.expected[name])
    assert (error <= tolerance(op, x, random_cases.expected[name])).all()
    assert error.max() <= 2e-6 * np.abs(random_cases.expected[name]).max()


@every_name
def test_sums_of_small_integers_are_exact(integer_cases, name):
    assert np.array_equal(integer_cases.actual[name], integer_cases.expected[name])


INFINITY = float("inf")
ACTIVATIONS = {
    "none": NONE,
    "relu": FloatActivation("Relu"),
    "tanh": FloatActivation("Tanh"),
    "sigmoid": FloatActivation("Sigmoid"),
    "hard_swish": FloatActivation("HardSwish"),
    "leaky_relu": FloatActivation("LeakyRelu", (0.01,)),
    "leaky_relu_negative": FloatActivation("LeakyRelu", (-0.3,)),
    "clip": FloatActivation("Clip", (-1.5, 6.0)),
    "clip_min_above_max": FloatActivation("Clip", (3.0, -2.0)),
    "clip_no_minimum": FloatActivation("Clip", (-INFINITY, 2.0)),
    "clip_no_maximum": FloatActivation("Clip", (-2.0, INFINITY)),
    "clip_nothing": FloatActivation("Clip", (-INFINITY, INFINITY)),
    "clip_infinite_minimum": FloatActivation("Clip", (INFINITY, 1.0)),
    "clip_to_infinity": FloatActivation("Clip", (INFINITY, INFINITY)),
    "clip_to_minus_infinity": FloatActivation("Clip", (0.0, -INFINITY)),
    "clip_largest": FloatActivation("Clip", (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))),
    "hard_sigmoid": FloatActivation("HardSigmoid", (0.2, 0.5)),
    "hard_sigmoid_negative": FloatActivation("HardSigmoid", (-0.7, -0.25)),
}
MAGNITUDES = (0.0, 1e-45, 1e-30, 1e-6, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.0000002, 9.0, 17.0, 88.0, 89.0, 1e4, 3e38)
VALUES = (*MAGNITUDES, *(-value for value in MAGNITUDES), *np.linspace(-7, 7, 141), np.nan)


@pytest.fixture(scope="module")
def activated(compiler):
    """Every activation of every value: 1x1 convolutions whose weight is 1."""
    case = Case((len(VALUES),), (1,), (1, 1))
    operators = [conv(name, case, LAYOUTS["nchw"], always(1.0), kind, bias=False) for name, kind in ACTIVATIONS.items()]
    return Built(operators, lambda size: np.array(VALUES, np.float32).reshape(size), compiler)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_equal_the_reference(activated, name):
    actual, expected = activated.actual[name].astype(np.float64), activated.expected[name]
    # The absolute part is for the places where 0.2 * x + 0.5 and the like cancel.
    is_sum = "hard" in name or name == "sigmoid"
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6 if is_sum else 1e-44)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_stays_nan(activated, name):
    assert np.array_equal(np.isnan(activated.actual[name]).ravel(), np.isnan(VALUES))


def test_an_activation_follows_the_sum_of_all_taps(compiler):
    kinds = {name: ACTIVATIONS[name] for name in ("relu", "tanh", "clip", "hard_swish")}
    operators = [conv(n, CASES["groups"], LAYOUTS["nhwc_to_nchw"], normals(5), kind) for n, kind in kinds.items()]
    built = Built(operators, normals(6), compiler)
    for name, op in built.operators.items():
        error = np.abs(built.actual[name].astype(np.float64) - built.expected[name])
        assert (error <= tolerance(op, built.inputs[name], built.expected[name])).all(), name


def test_a_long_sum_of_equal_products_does_not_drift(compiler):
    """Added one after the other in float32, 4,608 times 0.1 is wrong by 4e-5."""
    op = conv("long", Case((1, 1), (1, 1), (4608, 4)), LAYOUTS["nhwc"], always(0.1))
    built = Built([op], always(1.0), compiler)
    np.testing.assert_allclose(built.actual["long"], built.expected["long"], rtol=2e-6)


@pytest.mark.parametrize("taps", [*range(1, 140), 576, 1152, 4608, 4611, 25088])
def test_chunks_cover_all_taps_and_shorten_the_chain_of_additions(taps):
    split = chunks(taps)
    assert split.full + split.rest == taps
    assert 0 <= split.rest < 4
    assert split.full % 4 == split.size % 4 == 0
    assert split.depth <= max(20, np.sqrt(taps) + 6)


def test_the_bounds_of_a_clip_let_the_maximum_win():
    assert number_function(FloatActivation("Clip", (3.0, -2.0))).params == (-2.0, -2.0)
    assert number_function(FloatActivation("Clip", (-INFINITY, INFINITY))).function == ""


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_math_is_included_only_where_it_is_used(name):
    text = generated([conv("c", CASES["plane"], LAYOUTS["nchw"], integers(7), ACTIVATIONS[name])])
    uses = any(word in text for word in ("fmaf(", "expf(", "fabsf(", "INFINITY"))
    assert ("#include <math.h>" in text) == uses
    assert uses == (name in ("tanh", "sigmoid", "clip_to_infinity", "clip_to_minus_infinity"))


def test_a_clip_without_bounds_is_no_function():
    op = conv("c", CASES["line"], LAYOUTS["nchw"], integers(7), ACTIVATIONS["clip_nothing"])
    assert "_clip(" not in generated([op])
    assert "_at_" not in generated([op])


def test_windows_within_the_image_are_copied_without_bounds_tests():
    padded, bare = (replace(CASES["plane"], pads=pads) for pads in ((1, 1, 1, 1), ()))
    assert "is_outside != 0 ?" not in generated([conv("c", bare, LAYOUTS["nhwc"], integers(8))])
    text = generated([conv("c", padded, LAYOUTS["nhwc"], integers(8))])
    assert "is_outside != 0 ?" in text
    assert "m_spatial_walk(w, x, 1, begin, " in text


def test_pointwise_channels_are_read_where_they_are():
    op = conv("c", CASES["pointwise"], LAYOUTS["nhwc"], integers(9))
    prepared = CONV_FLOAT.prepare(op, Setting(LAST, LAST, "size", TARGETS["portable"]))
    assert [buffer.bytes for buffer in prepared.scratch] == [2 * 4 * 4]  # the sums of two pixels of four channels


def test_a_bias_of_zeros_takes_no_table():
    assert "m_c_bias" not in generated([conv("c", CASES["plane"], LAYOUTS["nchw"], integers(10), bias=False)])


def test_integer_convolutions_are_left_to_other_kernels():
    op = replace(conv("c", CASES["plane"], LAYOUTS["nchw"], integers(11)), epilogue=RawAccumulator())
    assert (
        CONV_FLOAT.why_not(op, Setting(FIRST, FIRST, "size", TARGETS["portable"])) == "the convolution is not in float"
    )
