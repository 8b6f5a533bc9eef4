"""Intervals propagated through programs: sound for every input, exact where that can be checked by trying all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from fuzz.operators import operator_models

from qcgen.compiler import compile, read
from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval, annotate, channel_ranges, window_patterns
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    ConvGeometry,
    Epilogue,
    GlobalAveragePool,
    Lookup,
    MatMul,
    MaxPool,
    Operator,
    Pad,
    Program,
    QuantizedBinary,
    RawAccumulator,
    Requantize,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower import lower
from qcgen.reference import evaluate_all

MODELS = Path(__file__).parents[2] / "shared" / "models"


def shared_program(name: str) -> Program:
    """A real model's program; the test is skipped where the model is not there."""
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the folder shared beside the repository")
    return lower(read(path))


def recorded_inputs(program: Program, name: str, most: int = 4) -> Iterator[Mapping[str, Array]]:
    """The first inputs recorded for a real model."""
    data = np.load(MODELS / f"{name}.npz")
    for index in range(most):
        feeds = {x.name: data[f"in{index}.{x.name}"] for x in program.inputs if f"in{index}.{x.name}" in data}
        if len(feeds) == len(program.inputs):
            yield {x.name: feeds[x.name].astype(x.dtype.numpy).reshape(x.shape) for x in program.inputs}


def tried_inputs(program: Program, count: int = 6, seed: int = 0) -> Iterator[Mapping[str, Array]]:
    """Random inputs, random extremes, and the extremes everywhere."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        feeds = {}
        for x in program.inputs:
            low, high = (x.dtype.low, x.dtype.high) if x.dtype.is_code else (-4, 4)
            choices = [low, high] if index % 2 else np.arange(low, high + 1)
            feeds[x.name] = rng.choice(choices, x.shape).astype(x.dtype.numpy)
        yield feeds
    for end in ("low", "high"):
        yield {
            x.name: np.full(x.shape, getattr(x.dtype, end) if x.dtype.is_code else 4.0).astype(x.dtype.numpy)
            for x in program.inputs
        }


@dataclass
class Net:
    """A program under construction; every method adds an operator and returns its output."""

    inputs: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def tensor(
        self,
        shape: Sequence[int],
        zero_point: int = 0,
        dtype: DType = DType.UINT8,
        scale: float = 0.5,
        layout: Layout | None = Layout.CHANNELS_FIRST,
    ) -> Tensor:
        name = f"t{len(self.inputs) + len(self.operators) + len(self.constants)}"
        return Tensor(name, dtype, tuple(shape), layout if len(shape) > 2 else None, scale, zero_point)

    def input(self, shape: Sequence[int], **options) -> Tensor:
        self.inputs.append(self.tensor(shape, **options))
        return self.inputs[-1]

    def constant(self, values: Array, **options) -> Tensor:
        x = self.tensor(values.shape, dtype=DType.of(values), **options)
        self.constants[x.name] = values
        return x

    def add(self, op: Operator) -> Tensor:
        self.operators.append(op)
        return op.y

    def conv(
        self,
        x: Tensor,
        weights: Array,
        bias: Sequence[int],
        *,
        group: int = 1,
        pads: int = 0,
        stride: int = 1,
        y_zero_point: int = 0,
        scale: float = 0.01,
        raw: bool = False,
    ) -> Tensor:
        """A convolution of an image, or of the rows of a matrix."""
        last = x.layout is not Layout.CHANNELS_FIRST
        channels, image = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
        if x.layout is None:
            image = (prod(x.shape[:-1]),)
        g = geometry(image, channels, weights.shape[0], weights.shape[2:], group, pads, stride)
        shape = (*x.shape[:-1], weights.shape[0]) if x.layout is None else (1, *g.output, weights.shape[0])
        shape = shape if last else (1, weights.shape[0], *g.output)
        y = self.tensor(shape, y_zero_point, DType.INT32 if raw else x.dtype, layout=x.layout)
        count = weights.shape[0]
        epilogue: Epilogue = RawAccumulator()
        if not raw:
            epilogue = Requantize(np.full(count, scale, np.float32), y_zero_point, y.dtype.low, y.dtype.high)
        zeros = np.zeros(count, np.int32)
        added = np.asarray(bias, np.int32)
        return self.add(Conv(y.name, "Conv", x, y, g, x.zero_point, weights, zeros, added, epilogue))

    def pool(self, x: Tensor, kind: type[MaxPool] | type[AveragePool], kernel: int, pads: int = 0, **options) -> Tensor:
        g = geometry(x.shape[2:], x.shape[1], x.shape[1], (kernel, kernel), x.shape[1], pads, 1)
        return self.add(kind("pool", "Pool", x, self.tensor((1, x.shape[1], *g.output), x.zero_point), g, **options))

    def global_average(self, x: Tensor) -> Tensor:
        y, pixels = self.tensor((*x.shape[:2], 1, 1), x.zero_point), prod(x.shape[2:])
        by = Requantize(np.array([1 / pixels], np.float32), x.zero_point, y.dtype.low, y.dtype.high)
        return self.add(GlobalAveragePool("gap", "GlobalAveragePool", x, y, 1, pixels, by))

    def lookup(self, x: Tensor, table: Array, zero_point: int | None = None) -> Tensor:
        y = self.tensor(x.shape, x.zero_point if zero_point is None else zero_point, x.dtype)
        return self.add(Lookup("lookup", "Lookup", x, y, np.asarray(table, np.int64)))

    def binary(self, kind, a: Tensor, b: Tensor, zero_point: int = 0) -> Tensor:
        y = self.tensor(np.broadcast_shapes(a.shape, b.shape), zero_point)
        return self.add(QuantizedBinary("binary", "Binary", kind, a, b, y))

    def moved(self, kind, x: Tensor, shape: Sequence[int], **options) -> Tensor:
        return self.add(kind("moved", kind.__name__, x, self.tensor(shape, x.zero_point, x.dtype), **options))

    def concat(self, xs: Sequence[Tensor], axis: int = 1) -> Tensor:
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.add(Concat("concat", "Concat", tuple(xs), self.tensor(shape, xs[0].zero_point), axis))

    def program(self, *outputs: Tensor) -> Program:
        return Program("net", tuple(self.inputs), outputs, tuple(self.operators), "", dict(self.constants))


def geometry(image, channels, out, kernel, group, pads, stride) -> ConvGeometry:
    """The same kernel step on every axis; ``pads`` on every side."""
    rank = len(image)
    output = tuple((i + 2 * pads - k) // stride + 1 for i, k in zip(image, kernel, strict=True))
    every = ((stride,) * rank, (1,) * rank, (pads,) * rank, (pads,) * rank)
    return ConvGeometry(1, group, channels, out, tuple(image), tuple(kernel), *every, output)


def weights(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def assert_sound(program: Program, feeds: Iterator[Mapping[str, Array]]) -> None:
    """Every element of every tensor lies within its range, for all these inputs."""
    ranges = channel_ranges(program)
    for feed in feeds:
        for name, values in evaluate_all(program, feed).items():
            if name in ranges:
                lo, hi = ranges[name].elements(values.shape)
                assert ((lo <= values) & (values <= hi)).all(), name


def conv_op(x_shape, w, pads=0, zero_point=3, raw=True) -> Conv:
    net = Net()
    net.conv(net.input(x_shape, zero_point=zero_point), w, range(w.shape[0]), pads=pads, raw=raw)
    return net.operators[0]


@pytest.mark.parametrize(("pads", "image"), [(0, 2), (1, 1), (1, 2)])
def test_the_interval_of_one_convolution_is_exactly_what_all_its_inputs_reach(pads, image):
    op = conv_op((1, 1, image, image), weights(3, 1, 2, 2), pads)
    lo, hi = np.array([2]), np.array([5])
    op = replace(op, x_zero_point=1)  # so that padding is none of the image's codes
    seen = []
    for codes in product(range(2, 6), repeat=image * image):
        x = np.array(codes, np.uint8).reshape(1, 1, image, image)
        seen.append(evaluate_all(Program("", (op.x,), (op.y,), (op,), ""), {op.x.name: x})[op.y.name])
    y = np.stack(seen)
    reached = accumulator_interval(op, (lo, hi))
    assert reached.lo.tolist() == y.min(axis=(0, 1, 3, 4)).tolist()
    assert reached.hi.tolist() == y.max(axis=(0, 1, 3, 4)).tolist()


def test_padding_counts_as_zero_even_where_no_code_of_the_image_does():
    ones = np.ones((1, 1, 3, 3), np.int8)
    op = conv_op((1, 1, 4, 4), ones, pads=1, zero_point=0)
    reached = accumulator_interval(op, (np.array([10]), np.array([10])))
    assert (reached.lo[0], reached.hi[0]) == (40, 90)  # a corner sees four pixels, the middle nine


def test_a_tap_that_no_window_sees_inside_the_image_adds_nothing():
    op = conv_op((1, 1, 1, 1), np.full((1, 1, 3, 3), 7, np.int8), pads=1, zero_point=0)
    assert window_patterns(op.geometry).tolist() == [[False] * 4 + [True] + [False] * 4]
    assert accumulator_interval(op).bounds == (0, 7 * 255)


def test_channels_that_leave_int32_have_all_of_int32_and_say_so():
    op = replace(conv_op((1, 1, 2, 2), np.ones((2, 1, 1, 1), np.int8)), bias=np.array([INT32_MAX, 0], np.int32))
    reached = accumulator_interval(op)
    assert reached.wraps
    assert (reached.lo[0], reached.hi[0]) == (INT32_MIN, INT32_MAX)
    assert (reached.lo[1], reached.hi[1]) == (-3, 252)


def narrow_net() -> tuple[Net, Tensor]:
    """Four channels: two constant ones (code 0 and 40), one of at most half the codes, one of all."""
    net = Net()
    x = net.input((1, 1, 4, 4))
    w = np.array([0, 0, 1, 100], np.int8).reshape(4, 1, 1, 1)
    return net, net.conv(x, w, [-5000, 40, 0, 0], scale=1.0)


def test_each_channel_has_its_own_range():
    net, y = narrow_net()
    found = channel_ranges(net.program(y))[y.name]
    assert (found.axis, found.lo.tolist(), found.hi.tolist()) == (1, [0, 40, 0, 0], [0, 40, 255, 255])


def test_annotated_convolutions_know_what_their_neighbours_allow():
    net, y = narrow_net()
    z = net.conv(y, np.ones((2, 4, 1, 1), np.int8), [0, 0], raw=True)
    alone = accumulator_interval(net.operators[1])
    within = next(op for op in annotate(net.program(z)).operators if op.y.name == z.name)
    assert alone.bounds == (0, 4 * 255)
    assert accumulator_interval(within).bounds == (40, 40 + 2 * 255)
    assert accumulator_interval(within, (np.zeros(4, np.int64), np.full(4, 255))).bounds == alone.bounds


def test_a_convolution_of_an_input_is_annotated_with_what_it_reaches_alone():
    net, y = narrow_net()
    [op] = annotate(net.program(y)).operators
    assert op.accumulator_range is not None
    assert accumulator_interval(op).lo.tolist() == accumulator_interval(net.operators[0]).lo.tolist()
    assert accumulator_interval(op).hi.tolist() == accumulator_interval(net.operators[0]).hi.tolist()


def movements(net: Net, y: Tensor) -> dict[str, Tensor]:
    image = (1, 4, 4, 4)
    inside = np.arange(256)[::-1].copy()
    return {
        "lookup": net.lookup(y, inside),
        "max pool": net.pool(y, MaxPool, 2, 1),
        "average pool": net.pool(y, AveragePool, 3, 1, count_include_pad=False),
        "average pool with padding counted": net.pool(y, AveragePool, 3, 1, count_include_pad=True),
        "global average": net.global_average(y),
        "transpose": net.moved(Transpose, y, image, perm=(0, 2, 3, 1)),
        "flatten": net.moved(Reshape, y, (1, 64)),
        "pad": net.moved(Pad, y, (1, 4, 6, 6), before=(0, 0, 1, 1), value=7),
        "pad channels": net.moved(Pad, y, (1, 6, 4, 4), before=(0, 1, 0, 0), value=7),
        "slice": net.moved(Slice, y, (1, 2, 4, 4), starts=(0, 3, 0, 0), steps=(1, -2, 1, 1)),
        "resize": net.moved(Resize, y, (1, 4, 2, 2), places=((0,), (0, 1, 2, 3), (0, 3), (1, 1))),
        "concat": net.concat([y, y]),
        "concat of rows": net.concat([y, y], 2),
        "add": net.binary("add", y, y, 3),
        "mul": net.binary("mul", y, net.constant(np.arange(4, dtype=np.uint8).reshape(4, 1, 1)), 100),
        "mul by a row": net.binary("mul", net.constant(np.arange(4, dtype=np.uint8)), y, 9),
    }


CONSTANT_CHANNELS = {
    "lookup": [0, 1],
    "max pool": [0, 1],
    "average pool": [0, 1],
    "average pool with padding counted": [0],
    "global average": [0, 1],
    "transpose": [0, 1],
    "flatten": list(range(32)),
    "pad": [],
    "pad channels": [0, 1, 2, 5],
    "slice": [1],
    "resize": [0, 1],
    "concat": [0, 1, 4, 5],
    "concat of rows": [0, 1],
    "add": [0, 1],
    "mul": [0, 1],
    "mul by a row": [0],  # of the columns
}
"""The channels that are constant behind each operator, of those of ``narrow_net``."""


@pytest.mark.parametrize("name", CONSTANT_CHANNELS)
def test_constant_channels_stay_known_behind(name):
    net, y = narrow_net()
    z = movements(net, y)[name]
    found = channel_ranges(net.program(z))[z.name]
    assert np.flatnonzero(found.lo == found.hi).tolist() == CONSTANT_CHANNELS[name]


def test_no_value_of_any_operator_leaves_its_range():
    net, y = narrow_net()
    outputs = movements(net, y)
    assert_sound(net.program(*outputs.values()), tried_inputs(net.program(y), 20))


@pytest.mark.all
def test_no_value_of_an_operator_that_can_be_compiled_leaves_its_range():
    programs = [compile(model).program for model in operator_models().values()]
    integers = [each for each in programs if any(name in channel_ranges(each) for name in _computed(each))]
    assert len(integers) > 40
    for program in integers:
        assert_sound(program, tried_inputs(program))


def _computed(program: Program) -> list[str]:
    return [op.y.name for op in program.operators]


@pytest.mark.parametrize("kind", [MaxPool, AveragePool])
def test_windows_that_mix_rows_of_different_ranges_have_no_range_per_row(kind):
    net = Net()
    x = net.input((1, 2, 4, 4))
    padded = net.moved(Pad, x, (1, 2, 5, 4), before=(0, 0, 1, 0), value=9)
    options = {} if kind is MaxPool else {"count_include_pad": False}
    y = net.pool(padded, kind, 2, 1, **options)
    program = net.program(y)
    assert channel_ranges(program)[padded.name].axis == 2
    assert channel_ranges(program)[y.name].axis == 1
    assert_sound(program, tried_inputs(program))


def test_a_window_of_nothing_but_padding_can_be_below_every_code_of_the_image():
    net = Net()
    x = net.conv(net.input((1, 1, 3, 3)), np.zeros((1, 1, 1, 1), np.int8), [5000])
    program = net.program(net.pool(x, MaxPool, 2, 2))
    assert channel_ranges(program)[x.name].lo.tolist() == [50]
    assert_sound(program, tried_inputs(program, 1))


def test_a_softmax_is_at_least_its_zero_point():
    net = Net()
    x = net.input((1, 4), dtype=DType.INT8)
    y = net.tensor((1, 4), -100, DType.INT8, 1 / 256)
    net.add(Softmax("softmax", "Softmax", x, y, np.ones(256, np.float32), 256.0))
    assert channel_ranges(net.program(y))[y.name].lo.tolist() == [-100]


def test_sums_of_a_product_are_bounded_by_what_both_operands_can_be():
    net = Net()
    a, b = net.input((2, 3), dtype=DType.INT8), net.input((3, 2), dtype=DType.INT8)
    low = net.tensor((2, 3), 0, DType.INT8, 1.0)
    net.add(Lookup("clamp", "Clip", a, low, np.clip(np.arange(-128, 128), -2, 5)))
    y = net.tensor((2, 2), 0, DType.INT8, 1.0)
    by = Requantize(np.float32([0.001]), 0, -128, 127)
    net.add(MatMul("product", "QLinearMatMul", low, b, y, 1, -1, by))
    program = annotate(net.program(y))
    assert program.operators[-1].accumulator_range == (-3 * 4 * 127, 3 * 4 * 128)
    assert_sound(program, tried_inputs(program))


REAL = ["vww_mbv1_tfl_qop", "kws_dscnn_ort_qop_u8s8", "ic_resnet8_tfl_qop", "micro_kws_m_static_qoperator"]


@pytest.mark.parametrize("name", REAL)
def test_no_value_of_a_real_model_leaves_its_range(name):
    program = shared_program(name)
    assert_sound(program, iter([*recorded_inputs(program, name, 2), *tried_inputs(program, 2)]))
