"""Orion's convolution: encoding, arithmetic, refusals, and the staircase that replaces its division."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hostile_orion import HOSTILE, hostile_inputs
from models import qlinear_conv
from qdq import Chain

import qcgen
from qcgen.cores import TARGETS
from qcgen.errors import ModelRejected, OrionPanic, ProofFailed
from qcgen.infer import infer
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Setting
from qcgen.kernels.portable.orion import ORION_CONV, evenly_spaced
from qcgen.lower.linear import lower_conv
from qcgen.lower.orion import lower_orion
from qcgen.lower.source import Source
from qcgen.orion import certify, fits_int32, reachable, requantize_orion, run_time_tests, safe_accumulators, thresholds
from qcgen.reference import evaluate
from qcgen.reference.reduction import evaluate_orion_conv

VECTORS = Path(__file__).resolve().parents[2] / "shared" / "spec" / "orion_vectors.json"
FRACTION_BITS = {"FP16x16": 16, "FP8x23": 23}


def model(x_shape, w, xs=0.05, xz=0, ws=0.03, wz=0, ys=0.02, yz=0, bias=None, **attributes):
    """A graph with one QLinearConv node and the node; scales may be arrays, zero points of any numpy type."""
    constants = {
        "x_scale": np.asarray(xs, np.float32),
        "x_zero_point": np.asarray(xz, getattr(xz, "dtype", np.int8)),
        "w": np.asarray(w, getattr(w, "dtype", np.int8)),
        "w_scale": np.asarray(ws, np.float32),
        "w_zero_point": np.asarray(wz, getattr(wz, "dtype", np.int8)),
        "y_scale": np.asarray(ys, np.float32),
        "y_zero_point": np.asarray(yz, getattr(yz, "dtype", np.int8)),
    }
    names = ["x", *constants]
    if bias is not None:
        constants["B"] = np.asarray(bias, getattr(bias, "dtype", np.int32))
        names.append("B")
    node = Node("conv1", "QLinearConv", "", tuple(names), ("y",), attributes)
    values = {name: Value(name, DType.of(array), array.shape) for name, array in constants.items()}
    values |= {"x": Value("x", DType.INT8, tuple(x_shape))}
    return node, Graph("g", (node,), ("x",), ("y",), values, constants, {"": 10}, "")


def lowered(fraction_bits, *args, **kwargs):
    node, graph = model(*args, **kwargs)
    source = Source(node, infer(graph))
    return lower_orion(source, lower_conv(source)[-1], fraction_bits)


def problems(fraction_bits, *args, **kwargs):
    with pytest.raises(ModelRejected) as rejection:
        lowered(fraction_bits, *args, **kwargs)
    return [problem.what for problem in rejection.value.problems]


def int8s(shape, seed, low=-128, high=127):
    return np.random.default_rng(seed).integers(low, high, shape, dtype=np.int8, endpoint=True)


class Panic(Exception):
    """What Orion does when a magnitude leaves 32 bits."""


class SignMagnitude:
    """Orion's number in plain Python integers, written from its description and apart from the code under test."""

    def __init__(self, mag, negative, f):
        if mag >= 2**32:
            raise Panic(mag)
        self.mag, self.negative, self.f = mag, negative, f

    @classmethod
    def of(cls, integer, f):
        return cls(abs(integer), integer < 0, f)

    def __int__(self):
        return -self.mag if self.negative else self.mag

    def __neg__(self):
        return self.of(-int(self), self.f)

    def __add__(self, other):
        if self.negative == other.negative:
            return SignMagnitude(self.mag + other.mag, self.negative, self.f)
        large, small = (self, other) if self.mag > other.mag else (other, self)
        return SignMagnitude(large.mag - small.mag, large.negative, self.f)

    def __mul__(self, other):
        return SignMagnitude(self.mag * other.mag // 2**self.f, self.negative != other.negative, self.f)

    def __truediv__(self, other):
        return SignMagnitude(self.mag * 2**self.f // other.mag, self.negative != other.negative, self.f)


def orion_in_plain_integers(x, w, enc, f, bias=None, strides=None, pads=None, dilations=None, group=1):
    """Orion's qlinear_conv, every step a panic if 32 bits are left; ``enc`` holds encoded scales and zero points."""
    number = {key: SignMagnitude.of(value, f) for key, value in enc.items()}
    one = 2**f
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * 2 * rank
    deq_x, deq_w = (
        np.array([(SignMagnitude.of(int(q) * one, f) + -number[z]) * number[s] for q in a.flat]).reshape(a.shape)
        for a, z, s in ((x, "xz", "xs"), (w, "wz", "ws"))
    )
    out = [
        (x.shape[2 + a] + pads[a] + pads[rank + a] - (w.shape[2 + a] - 1) * dilations[a] - 1) // strides[a] + 1
        for a in range(rank)
    ]
    y = np.empty((x.shape[0], w.shape[0], *out), np.int64)
    for n, m, *o in np.ndindex(*y.shape):
        start = SignMagnitude(0, False, f)
        if bias is not None:
            start = SignMagnitude.of(int(bias[m]) * one, f) * (number["xs"] * number["ws"])
        acc = start if group == 1 else SignMagnitude(0, False, f)
        for c in range(w.shape[1]):
            dot = SignMagnitude(0, False, f)
            for k in product(*(range(size) for size in w.shape[2:])):
                at = [o[a] * strides[a] - pads[a] + k[a] * dilations[a] for a in range(rank)]
                if all(0 <= at[a] < x.shape[2 + a] for a in range(rank)):
                    channel = m // (w.shape[0] // group) * w.shape[1] + c
                    dot = dot + deq_x[(n, channel, *at)] * deq_w[(m, c, *k)]
            acc = acc + dot
        acc = acc if group == 1 else acc + start
        moved = acc / number["ys"] + number["yz"]
        clamped = SignMagnitude.of(max(-128 * one, min(127 * one, int(moved))), f)
        y[(n, m, *o)] = (-1 if clamped.negative else 1) * (clamped.mag // one)
    return y


def encoded(f, xs=0.05, xz=0, ws=0.03, wz=0, ys=0.02, yz=0):
    scales = {key: int(float(np.float32(value)) * 2**f) for key, value in (("xs", xs), ("ws", ws), ("ys", ys))}
    return scales | {key: int(value) << f for key, value in (("xz", xz), ("wz", wz), ("yz", yz))}


def agrees(f, x, w, quantization, pads=None, bias=None, strides=None, dilations=None, group=1, **attributes):
    """Whether the reference computes what plain integers do; ``pads`` are the resolved ones if auto_pad is given."""
    given = {"strides": strides, "dilations": dilations, "group": group, **attributes}
    if "auto_pad" not in attributes:
        given["pads"] = pads
    stated = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items() if v is not None}
    op = lowered(f, x.shape, w, bias=bias, **quantization, **stated)
    expected = orion_in_plain_integers(x, w, encoded(f, **quantization), f, bias, strides, pads, dilations, group)
    assert len(np.unique(expected)) > 1, "a constant output tests nothing"
    actual = evaluate_orion_conv(op, x)
    assert actual.dtype == np.int8
    assert op.y.shape == actual.shape
    np.testing.assert_array_equal(actual, expected)
    return True


# --- Orion's own vector and arithmetic cases ---


def test_orions_own_vector_is_computed():
    x = np.arange(1, 10, dtype=np.int8).reshape(1, 1, 3, 3)
    op = lowered(16, x.shape, [[[[0]]]], xs=0.5, xz=2, ws=0.4, wz=3, ys=0.2, yz=4)
    assert evaluate_orion_conv(op, x).ravel().tolist() == [7, 4, 1, -2, -5, -8, -11, -14, -17]


def recorded_cases():
    if not VECTORS.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="Orion's vectors are not beside the repository"))]
    cases = json.loads(VECTORS.read_text())["arithmetic_cases"]
    return [
        pytest.param(case, id=f"{i}-{case['format']}")
        for i, case in enumerate(cases)
        if case["format"] in FRACTION_BITS
    ]


@pytest.mark.parametrize("case", recorded_cases())
def test_recorded_arithmetic_is_computed(case):
    f = FRACTION_BITS[case["format"]]
    x, w = np.array(case["x"], np.int8), np.array(case["w"], np.int8)
    enc, real, zp = case["enc"], case["real"], case["zp"]
    op = lowered(f, x.shape, w, **real, xz=zp["x"], wz=zp["w"], yz=zp["y"])
    assert (op.y_scale, op.y_zero_point) == (enc["ys"], enc["yz"])
    np.testing.assert_array_equal(evaluate_orion_conv(op, x), case["orion_emulated"])


# --- the reference against plain integers ---

QUANTIZATION = {"xs": 0.05, "xz": -3, "ws": 0.03, "wz": 2, "ys": 0.21, "yz": 5}


@pytest.mark.parametrize("f", [16, 23])
def test_products_are_truncated_toward_zero_before_they_are_added(f):
    x, w = int8s((1, 2, 4, 4), 1), int8s((3, 2, 2, 2), 2, -20, 20)
    assert agrees(f, x, w, QUANTIZATION)


def test_truncation_at_every_product_matters():
    """Tiny weights: each product truncates to 0 although their sum would be several codes."""
    x, w = np.full((1, 64, 1, 1), 1, np.int8), np.full((1, 64, 1, 1), 1, np.int8)
    op = lowered(16, x.shape, w, xs=0.003, ws=0.005, ys=0.0001)
    assert (64 * 0.003 * 0.005) / 0.0001 > 9
    assert evaluate_orion_conv(op, x).ravel().tolist() == [0]


@pytest.mark.parametrize("spatial", [(9,), (5, 6), (3, 4, 3)], ids=["1d", "2d", "3d"])
def test_every_spatial_rank_is_computed(spatial):
    kernel = (2,) * len(spatial)
    x, w = int8s((2, 2, *spatial), 3), int8s((2, 2, *kernel), 4, -30, 30)
    pads = [1] * len(spatial) + [0] * len(spatial)
    assert agrees(16, x, w, QUANTIZATION, pads=pads, strides=[2] * len(spatial))


def test_padding_adds_nothing_whatever_the_zero_point():
    x, w = int8s((1, 1, 3, 3), 5), int8s((2, 1, 3, 3), 6)
    assert agrees(16, x, w, QUANTIZATION | {"xz": -128, "ys": 1.3}, pads=[2, 1, 1, 2])


@pytest.mark.parametrize(("auto_pad", "pads"), [("SAME_UPPER", [0, 1, 1, 1]), ("SAME_LOWER", [1, 1, 0, 1])])
def test_same_pads_read_the_image_axes(auto_pad, pads):
    """Orion itself takes the batch and the channels for them."""
    x, w = int8s((1, 1, 4, 7), 7), int8s((1, 1, 2, 3), 8, -30, 30)
    assert agrees(16, x, w, QUANTIZATION, pads=pads, auto_pad=auto_pad)


def test_valid_means_no_padding():
    """Orion itself pads as for SAME_UPPER."""
    x, w = int8s((1, 1, 5, 5), 9), int8s((1, 1, 3, 3), 10, -30, 30)
    assert agrees(16, x, w, QUANTIZATION, auto_pad="VALID")


def test_elements_that_same_leaves_out_in_front_are_left_out():
    """Windows of one element, four apart: of eight elements onnxruntime leaves out the first."""
    w, x = np.full((1, 1, 1), 3, np.int8), np.arange(1, 9, dtype=np.int8).reshape(1, 1, 8)
    types = {"x_type": "int8", "y_type": "int8", "x_scale": 1.0, "w_scale": 1.0, "y_scale": 1.0}
    model = qlinear_conv(x.shape, w, strides=[4], auto_pad="SAME_UPPER", **types)
    for numerics in ("onnxruntime", "orion-fp16x16"):
        program = qcgen.compile(model, numerics=numerics).program
        assert evaluate(program, {"x": x})["y"].ravel().tolist() == [6, 18]


def test_dilations_spread_the_taps():
    """Orion itself ignores them."""
    x, w = int8s((1, 2, 7, 6), 11), int8s((2, 2, 3, 2), 12, -30, 30)
    assert agrees(16, x, w, QUANTIZATION, dilations=[2, 3], pads=[1, 0, 0, 2])


def test_groups_see_their_own_channels():
    x, w = int8s((2, 4, 4, 4), 13), int8s((6, 2, 2, 2), 14, -30, 30)
    assert agrees(16, x, w, QUANTIZATION, group=2, bias=np.arange(-300, 300, 100, dtype=np.int32))


@pytest.mark.parametrize(("f", "bias"), [(16, [65535, -65535, 0]), (23, [511, -511, 7])])
def test_bias_has_the_truncated_product_of_the_scales(f, bias):
    x, w = int8s((1, 1, 3, 3), 15), int8s((3, 1, 1, 1), 16, -40, 40)
    assert agrees(f, x, w, {"xs": 0.0117, "ws": 0.013, "ys": 0.09}, bias=np.array(bias, np.int32))


def test_absent_bias_and_a_bias_of_zeros_are_the_same():
    x, w = int8s((1, 1, 3, 3), 17), int8s((2, 1, 2, 2), 18)
    without, zeros = (lowered(16, x.shape, w, bias=b) for b in (None, [0, 0]))
    np.testing.assert_array_equal(without.bias, zeros.bias)


def test_quotients_are_truncated_toward_zero_before_the_zero_point_is_added():
    """A tiny negative sum is 0 after the division, not a unit below it."""
    op = lowered(16, (1, 1, 1, 1), [[[[1]]]], ys=1.5, yz=5)
    assert requantize_orion(op, np.array([-1, 0, 1])).tolist() == [5, 5, 5]
    assert requantize_orion(op, np.array([-3, 3])).tolist() == [4, 5]  # -2 / 2^16 is left of the division


# --- where Orion panics ---


def hostile_op(name):
    f, shape, w, quantization, attributes = HOSTILE[name]
    stated = {key: tuple(v) if isinstance(v, list) and key != "bias" else v for key, v in attributes.items()}
    return lowered(f, shape, np.asarray(w, np.int8), **quantization, **stated)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_reference_panics_where_orion_does(name):
    f, shape, w, quantization, attributes = HOSTILE[name]
    op, given = hostile_op(name), {"group": 1} | attributes
    outcomes = []
    for x in hostile_inputs(shape, 30):
        try:
            expected = orion_in_plain_integers(x, np.asarray(w, np.int8), encoded(f, **quantization), f, **given)
        except Panic:
            outcomes.append(True)
            with pytest.raises(OrionPanic, match=r"Orion panics in node 'conv1': .* needs more than 32 bits"):
                evaluate_orion_conv(op, x)
        else:
            outcomes.append(False)
            np.testing.assert_array_equal(evaluate_orion_conv(op, x), expected)
    assert min(outcomes.count(True), outcomes.count(False)) >= 5


@pytest.mark.parametrize("name", HOSTILE)
def test_accumulators_are_safe_up_to_the_last_that_orion_requantizes(name):
    op = hostile_op(name)
    for inside, step in zip(safe_accumulators(op), (-1, 1), strict=True):
        assert not panics_at(op, inside)
        assert panics_at(op, inside + step)


def panics_at(op, acc):
    """Whether Orion panics where it requantizes an accumulator."""
    f = op.fraction_bits
    try:
        _ = SignMagnitude.of(acc, f) / SignMagnitude.of(op.y_scale, f) + SignMagnitude.of(op.y_zero_point, f)
    except Panic:
        return True
    return False


TESTED = {
    "code": {"codes"},
    "product": {"products"},
    "product that the sum takes back": {"products", "channel_sums"},
    "product of 64 bits": {"products"},
    "wide product": {"products", "sums"},
    "sum of a channel": {"channel_sums", "sums"},
    "sum": {"sums"},
    "sum with groups": {"sums"},
    "quotient": {"accumulators"},
    "moved quotient": {"accumulators"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_only_what_intervals_cannot_exclude_is_tested(name):
    tests = run_time_tests(hostile_op(name))
    needed = {key for key, value in vars(tests).items() if value is not None and value is not False}
    assert needed == TESTED[name]
    assert tests.any


def test_what_cannot_panic_is_not_tested():
    assert not run_time_tests(staircase_op(16, {"ys": 0.21})).any


# --- encoding ---


def test_float_scales_are_truncated_not_rounded():
    op = lowered(16, (1, 1, 1, 1), [[[[1]]]], xs=0.05, ws=1.0, ys=0.2)
    assert op.x_values[128 + 1] == int(0.05 * 65536) == 3276  # 3276.8
    assert op.y_scale == 13107  # 13107.2


def test_zero_points_are_encoded_as_whole_numbers():
    op = lowered(23, (1, 1, 1, 1), [[[[5]]]], xs=1.0, xz=-3, ws=0.5, wz=4, ys=1.0, yz=-7)
    assert op.x_values[[0, 125, 255]].tolist() == [-125 << 23, 0, 130 << 23]
    assert op.weights.ravel().tolist() == [1 << 22]
    assert op.y_zero_point == -7 << 23


def test_the_smallest_scale_is_one_unit():
    assert lowered(16, (1, 1, 1, 1), [[[[1]]]], ys=2.0**-16).y_scale == 1
    assert problems(16, (1, 1, 1, 1), [[[[1]]]], ys=2.0**-16 * 0.999) == [
        "input y_scale: 1.52435e-05 becomes 0 in FP16x16"
    ]


# --- refusals ---


def test_all_problems_of_the_operands_are_reported_at_once():
    found = problems(
        16,
        (1, 1, 3, 3),
        np.zeros((2, 1, 1, 1), np.uint8),
        xs=65536.0,
        ws=[0.1, 0.2],
        wz=np.zeros(2, np.int8),
        ys=2.0**-20,
        yz=np.uint8(3),
    )
    assert found == [
        "input x_scale: 65536 is 4294967296 in FP16x16, more than 4294967295",
        "input w_scale: it has 2 elements, not 1",
        "input y_scale: 9.53674e-07 becomes 0 in FP16x16",
        "input w_zero_point: it has 2 elements, not 1",
        "input y_zero_point: its type is uint8, not int8",
        "input w: its type is uint8, not int8",
    ]


def test_a_scale_beyond_the_format_is_refused():
    assert problems(23, (1, 1, 1, 1), [[[[1]]]], ys=512.0) == [
        "input y_scale: 512 is 4294967296 in FP8x23, more than 4294967295"
    ]


def test_an_image_with_four_spatial_axes_is_refused():
    assert problems(16, (1, 1, 2, 2, 2, 2), np.ones((1, 1, 1, 1, 1, 1), np.int8)) == ["input x: it has 6 axes"]


ONE = SimpleNamespace(shape=(1, 1, 1, 1), w=np.ones((1, 1, 1, 1), np.int8))

OVERFLOWS = [
    ("weight", {"x_shape": ONE.shape, "w": [[[[1]]], [[[-128]]]], "ws": 520.0}, "a dequantized weight"),
    ("bias", {"x_shape": ONE.shape, "w": [[[[1]]], [[[1]]]], "bias": [5, 65536]}, "the encoded bias"),
    ("scales", {"x_shape": ONE.shape, "w": ONE.w, "xs": 300.0, "ws": 300.0, "bias": [1]}, "x_scale times w_scale"),
]


@pytest.mark.parametrize(("kwargs", "quantity"), [row[1:] for row in OVERFLOWS], ids=[row[0] for row in OVERFLOWS])
def test_a_constant_that_leaves_32_bits_is_named(kwargs, quantity):
    [what] = problems(16, **kwargs)
    assert what.startswith(quantity)
    assert what.endswith("more than the 4294967295 that FP16x16 holds")


def test_an_overflow_names_its_size_and_channel():
    w = np.array([1, 100, -3], np.int8).reshape(3, 1, 1, 1)
    assert problems(16, ONE.shape, w, xs=1.0, ws=1000.0) == [
        "a dequantized weight has a magnitude of 6553600000 (the number 100000) in output channel 1, 2258632705 more "
        "than the 4294967295 that FP16x16 holds"
    ]


def test_a_channel_without_an_output_for_any_input_is_refused():
    """Its bias alone leaves 32 bits when it is divided, and no product takes enough of it back."""
    w = np.ones((2, 1, 1, 1), np.int8)
    options = {"xs": 1.0, "ws": 1.0, "ys": 0.125, "bias": [3, -8320]}
    assert problems(16, ONE.shape, w, **options) == [
        "no input has an output in FP16x16: in output channel 1 the sum of products and bias is within "
        "[-553648128, -536936448], and divided by y_scale it fits 32 bits within [-536870911, 536870911] only"
    ]
    assert not refused(16, ONE.shape, w, **options | {"bias": [3, -8318]})


def test_orion_panics_on_some_input_exactly_where_the_code_tests():
    """The smallest y_scale without a test panics on no input, the next smaller one on the worst input."""
    w, f = np.array([[[[100]], [[-90]]]], np.int8), 23
    worst = np.array([[[[-128]], [[127]]]], np.int8)
    ops = {step: lowered(f, (1, 2, 1, 1), w, ys=step / 2**16) for step in range(4600, 4700)}
    untested = [step for step, op in ops.items() if not run_time_tests(op).any]
    assert untested == list(range(untested[0], 4700))
    assert untested[0] > 4600
    assert orion_in_plain_integers(worst, w, encoded(f, ys=untested[0] / 2**16), f).ravel().tolist() == [-128]
    with pytest.raises(Panic):
        orion_in_plain_integers(worst, w, encoded(f, ys=(untested[0] - 1) / 2**16), f)


def refused(*args, **kwargs):
    try:
        lowered(*args, **kwargs)
    except ModelRejected:
        return True
    return False


# --- the staircase ---

STAIRCASES = {
    "all codes": (16, {"ys": 0.21, "yz": 5}),
    "few codes": (16, {"ys": 40.0, "yz": -100}),
    "clamped on both sides": (16, {"ys": 0.002}),
    "more fraction bits": (23, {"ys": 0.3, "yz": 127}),
    "one unit": (16, {"ys": 0.05, "xs": 2.0**-16, "ws": 1.0}),
}


def staircase_op(f, quantization):
    w = int8s((3, 2, 2, 2), 19, -20, 20)
    return lowered(f, (1, 2, 4, 4), w, bias=[100, 0, -500], **quantization)


@pytest.mark.parametrize("row", STAIRCASES.values(), ids=STAIRCASES)
def test_thresholds_separate_the_codes(row):
    op = staircase_op(*row)
    (low, high), steps = reachable(op), thresholds(op)
    assert steps.shape == (255,)
    assert np.all(np.diff(steps) >= 0)
    for k, t in zip(range(-127, 128), steps.tolist(), strict=True):
        assert low <= t <= high + 1
        assert t > high or requantize_orion(op, np.array(t)) >= k
        assert t == low or requantize_orion(op, np.array(t - 1)) < k


@pytest.mark.parametrize("row", STAIRCASES.values(), ids=STAIRCASES)
def test_the_number_of_thresholds_passed_is_the_code(row):
    op = staircase_op(*row)
    low, high = reachable(op)
    inside = np.random.default_rng(20).integers(low, high, 5000, endpoint=True)
    steps = thresholds(op)
    near = np.concatenate([steps - 1, steps, steps + 1])
    acc = np.concatenate([[low, 0, high], inside, near[(near >= low) & (near <= high)]])
    np.testing.assert_array_equal(np.searchsorted(steps, acc, side="right") - 128, requantize_orion(op, acc))


def test_the_reachable_interval_is_reached():
    op = staircase_op(16, {"xz": 7, "wz": 3, "ys": 0.21})
    everything = replace(op, geometry=replace(op.geometry, input=(2, 2), output=(1, 1)))
    extremes = [bound for m in range(3) for bound in accumulator_extremes(everything, m)]
    assert reachable(op) == (min(extremes), max(extremes))


def accumulator_extremes(op, m):
    """The accumulators of the two inputs that are worst for channel m, in plain integers."""
    f = op.fraction_bits
    values = [int(v) for v in (op.x_values[0], op.x_values[-1])]
    products = [[(1 if v * w >= 0 else -1) * (abs(v * w) >> f) for v in values] for w in op.weights[m].ravel().tolist()]
    return [int(op.bias[m]) + sum(pick(p) for p in products) for pick in (min, max)]


def test_int32_holds_the_thresholds_unless_the_interval_is_wide():
    assert fits_int32(staircase_op(16, {"ys": 0.21}))
    wide = lowered(16, (1, 9, 1, 1), np.full((1, 9, 1, 1), 100, np.int8), xs=2.0, ws=0.25, ys=3.0)
    assert not fits_int32(wide)
    assert reachable(wide)[1] > 2**31


def test_a_staircase_that_is_off_by_one_is_not_certified():
    op = staircase_op(16, {"ys": 0.21, "yz": 5})
    steps = thresholds(op)
    assert certify(op, steps) > 255
    low, high = reachable(op)
    wrong = steps.copy()
    wrong[np.flatnonzero((steps > low) & (steps <= high))[7]] += 1
    with pytest.raises(ProofFailed):
        certify(op, wrong)


# --- the packing of the portable kernel ---


@pytest.mark.parametrize(("w_zero_point", "code_zero_point"), [(0, 0), (127, 127), (-128, -128)])
def test_weights_of_a_small_model_stay_int8(w_zero_point, code_zero_point):
    w = np.arange(-128, 128, dtype=np.int8).reshape(2, 128, 1, 1)
    op = lowered(16, (1, 128, 1, 1), w, wz=w_zero_point, ws=0.05, ys=50.0)
    spaced = evenly_spaced(op.weights)
    assert (spaced.unit, spaced.zero_point) == (3276, code_zero_point)
    np.testing.assert_array_equal(spaced.codes, w)
    np.testing.assert_array_equal((spaced.codes - spaced.zero_point) * spaced.unit, op.weights)
    types = [prepared(op, optimize).constants[0].c_type for optimize in ("size", "speed")]
    assert types == ["int8_t", "int32_t"]


def test_a_wide_sum_is_summed_in_64_bits():
    wide = lowered(16, (1, 9, 1, 1), np.full((1, 9, 1, 1), 100, np.int8), xs=2.0, ws=0.25, ys=3.0)
    for op, c_type in ((wide, "int64_t"), (staircase_op(16, {"ys": 0.21}), "int32_t")):
        constants = {constant.role: constant.c_type for constant in prepared(op, "size").constants}
        assert (constants["bias"], constants["thresholds"]) == (c_type, c_type)


def prepared(op, optimize):
    return ORION_CONV.prepare(op, Setting(Layout.CHANNELS_FIRST, Layout.CHANNELS_FIRST, optimize, TARGETS["portable"]))


@pytest.mark.parametrize("zero_point", [None, np.int8(3)])
@pytest.mark.parametrize("bias", [None, np.array([0.5, -0.25], np.float32)])
def test_a_convolution_between_codes_is_the_qlinear_conv_of_its_operands(zero_point, bias):
    w = np.arange(18).reshape(2, 1, 3, 3).astype(np.int8)
    chain = Chain()
    x = chain.through("x", (0.05, zero_point if zero_point is not None else np.int8(0)))
    inputs = [x, chain.weights("w", w, (0.03, zero_point))]
    if bias is not None:
        inputs.append(chain.constant("b", bias))
    chain.through(chain.node("Conv", inputs, "c"), (0.02, np.int8(-7)), "y")
    [op] = qcgen.compile(chain.model((1, 1, 5, 4)), node="c_node", numerics="orion-fp16x16").program.operators
    unit = np.float32(0.05) * np.float32(0.03)
    codes = None if bias is None else np.rint(bias / unit).astype(np.int32)
    zero = 0 if zero_point is None else zero_point
    wanted = lowered(16, (1, 1, 5, 4), w, xz=zero, wz=zero, yz=-7, bias=codes)
    assert np.array_equal(op.bias, wanted.bias)
    assert np.array_equal(op.weights, wanted.weights)
    assert np.array_equal(op.x_values, wanted.x_values)
    assert (op.y_scale, op.y_zero_point, op.geometry) == (wanted.y_scale, wanted.y_zero_point, wanted.geometry)


def test_two_convolutions_share_a_bias_each_in_its_own_units():
    chain, bias = Chain(), np.array([0.5], np.float32)
    chain.constant("b", bias)
    x = chain.dequantize("x", (0.05, np.int8(0)))
    for number in (0, 1):
        w = chain.weights(f"w{number}", np.ones((1, 1, 1, 1), np.int8), (0.03, np.int8(0)))
        y = chain.quantize(chain.node("Conv", [x, w, "b"], f"c{number}"), (0.2, np.int8(0)))
        x = chain.dequantize(y, (0.2, np.int8(0)))
    model = chain.model((1, 1, 2, 2), [y], x_type="int8")
    first, second = qcgen.compile(model, numerics="orion-fp16x16").program.operators
    units = [int(scale * 65536) * int(np.float32(0.03) * 65536) >> 16 for scale in (np.float32(0.05), np.float32(0.2))]
    codes = [np.rint(bias / (np.float32(scale) * np.float32(0.03))) for scale in (0.05, 0.2)]
    assert [op.bias.item() for op in (first, second)] == [int(c.item()) * u for c, u in zip(codes, units, strict=True)]


def test_of_a_node_between_codes_that_orion_does_not_have_one_problem_is_reported():
    chain = Chain()
    w = chain.weights("w", np.ones((4, 4), np.int8), (0.02, np.int8(0)))
    chain.through(chain.node("Gemm", [chain.through("x", (0.05, np.int8(3))), w], "r"), (0.5, np.int8(0)), "y")
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(chain.model((1, 4)), node="r_node", numerics="orion-fp16x16")
    [problem] = rejection.value.problems
    assert problem.where == "node 'r_node' (Gemm)"
