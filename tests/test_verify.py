"""Verification: the inputs it tries, the recordings it reads, and that it finds what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from marks import some_at_first
from models import MICROSOFT, NHWC, conv_integer, float_conv, graph_model, qlinear_conv, random_weights
from onnx import helper

import qcgen
import qcgen.compiler
import qcgen.plan
from qcgen.intervals import accumulator_interval
from qcgen.ir.program import Conv, RawAccumulator
from qcgen.kernels import KERNELS
from qcgen.reference import evaluate_all, evaluate_operator
from qcgen.reference.tolerance import NETWORK, exact, magnitude, tolerance, tolerances
from qcgen.verification import RecordingError, verify
from qcgen.verification.cases import Case, end_cases, generated_cases, recorded_cases
from qcgen.verification.compare import (
    RECORDING,
    SHARING,
    Outcome,
    Probe,
    add,
    differences,
    followed,
    leaves_a_choice,
    locate,
    probed,
)
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder

DIGITS = Path(__file__).parent / "data" / "digits"


def small(**options):
    weights = random_weights((4, 2, 3, 3), seed=5)
    return qcgen.compile(qlinear_conv((1, 2, 6, 7), weights, y_zero_point=100, **options))


# --- the inputs

GEOMETRIES = {
    "plain": ((1, 3, 8, 9), (5, 3, 3, 3), {}),
    "padded, strided": ((1, 3, 8, 9), (5, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "dilated": ((1, 2, 9, 9), (3, 2, 2, 3), {"dilations": [3, 2]}),
    "grouped": ((1, 6, 7, 5), (9, 2, 3, 2), {"group": 3}),
    "depthwise": ((1, 8, 6, 6), (8, 1, 3, 3), {"group": 8, "auto_pad": "SAME_UPPER"}),
    "batch": ((3, 2, 4, 4), (7, 2, 4, 4), {}),
    "one axis": ((1, 4, 30), (6, 4, 5), {}),
    "three axes": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {}),
    "more channels than windows": ((1, 2, 3, 3), (12, 2, 3, 3), {}),
}


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), GEOMETRIES.values(), ids=GEOMETRIES.keys())
@pytest.mark.parametrize("types", ["int8", "uint8"])
def test_both_ends_of_every_accumulator_are_reached(x_shape, w_shape, attributes, types):
    zero_points = np.arange(w_shape[0], dtype=types) * 3
    weights = random_weights(w_shape, types, seed=1)
    model = qlinear_conv(
        x_shape,
        weights,
        x_type=types,
        x_zero_point=7,
        w_zero_point=zero_points,
        w_scale=[0.01] * w_shape[0],
        bias=list(range(w_shape[0])),
        **attributes,
    )
    program = qcgen.compile(model).program
    [op] = program.operators
    raw = replace(op, epilogue=RawAccumulator())
    cases, reached = end_cases(program)
    axes = (0, *range(2, len(x_shape)))
    sums = [evaluate_operator(raw, case.feeds["x"]) for case in cases]
    interval = accumulator_interval(op)
    assert np.array_equal(np.min([y.min(axis=axes) for y in sums], axis=0), interval.lo)
    assert np.array_equal(np.max([y.max(axis=axes) for y in sums], axis=0), interval.hi)
    assert (reached.channels, reached.of) == (w_shape[0], w_shape[0])


def test_a_convolution_whose_windows_are_all_padded_claims_no_ends():
    model = qlinear_conv((1, 2, 2, 2), random_weights((3, 2, 3, 3)), pads=[1, 1, 1, 1])
    cases, reached = end_cases(qcgen.compile(model).program)
    assert cases
    assert (reached.channels, reached.of) == (0, 3)


def test_windows_that_lie_wholly_in_padding_do_no_harm():
    model = qlinear_conv((1, 1, 2, 2), random_weights((1, 1, 2, 2)), pads=[5, 5, 5, 5], strides=[4, 4])
    assert verify(qcgen.compile(model), cases=2).differing == 0


def test_channels_last_images_are_driven_in_their_own_layout():
    options = {"channels_last": 1, "domain": MICROSOFT}
    program = qcgen.compile(qlinear_conv((1, 6, 7, 2), random_weights((4, 2, 3, 3)), **options)).program
    [op] = program.operators
    cases, _ = end_cases(program)
    raw = replace(op, epilogue=RawAccumulator())
    sums = [evaluate_operator(raw, case.feeds["x"]) for case in cases]
    assert np.array_equal(np.max([y.max(axis=(0, 1, 2)) for y in sums], axis=0), accumulator_interval(op).hi)


def test_the_extremes_are_all_low_all_high_and_all_zero_points():
    program = small(x_type="int8", x_zero_point=-3).program
    cases = {case.group: case.feeds["x"] for case in generated_cases(program, seed=0, cases=0)}
    assert {group: set(np.unique(x)) for group, x in cases.items()} == {
        "all low": {-128},
        "all high": {127},
        "all zero points": {-3},
    }


def test_the_same_seed_gives_the_same_inputs():
    program = small().program

    def inputs(seed):
        return np.stack([case.feeds["x"] for case in generated_cases(program, seed, cases=4)])

    assert np.array_equal(inputs(1), inputs(1))
    assert not np.array_equal(inputs(1), inputs(2))


# --- float inputs


def chain(*nodes, weights=((1.0,),), shape=(1, 1, 1, 6)):
    """A model of nodes given as (operator, further inputs), from x to y; s, z are 0.5 and uint8 10, w the weights."""
    names = ["x", *(f"t{i}" for i in range(1, len(nodes))), "y"]
    made = [
        helper.make_node(
            op, [names[i], *inputs], [names[i + 1]], name=f"node{i}", domain=MICROSOFT * (op == "FusedConv")
        )
        for i, (op, inputs) in enumerate(nodes)
    ]
    w = np.float32(weights).reshape(len(weights), -1, 1, 1)
    constants = {"s": np.float32(0.5), "z": np.uint8(10), "w": w}
    return graph_model(made, {"x": ("float", shape)}, {"y": None}, constants, opsets={MICROSOFT: 1})


Q, DQ = ("QuantizeLinear", ["s", "z"]), ("DequantizeLinear", ["s", "z"])
COVERED = (-5.0, 122.5)
"""What the codes of Q stand for: (0 - 10) / 2 and (255 - 10) / 2."""


def test_random_floats_cover_what_the_first_quantize_covers_and_go_beyond():
    program = qcgen.compile(chain(Q, DQ, shape=(1, 1, 50, 50))).program
    for case in generated_cases(program, seed=0, cases=2):
        x = case.feeds["x"]
        assert x.dtype == np.float32
        if case.group == "all zero points":
            assert not x.any()
        elif case.group == "all low":
            assert x.max() < COVERED[0]
        elif case.group == "all high":
            assert x.min() > COVERED[1]
        elif case.group == "halfway between codes":
            assert set(np.unique(x / 0.5 % 1)) == {0.5}
            assert x.min() < COVERED[0]
            assert x.max() > COVERED[1]
            assert np.unique(x).size > 250
        else:
            assert x.min() < COVERED[0]
            assert x.max() > COVERED[1]
            assert x.max() < 200


def test_floats_that_nothing_quantizes_reach_beyond_the_bends_of_activations():
    program = qcgen.compile(VERIFIABLE["float"]).program
    groups = {case.group: next(iter(case.feeds.values())) for case in generated_cases(program, seed=0, cases=2)}
    assert "halfway between codes" not in groups
    assert set(np.unique(groups["random extremes"])) == {-4, 0, 4}


@pytest.mark.parametrize("name", ["digits_qop_s8", "digits_qop_u8", "digits_qdq_s8", "digits_qdq_u8"])
def test_ends_are_reached_through_a_quantize(name):
    program = qcgen.compile(DIGITS / f"{name}.onnx").program
    op = next(op for op in program.operators if isinstance(op, Conv))
    raw = replace(op, epilogue=RawAccumulator())
    cases, reached = end_cases(program)
    sums = [evaluate_operator(raw, evaluate_all(program, case.feeds)[op.x.name]) for case in cases]
    interval = accumulator_interval(op)
    assert np.array_equal(np.min([y.min(axis=(0, 2, 3)) for y in sums], axis=0), interval.lo)
    assert np.array_equal(np.max([y.max(axis=(0, 2, 3)) for y in sums], axis=0), interval.hi)
    assert (reached.channels, reached.of) == (16, 16)


# --- numbers computed in float and then quantized


def test_either_code_is_right_next_to_a_tie_and_no_other():
    program = qcgen.compile(chain(("FusedConv", ["w"]), Q)).program
    assert leaves_a_choice(program)
    x = np.float32([0.75, 0.75, 0.75, 0.75, 0.7, 0.7]).reshape(1, 1, 1, 6)
    computed = {"y": np.uint8([11, 12, 13, 10, 11, 12]).reshape(1, 1, 1, 6)}
    values = followed(program, {"x": x}, computed)
    assert values["y"].ravel().tolist() == [11, 12, 12, 12, 11, 11]


def test_what_follows_a_choice_follows_the_code_that_was_chosen():
    program = qcgen.compile(chain(("FusedConv", ["w"]), Q, DQ)).program
    x = np.full((1, 1, 1, 6), 0.75, np.float32)
    [name] = [op.y.name for op in program.operators if op.op_type == "QuantizeLinear"]
    values = followed(program, {"x": x}, {name: np.full(x.shape, 11, np.uint8)})
    assert set(np.unique(values["y"])) == {0.5}


def test_an_input_that_is_quantized_leaves_no_choice():
    assert not leaves_a_choice(qcgen.compile(chain(Q, DQ)).program)
    assert not leaves_a_choice(qcgen.compile(DIGITS / "digits_qdq_s8.onnx").program)


def test_a_network_with_a_choice_verifies_and_says_so():
    model = chain(
        ("FusedConv", ["w"]), Q, DQ, weights=np.random.default_rng(0).standard_normal((8, 3)), shape=(1, 3, 9, 9)
    )
    result = verify(qcgen.compile(model), cases=6)
    assert result.differing == 0
    assert result.criterion.endswith("either code next to a tie is right")


# --- what it finds

VERIFIABLE = {
    "int8": qlinear_conv((2, 3, 6, 5), random_weights((4, 3, 3, 3)), x_type="int8", y_type="int8", pads=[1, 0, 2, 1]),
    "integer": conv_integer((1, 2, 6, 6), random_weights((3, 2, 3, 3), "uint8"), x_zero_point=9, w_zero_point=128),
    "channels last": qlinear_conv(
        (1, 6, 7, 2), random_weights((4, 2, 3, 3)), channels_last=1, domain=MICROSOFT, group=1
    ),
    "float": float_conv((1, 2, 6, 6), random_weights((3, 2, 3, 3), "float32"), np.float32([1, -2, 3])),
    "float, channels last, Sigmoid": float_conv(
        (1, 6, 6, 2), random_weights((3, 2, 3, 3), "float32"), domain=NHWC, activation="Sigmoid"
    ),
}


@pytest.mark.parametrize("model", VERIFIABLE.values(), ids=VERIFIABLE.keys())
@pytest.mark.parametrize("layout", ["model", "nhwc", "nchw"])
def test_generated_code_passes_in_every_layout(model, layout):
    result = verify(qcgen.compile(model, layout=layout), cases=2, sums=False)
    assert result.first is None
    assert result.differing == 0
    assert result.outputs == result.cases * qcgen.compile(model).program.outputs[0].size


@pytest.mark.parametrize("input", ["whole", "rows"])
def test_code_that_a_hook_may_end_passes_with_its_sums(input):
    """The function by which nodes are measured returned nothing, which was read as a number: Orion panics."""
    model = qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3), seed=5), y_zero_point=100)
    result = verify(qcgen.compile(model, layout="nhwc", status=True, input=input, io_memory="arena"), cases=2)
    assert (result.differing, result.sums.wrong) == (0, None)


@pytest.mark.parametrize("numerics", ["orion-fp16x16", "orion-fp8x23"])
def test_code_in_orions_arithmetic_passes_and_reaches_both_ends(numerics):
    weights = random_weights((3, 2, 2, 2))
    model = qlinear_conv((1, 2, 5, 5), weights, x_type="int8", y_type="int8", x_scale=0.01, w_scale=0.01, y_scale=0.1)
    result = verify(qcgen.compile(model, numerics=numerics), cases=4)
    assert result.differing == 0
    assert (result.reached.channels, result.reached.of) == (3, 3)


@pytest.mark.parametrize("layout", ["model", "nhwc"])
def test_one_wrong_channel_is_found_at_its_place(layout):
    artifact = qcgen.compile(qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3)), y_zero_point=100), layout=layout)
    [op] = artifact.program.operators
    wrong = replace(op, bias=op.bias + np.array([0, 0, 20000, 0], np.int32))
    result = verify(replace(artifact, program=replace(artifact.program, operators=(wrong,))), cases=3)
    assert result.differing > 0
    assert result.first.index[1] == 2
    assert result.first.output == "y"
    assert result.first.expected > result.first.got
    assert all(outcome.differing <= outcome.outputs / 4 for outcome in result.outcomes)


def test_a_defect_that_only_an_end_of_an_interval_shows_is_found():
    artifact = small(x_scale=0.001)
    [op] = artifact.program.operators
    requantize = op.epilogue
    acc = accumulator_interval(op).hi.max()
    top = int(np.rint(np.float32(acc) * requantize.scale[0])) + requantize.zero_point
    wrong = replace(op, epilogue=replace(requantize, high=top - 1))
    result = verify(replace(artifact, program=replace(artifact.program, operators=(wrong,))), cases=4)
    assert [outcome.group for outcome in result.outcomes if outcome.differing] == ["accumulator ends"]


def test_a_float_error_beyond_rounding_is_found():
    artifact = qcgen.compile(VERIFIABLE["float"])
    [op] = artifact.program.operators
    wrong = replace(op, bias=op.bias + np.float32([0, 0, 1e-3]))
    result = verify(replace(artifact, program=replace(artifact.program, operators=(wrong,))), cases=1)
    assert result.first.index[1] == 2


# --- why


@pytest.fixture
def digits():
    return qcgen.compile(DIGITS / "digits_qop_s8.onnx")


def defective(kernel_name, node_name):
    """The kernels, one of them with a wrong bias for one node."""

    def with_defect(kernel):
        def prepare(op, setting):
            if op.name == node_name:
                op = replace(op, bias=op.bias + np.int32(900))
            return kernel.prepare(op, setting)

        return replace(kernel, prepare=prepare) if kernel.name == kernel_name else kernel

    return tuple(map(with_defect, KERNELS))


DEFECTS = {
    "portable/depthwise_nhwc": "depthwise2_quant",
    "portable/pointwise": "pointwise3_quant",
    "portable/conv": "conv5_quant",
}


@pytest.mark.parametrize("kernel", some_at_first(DEFECTS))
@pytest.mark.parametrize("layout", some_at_first(["nhwc", "model"]))
def test_the_first_node_that_differs_is_named(kernel, layout, monkeypatch):
    node = DEFECTS[kernel]
    monkeypatch.setattr(qcgen.plan, "KERNELS", defective(kernel, node))
    result = verify(qcgen.compile(DIGITS / "digits_qop_s8.onnx", layout=layout), cases=2, sums=False)
    assert result.differing > 0
    assert result.first.output == "probabilities"
    assert result.cause.node == node
    assert result.cause.text == f"node {node} (QLinearConv) is the first that differs"
    assert result.cause.first.output == f"{node.removesuffix('_quant')}_out_quantized"
    assert len(result.cause.first.index) == 4
    assert (result.cause.first.group, result.cause.first.case) == (result.first.group, result.first.case)


def test_a_simplification_that_changes_outputs_is_named(monkeypatch):
    def wrong(program):
        *others, softmax, last = program.operators
        gemm = next(op for op in others if op.op_type == "QGemm")
        others[others.index(gemm)] = replace(gemm, bias=gemm.bias + np.int32(900))
        return replace(program, operators=(*others, softmax, last))

    monkeypatch.setattr(qcgen.compiler, "simplify", wrong)
    result = verify(qcgen.compile(DIGITS / "digits_qop_s8.onnx"), cases=2, sums=False)
    assert result.cause.text == "simplification changes the outputs: --no-simplify avoids it"


def test_outputs_that_no_node_explains_are_blamed_on_shared_memory(digits, tmp_path):
    feeds = {"image": np.zeros((1, 1, 8, 8), np.float32)}
    builder = Builder(("-O1",))
    probe, nodes = Probe(digits, builder, tmp_path / "probe"), Nodes(digits, builder, tmp_path / "nodes")
    got = {"probabilities": np.ones((1, 10), np.float32)}
    assert locate(digits, Case("random", feeds), 0, got, probe, nodes).text == SHARING


def test_a_recording_that_differs_from_c_and_reference_is_blamed_itself(digits, tmp_path):
    with np.load(DIGITS / "digits_qop_s8.npz") as arrays:
        recorded = {"image": arrays["in0.image"], "probabilities": arrays["out0.probabilities"].copy()}
    recorded["probabilities"][0, 3] += 0.5
    np.savez(tmp_path / "r.npz", **recorded)
    result = verify(digits, cases=1, data=tmp_path / "r.npz", sums=False)
    assert result.differing == 1
    assert result.cause.text == RECORDING


def test_every_tensor_is_probed_and_none_gets_another_kernel(digits):
    program = probed(digits.planned)
    inner = [op for op in digits.planned.operators if op.y.name != "probabilities" and op.op_type != "Flatten"]
    assert len(program.outputs) == 1 + len(inner)
    options = digits.plan.options
    probe = qcgen.plan.plan(program, options, "digits", "digits.onnx")
    kernels = {call.op.name: call.kernel for call in probe.calls}
    assert [kernels[call.op.name] for call in digits.plan.calls] == [call.kernel for call in digits.plan.calls]


# --- the comparison


def test_differences_are_those_beyond_the_tolerance():
    expected = np.array([0.0, 1.0, np.nan, np.inf, np.inf, 2.0])
    got = np.array([0.5, 1.5, np.nan, np.inf, -np.inf, np.nan])
    allowed = np.array([0.5, 0.4, 9.0, 0.0, 9.0, 9.0])
    assert differences(expected, got, allowed).tolist() == [False, True, False, False, True, True]


def test_an_outcome_counts_and_keeps_the_first_difference():
    outcome = Outcome("random")
    zero = {"y": np.zeros((2, 2))}
    right = {"y": np.array([[1, 2], [3, 4]], np.int8)}
    for got in (right["y"], np.array([[1, 2], [9, 9]], np.int8), np.zeros((2, 2), np.int8)):
        outcome = add(outcome, right, {"y": got}, zero)
    assert (outcome.cases, outcome.outputs, outcome.differing) == (3, 12, 6)
    assert str(outcome.first) == "y[1, 0] of random case 1: expected 3, got 9"


# --- the tolerance


def test_the_magnitude_is_the_sum_of_absolute_products_and_bias():
    weights = random_weights((3, 2, 2, 2), "float32", seed=3)
    [op] = qcgen.compile(float_conv((1, 2, 3, 3), weights, np.float32([1, -2, 0]))).program.operators
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 3)).astype(np.float32)
    total = magnitude(op, x)
    assert total.shape == (1, 3, 2, 2)
    expected = np.abs(x[0, :, 1:3, 0:2].astype(float) * weights[1]).sum() + 2
    assert total[0, 1, 1, 0] == pytest.approx(expected, rel=1e-12)


def test_integers_have_no_tolerance():
    [op] = small().program.operators
    assert not tolerance(op, np.zeros((1, 2, 6, 7), np.uint8), np.ones((1, 4, 4, 5), np.uint8)).any()


def test_an_activation_scales_the_tolerance_by_its_slope():
    weights, x = random_weights((1, 1, 1), "float32", seed=3), np.ones((1, 1, 4), np.float32)

    def allowed(**attributes):
        model = float_conv((1, 1, 4), weights, op_type="FusedConv", domain=MICROSOFT, **attributes)
        [op] = qcgen.compile(model).program.operators
        return tolerance(op, x, np.zeros(x.shape))[0, 0, 0]

    assert allowed() == pytest.approx(2e-6 * abs(weights.item()))
    assert allowed(activation="LeakyRelu", activation_params=[3.0]) == pytest.approx(3 * allowed())
    assert allowed(activation="HardSigmoid", activation_params=[0.5, 1.0]) == pytest.approx(allowed() / 2 + 2e-6)


def test_in_a_network_integers_and_what_is_dequantized_are_exact_and_the_rest_nearly():
    program = qcgen.compile(chain(Q, DQ, ("Softmax", []))).program
    x = np.linspace(-6, 130, 6, dtype=np.float32).reshape(1, 1, 1, 6)
    values = evaluate_all(program, {"x": x})
    allowed = tolerances(program, values)
    assert [op.op_type for op in program.operators if op.y.name not in exact(program)] == ["Softmax"]
    for op in program.operators:
        assert set(np.unique(allowed[op.y.name])) == ({0.0} if op.y.name != "y" else {NETWORK})


def test_what_cancellation_loses_goes_on_through_the_next_operators():
    model = chain(Q, DQ, ("FusedConv", ["w"]), ("Tanh", []), weights=[[3e4, -3e4]], shape=(1, 2, 1, 1))
    program = qcgen.compile(model).program
    values = evaluate_all(program, {"x": np.full((1, 2, 1, 1), 100.0, np.float32)})
    assert tolerances(program, values)["y"].item() == pytest.approx(6e6 * NETWORK)


def test_the_tolerance_of_a_product_of_matrices_grows_with_its_terms():
    model = chain(Q, DQ, ("FusedConv", ["w"]), weights=[[3.0, -3.0]], shape=(1, 2, 1, 1))
    program = qcgen.compile(model).program
    x = np.full((1, 2, 1, 1), 100.0, np.float32)
    values = evaluate_all(program, {"x": x})
    assert not values["y"].any()
    assert tolerances(program, values)["y"].item() == pytest.approx(600 * NETWORK)


# --- recordings


def arrays(artifact, count=2):
    """Random inputs and the reference's outputs."""
    [op] = artifact.program.operators
    xs = [np.random.default_rng(k).integers(0, 256, op.x.shape).astype(np.uint8) for k in range(count)]
    return [(x, evaluate_operator(op, x)) for x in xs]


@pytest.fixture
def artifact():
    return small()


@pytest.mark.parametrize("form", ["in{k}.x out{k}.y", "node{k}.conv1.x node{k}.conv1.y"])
def test_recordings_are_found_by_tensor_and_by_node(artifact, tmp_path, form):
    x_key, y_key = form.split()
    recorded = {}
    for k, (x, y) in enumerate(arrays(artifact)):
        recorded |= {x_key.format(k=k): x, y_key.format(k=k): y}
    np.savez(tmp_path / "r.npz", **recorded)
    cases = recorded_cases(tmp_path / "r.npz", artifact.program)
    assert len(cases) == 2
    for case, (x, y) in zip(cases, arrays(artifact), strict=True):
        np.testing.assert_array_equal(case.feeds["x"], x)
        np.testing.assert_array_equal(case.expected["y"], y)
    result = verify(artifact, cases=0, data=tmp_path / "r.npz")
    assert result.differing == 0
    assert result.outcomes[-1].cases == 2


def test_plain_names_are_a_single_case(artifact, tmp_path):
    [(x, y)] = arrays(artifact, 1)
    np.savez(tmp_path / "r.npz", x=x, y=y)
    [case] = recorded_cases(tmp_path / "r.npz", artifact.program)
    np.testing.assert_array_equal(case.expected["y"], y)


@pytest.mark.parametrize("is_in_front", [False, True])
def test_plain_names_may_be_of_several_cases(artifact, tmp_path, is_in_front):
    together = np.stack if is_in_front else np.concatenate
    xs, ys = zip(*arrays(artifact, 3), strict=True)
    np.savez(tmp_path / "r.npz", x=together(xs), y=together(ys), labels=np.arange(3))
    cases = recorded_cases(tmp_path / "r.npz", artifact.program)
    assert len(cases) == 3
    for case, x, y in zip(cases, xs, ys, strict=True):
        np.testing.assert_array_equal(case.feeds["x"], x)
        np.testing.assert_array_equal(case.expected["y"], y)


@pytest.mark.parametrize("name", ["x", "images"])
def test_inputs_may_be_recorded_alone(artifact, tmp_path, name):
    xs = np.concatenate([x for x, _ in arrays(artifact, 3)])
    np.savez(tmp_path / "r.npz", **{name: xs}, labels=np.arange(3))
    cases = recorded_cases(tmp_path / "r.npz", artifact.program)
    assert [case.expected for case in cases] == [None] * 3
    result = verify(artifact, cases=0, data=tmp_path / "r.npz")
    assert (result.outcomes[-1].group, result.outcomes[-1].cases) == ("recorded, without outputs", 3)
    assert result.outcomes[-1].outputs == 3 * cases[0].feeds["x"].shape[0] * Y.size
    assert result.is_right


def test_recordings_of_other_nodes_and_other_arithmetic_are_passed_by(artifact, tmp_path):
    [(x, y)] = arrays(artifact, 1)
    other = {"node0.conv2.x": x, "node0.conv2.y": y, "out0.y.noopt": y + 1}
    np.savez(tmp_path / "r.npz", **{"in0.x": x, "out0.y": y}, **other)
    assert len(recorded_cases(tmp_path / "r.npz", artifact.program)) == 1


X, Y = np.zeros((1, 2, 6, 7), np.uint8), np.zeros((1, 4, 4, 5), np.uint8)

UNFIT = {
    "no input": ({"out0.y": Y}, "case 0 has no recording of tensor 'x'"),
    "no output": ({"in0.x": X, "in1.x": X, "out1.y": Y}, "case 0 has no recording of tensor 'y'"),
    "unknown": ({"in0.x": X, "out0.y": Y, "in0.z": X}, "unknown key 'in0.z'; expected are in<k>.x, out<k>.y"),
    "output as input": ({"in0.y": X}, "unknown key 'in0.y'"),
    "shape": ({"x": X[:, :1], "y": Y}, r"it has tensor 'x' as uint8 \[1, 1, 6, 7\], not uint8 \[1, 2, 6, 7\]"),
    "type": ({"in7.x": X, "out7.y": Y.astype(np.int8)}, "case 7 has tensor 'y' as int8"),
    "other node only": ({"node0.conv2.x": X, "node0.conv2.y": Y}, "it holds no recordings of in<k>.x"),
    "objects": ({"x": np.array([None, {}])}, "it is no .npz file of plain arrays"),
    "numbers of cases": ({"x": np.stack([X] * 3), "y": np.stack([Y] * 2)}, "not 3 of 'x', 2 of 'y'"),
    "a case twice": ({"x": np.stack([X] * 2), "y": np.stack([Y] * 2), "in1.x": X}, "'in1.x' is a case of an array"),
    "nothing": ({}, "it holds no recordings"),
}


@pytest.mark.parametrize(("recorded", "message"), UNFIT.values(), ids=UNFIT.keys())
def test_recordings_that_do_not_fit_are_refused(artifact, tmp_path, recorded, message):
    np.savez(tmp_path / "r.npz", **recorded)
    with pytest.raises(RecordingError, match=message):
        recorded_cases(tmp_path / "r.npz", artifact.program)


@pytest.mark.parametrize(
    "content", [None, b"", b"text", b"PK\x03\x04broken"], ids=["missing", "empty", "text", "broken"]
)
def test_a_file_that_is_no_npz_is_refused(artifact, tmp_path, content):
    if content is not None:
        (tmp_path / "r.npz").write_bytes(content)
    with pytest.raises(RecordingError, match=r"r\.npz: it "):
        recorded_cases(tmp_path / "r.npz", artifact.program)


def test_a_single_array_is_no_recording(artifact, tmp_path):
    np.save(tmp_path / "r.npy", X)
    with pytest.raises(RecordingError, match=r"no \.npz file"):
        recorded_cases(Path(tmp_path / "r.npy"), artifact.program)
