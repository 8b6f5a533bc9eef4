"""Numbers at the ends of their types, and such as are none."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from batch import require
from bench.compiling import Network
from computed import computed, one_node
from functions_recorded import between_codes
from fuzz.operators import ONE, scale
from judged import assert_judged, judge
from models import MICROSOFT, graph_model, node_model, qlinear_conv, random_weights
from onnx import helper
from qdq import A, Chain
from requantization_layers import stairs_of
from test_self_test import result_on_host

import qcgen
from qcgen import ModelRejected
from qcgen.errors import ProofFailed
from qcgen.reference import evaluate
from qcgen.render import render
from qcgen.render.c_text import int32, int64
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import FixedPoint, certify
from qcgen.verification.cases import generated_cases

# The C of a QLinearAveragePool whose sums are subnormal or infinite gave other codes than the reference.
#
# The adder of its windows at the border knows normal numbers; onnxruntime itself converts infinity to int32 there.
BYTES = np.random.default_rng(0).integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)


def average(x_scale, y_scale):
    names = {"xs": np.float32(x_scale), "xz": np.uint8(120), "ys": np.float32(y_scale), "yz": np.uint8(7)}
    node = helper.make_node(
        "QLinearAveragePool", ["x", *names], ["y"], domain=MICROSOFT, kernel_shape=[2, 3], pads=[1, 0, 0, 1]
    )
    return graph_model([node], {"x": ("uint8", BYTES.shape)}, {"y": None}, names, opset=13, opsets={MICROSOFT: 1})


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-38, 1e-38), (1e-45, 1e-45), (1e36, 1e36), (3e38, 3e38)])
def test_scales_of_averages_next_to_the_limits_are_refused(x_scale, y_scale):
    with pytest.raises(ModelRejected, match="float32 does not hold all sums of such numbers"):
        qcgen.compile(average(x_scale, y_scale))


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-30, 1e-30), (1e-30, 3e-31), (1e30, 1e30), (1e30, 3e38)])
def test_other_extreme_scales_give_the_references_codes(x_scale, y_scale):
    computed(average(x_scale, y_scale), {"x": BYTES})


def test_numbers_halfway_between_codes_are_finite():
    """Codes of a scale near the largest float32 stand for numbers beyond it: to make inputs of them overflowed."""
    scale = np.array(3.4e38, np.float32)
    quantize = {"X": ("float", (1, 40)), "scale": scale, "zero_point": np.array(3, np.uint8)}
    program = qcgen.compile(node_model("QuantizeLinear", quantize)).program
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cases = list(generated_cases(program, seed=0, cases=1))
    assert cases[-1].group == "halfway between codes"
    assert all(np.isfinite(x).all() for case in cases for x in case.feeds.values())


def test_a_table_whose_values_overflow_is_made_without_a_warning():
    """What overflows float32 is infinite, as in onnxruntime; numpy warned of it on standard error."""
    large = scale(np.float32(3e38))
    model = node_model("QLinearLeakyRelu", {**ONE, "X_scale": large, "Y_scale": large}, domain=MICROSOFT, alpha=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert qcgen.compile(model).files


# Layers whose product of scales underflows in float32 were refused; onnxruntime gives zero points.
@pytest.mark.parametrize("x_scale", [1e-30, 1e-45])
def test_every_output_of_a_convolution_is_the_zero_point(x_scale):
    require("gcc")
    weights = random_weights((2, 4, 1, 1), seed=1)
    model = qlinear_conv((1, 4, 2, 2), weights, x_scale=x_scale, w_scale=1e-30, y_zero_point=3, bias=[2**31 - 1, -5])
    [y] = qcgen.compile(model, name="net").load().run(None, {"x": np.arange(16, dtype=np.uint8).reshape(1, 4, 2, 2)})
    assert np.all(y == 3)


def test_columns_of_a_product_that_underflow_have_the_zero_point():
    """Outputs of onnxruntime 1.32.0; only the second column's scale underflows."""
    require("gcc")
    constants = {
        "xs": np.float32(1e-20),
        "xz": np.uint8(5),
        "w": np.arange(-4, 8, dtype=np.int8).reshape(4, 3),
        "ws": np.float32([1e-24, 1e-30, 1e-23]),
        "wz": np.zeros(3, np.int8),
        "ys": np.float32(1e-43),
        "yz": np.uint8(7),
    }
    operands = {name: np.asarray(value) for name, value in constants.items()}
    model = node_model("QLinearMatMul", {"x": ("uint8", (1, 4)), **operands})
    artifact = qcgen.compile(model, name="net")
    [y] = artifact.load().run(None, {"x": np.uint8([[217, 163, 130, 69]])})
    assert y.tolist() == [[0, 7, 255]]


def quantized_product(a_scale, b_scale, y_scale, dtype):
    """QLinearMul of codes of this type, 256 in each row of ``a`` by the same 256 of ``b``."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    constants = {"as": a_scale, "az": low, "bs": b_scale, "bz": high, "ys": y_scale, "yz": low + 9}
    stored = {name: np.array(value, np.float32 if name.endswith("s") else dtype) for name, value in constants.items()}
    operands = {"a": (np.dtype(dtype).name, (256, 256)), "as": stored["as"], "az": stored["az"]}
    operands |= {"b": (np.dtype(dtype).name, (1, 256)), **{name: stored[name] for name in ("bs", "bz", "ys", "yz")}}
    return node_model("QLinearMul", operands, domain=MICROSOFT)


PRODUCTS = {
    "the product of the scales is 0": (1e-30, 1e-30, 1e-38),
    "half of the least number rounds to 0": (1e-45, 0.5, 1e-45),
    "the product is subnormal": (1e-20, 1e-20, 1.0),
    "the quotient is the least number": (1e-20, 1e-22, 1e3),
}
"""Where onnxruntime 1.32.0 made all 65,536 outputs the zero point, of uint8 and of int8."""


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", PRODUCTS.values(), ids=PRODUCTS)
def test_every_product_of_codes_is_the_zero_point(scales, dtype):
    require("gcc")
    b = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    model = quantized_product(*scales, dtype)
    [y] = qcgen.compile(model, name="net").load().run(None, {"a": np.repeat(b, 256).reshape(256, 256), "b": b[None]})
    assert np.all(y == np.iinfo(dtype).min + 9)


def test_scales_below_float32s_normal_range_are_those_of_onnxruntime():
    """onnxruntime 1.32.0 takes 1e-45 * 0.6 for the least number, and so gives what the scales 1, 1 and 1 give."""
    require("gcc")
    b = np.arange(256).astype(np.uint8)
    inputs = {"a": np.repeat(b, 256).reshape(256, 256), "b": b[None]}
    tiny, one = (
        qcgen.compile(quantized_product(*scales, np.uint8), name="net").load().run(None, inputs)[0]
        for scales in ((1e-45, 0.6, 1e-45), (1, 1, 1))
    )
    assert np.array_equal(tiny, one)
    assert len(np.unique(one)) == 10


@pytest.mark.parametrize(("x_scale", "y_scale", "code"), [(1e-3, 1e38, 5), (1e-12, 1, 5), (1e30, 1e-3, 255)])
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
def test_scales_of_sums_along_an_axis_may_be_far_apart(op_type, x_scale, y_scale, code):
    """As onnxruntime 1.32.0 computes them."""
    require("gcc")
    chain = Chain()
    x = chain.dequantize("x", (np.float32(x_scale), np.uint8(7)))
    y = chain.node(op_type, [x, chain.constant("axes", np.int64([1]))], "sum")
    chain.quantize(y, (np.float32(y_scale), np.uint8(5)), "y")
    codes = np.arange(8, 80, 2).astype(np.uint8).reshape(2, 6, 3)
    [y] = qcgen.compile(chain.model((2, 6, 3), opset=18, x_type="uint8"), name="net").load().run(None, {"x": codes})
    assert np.all(y == code)


# Sums and products with a constant that equals its zero point, or code 0, divided by zero when they were compiled.
#
# The term of the constant is 0 then for every pair of codes, so no slope of it can be searched for.
ALL = np.arange(-128, 128).astype(np.int8)
ROLES = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")


@pytest.mark.parametrize("zero_point", [0, 7, -128])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_beside_a_constant_at_its_zero_point_the_other_operand_alone_decides(op_type, zero_point):
    by = {"scale": np.float32(0.5), "zero_point": np.int8(zero_point)}
    constants = {f"{role}_{key}": value for role in "ABC" for key, value in by.items()}
    constants["B"] = np.full(256, zero_point, np.int8)
    model = one_node(helper.make_node(op_type, ROLES, ["y"], domain="com.microsoft"), {"A": ALL}, constants)
    [y] = computed(model, {"A": ALL})
    assert np.array_equal(y, ALL if op_type == "QLinearAdd" else np.full(256, zero_point))


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_so_it_does_between_dequantize_and_quantize(op_type):
    chain, by = Chain(), (0.5, np.int8(3))
    constant = chain.weights("constant", np.full((1, 256), 3, np.int8), by)
    chain.quantize(chain.node(op_type, [chain.dequantize("x", by), constant]), by, "y")
    x = ALL.reshape(1, 256)
    [y] = computed(chain.model(x.shape, x_type="int8"), {"x": x})
    assert np.array_equal(y, x if op_type == "Add" else np.full_like(x, 3))


def test_two_terms_that_are_0_for_every_pair_are_a_line():
    from qcgen.requantize.of_codes import Pairs, evaluate, fit_pairs

    none = np.zeros(4, np.int64)
    pairs = Pairs(none + 5, (none, none), (0.3, 0.7), 5.0, -128, 127)
    assert np.array_equal(evaluate(fit_pairs(pairs), pairs), pairs.codes)


# NaN, such as 0 / 0, has the lowest code also behind a Relu or a Clip; it had the code of the bound.
def quotient(chain):
    x = chain.through("x", A)
    return chain.node("Div", [x, x])


def sum_of_quotient(chain):
    return chain.node("Add", [quotient(chain), chain.constant("one", np.float32(1))])


@pytest.mark.parametrize("bound", ["Relu", "Clip"])
@pytest.mark.parametrize(
    "build",
    [
        quotient,
        sum_of_quotient,
        lambda chain: chain.node("Log", [chain.through("x", A)]),
        lambda chain: chain.node("Sqrt", [chain.through("x", A)]),
    ],
    ids=["quotient", "sum", "logarithm", "root"],
)
def test_no_number_behind_a_bound_has_the_lowest_code(build, bound):
    chain = Chain()
    bounds = [chain.constant("low", np.float32(0)), chain.constant("high", np.float32(6))] if bound == "Clip" else []
    chain.through(chain.node(bound, [build(chain), *bounds]), (0.02, np.int8(3)), "y")
    x = ((np.arange(256) - 3) * 0.02).astype(np.float32)[None]
    assert_judged(chain.model((1, 256)), {"x": x}, flags="-O0", named=None, exact=True)


# -0.0 through Relu, Clip and MaxPool of floats: the reference had 0.0, and self-tests called a right core wrong.
ZEROS = np.array([-0.0, 0.0, -0.0, 1, -1, -0.0, 0.0, 3] * 4, np.float32).reshape(1, 1, 4, 8)
OF_ZEROS = {
    "Relu": helper.make_node("Relu", ["x"], ["y"]),
    "Clip from 0": helper.make_node("Clip", ["x", "zero", "six"], ["y"]),
    "Clip to 0": helper.make_node("Clip", ["x", "minus", "zero"], ["y"]),
    "MaxPool": helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]),
    "MaxPool at borders": helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
}


@pytest.mark.parametrize("name", OF_ZEROS)
def test_signs_of_zeros_are_those_of_onnxruntime(name):
    require("gcc")
    numbers = {"zero": 0.0, "six": 6.0, "minus": -1.0}
    constants = {name: np.float32(value) for name, value in numbers.items()}
    model = graph_model([OF_ZEROS[name]], {"x": ("float", ZEROS.shape)}, {"y": None}, constants, opset=13)
    artifact = qcgen.compile(model, name="m")
    [wanted], [found] = judge(model, {"x": ZEROS}), artifact.load(("-O2",)).run(None, {"x": ZEROS})
    own = evaluate(artifact.program, {"x": ZEROS})["y"]
    assert wanted.tobytes() == found.tobytes() == np.asarray(own, np.float32).tobytes()


# Tables of Tanh were made with numpy's tanh, which differs from onnxruntime's rational function in many numbers.
#
# Quantizers give Tanh the scale 2/255, where its ends, -1 and 1, are ties: one float32 next to 1 decides on a code.
RECORDED = {-30: -127, -29: -127, -28: -127, -27: -128, -26: -127, -25: -127}
"""What onnxruntime 1.32.0 gives for some codes of x: its tanh does not always rise. By numpy's, -27 gives -127."""


def test_a_table_of_tanh_is_onnxruntime_s_where_it_saturates():
    model = between_codes("Tanh", np.float32(0.08397741), np.int8(80), np.float32(2 / 255), np.int8(0))
    [op] = qcgen.compile(model).program.operators
    assert {code: int(op.table[code + 128]) for code in RECORDED} == RECORDED


# Constants that C has no plain literal for gave C that did not compile, internal errors, and wrong float16 numbers.
NAN, INF = np.nan, np.inf
CONSTANTS = [
    np.array([NAN, INF, -INF, -NAN, 1e-45, -0.0], np.float32),
    np.array([NAN, INF, -INF, -NAN, 5e-324, -0.0]),
    np.array([NAN, INF, -INF, -NAN, 1.5, -2], np.float16),
    np.array([-(2**63), 2**63 - 1, 0, -1]),
    np.array([2**64 - 1, 2**63, 0, 1], np.uint64),
    np.array([-(2**31), 2**31 - 1, 0, -1], np.int32),
    np.array([2**32 - 1, 2**31, 0, 1], np.uint32),
]
NODES = [("Concat", "x", "k"), ("GatherElements", "k", "places")]
FEEDS = {"x": np.array([1, NAN, -INF, 2, INF, -0.0], np.float32), "places": np.array([2, 0, 3])}


def model_of(op_type, *operands, constant=CONSTANTS[0], outputs=()):
    node = helper.make_node(op_type, operands, ["y"], **({"axis": 0} if op_type == "Concat" else {}))
    inputs = {name: ("int64" if name == "places" else "float", FEEDS[name].shape) for name in operands if name != "k"}
    return graph_model([node], inputs, dict.fromkeys(["y", *outputs]), {"k": constant})


def require_bits_of_onnxruntime(model, **options):
    require("gcc")
    feeds = {each.name: FEEDS[each.name] for each in model.graph.input}
    found = qcgen.compile(model, **options).load().run(None, feeds)
    for wanted, y in zip(judge(model, feeds), found, strict=True):
        assert (y.dtype, y.tobytes()) == (wanted.dtype, wanted.tobytes())


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.dtype)
def test_a_constant_output_has_the_bits_of_onnxruntime(constant):
    require_bits_of_onnxruntime(model_of("Abs", "x", constant=constant, outputs=["k"]))


@pytest.mark.parametrize("options", [{}, {"weights": "net.bin"}], ids=str)
@pytest.mark.parametrize("node", NODES, ids=lambda node: node[0])
def test_a_constant_operand_gives_the_bits_of_onnxruntime(node, options):
    require_bits_of_onnxruntime(model_of(*node), **options)


def test_a_recorded_input_of_a_self_test_may_be_nan(tmp_path):
    artifact = qcgen.compile(model_of("Concat", "x", "k"), name="net").with_self_test({"x": FEEDS["x"]})
    assert result_on_host(tmp_path, artifact) == 0


# An addend below -2^31 in a table of int32: the search admitted it where the sums that it joins were in int32.
LAYERS = [  # scales, lowest and highest accumulators, zero point, bits
    ((7.26865028e-08, 3.70420351e-05), (91249458, 406455081), (91249539, 406455119), -110, 2),
    ((2.51512895e-07, 1.05678293e-06), (-7109211, -14381061), (-6841477, -14370493), 26, 6),
]


@pytest.mark.parametrize(("scale", "lo", "hi", "zero_point", "bits"), LAYERS)
def test_addends_are_in_int32(scale, lo, hi, zero_point, bits):
    fixed = choose(stairs_of(np.array(scale), np.array(lo), np.array(hi), zero_point), bits=bits)
    assert np.abs(fixed.addend).max() < 2**31


def constant(addend: int, acc: int, guard: int = 0) -> None:
    """Certifies a line that is the zero point for the accumulator, which is in int32 with its addend."""
    none, zero_point, shift = np.zeros(1, np.int64), 3, 4
    fixed = FixedPoint(
        "multiply-high",
        none,
        none + addend,
        none + (zero_point << shift) + 8,
        shift,
        0,
        none + guard,
        none,
        none,
        {},
        0,
    )
    certify(replace(fixed, word=30), stairs_of(np.array([1e-30]), np.array([acc]), np.array([acc]), zero_point))


@pytest.mark.parametrize("guard", [0, 1])
def test_no_certificate_is_given_for_an_addend_beyond_int32(guard):
    constant(-(2**31), 2**28, guard)
    with pytest.raises(ProofFailed, match="C type"):
        constant(-(2**31) - 5, 2**29, guard)


def test_no_certificate_is_given_for_a_guard_band_of_sums_beyond_int32():
    constant(-(2**20), 2**29)
    with pytest.raises(ProofFailed, match="C type"):
        constant(-(2**20), 2**29, guard=1)


def one_layer() -> qcgen.Artifact:
    n = Network((1, 3, 6, 6))
    return qcgen.compile(n.model(n.conv("x", 4, 3)), name="net")


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_table_with_a_number_beyond_its_type_is_a_defect(value):
    plan = one_layer().plan
    [call] = plan.calls
    [bias] = [table for table in call.tables if table.role == "bias"]
    values = bias.values.astype(np.int64)
    values[1] = value
    tables = tuple(replace(table, values=values) if table == bias else table for table in call.tables)
    render(plan)
    with pytest.raises(AssertionError, match=rf"'qlinearconv_0' \(QLinearConv\): {bias.symbol} holds {value}"):
        render(replace(plan, steps=(replace(call, tables=tables),)))


def test_literals_beyond_their_type_are_a_defect():
    for literal, bits in ((int32, 32), (int64, 64)):
        with pytest.raises(AssertionError, match=f"is not an int{bits}_t"):
            literal(2 ** (bits - 1))
