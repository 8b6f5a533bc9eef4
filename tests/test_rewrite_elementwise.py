"""Functions of one tensor between DequantizeLinear and QuantizeLinear; scales and nodes that make no sense."""

from contextlib import suppress

import numpy as np
import pytest
from models import graph_if_spelt_well
from onnx import helper
from qdq import A, B, C, Chain, between, f32, kinds, meaning_of, means, one, only, operand, operators, table

from qcgen.check import check, well_formed
from qcgen.errors import ModelRejected
from qcgen.ir.program import ArgMax, FloatBinary, Lookup
from qcgen.ir.types import DType
from qcgen.load import load
from qcgen.rewrite import rewrite
from qcgen.rewrite.fold_constants import fold_constants

X_SHAPE = (1, 4, 6, 6)
FULL = ["QuantizeLinear", "DequantizeLinear"]


def codes(values, meaning):
    """QuantizeLinear in plain numpy."""
    scale, zero_point = meaning
    limits = np.iinfo(zero_point.dtype)
    rounded = np.rint(f32(values) / f32(scale)) + np.float64(zero_point)
    return np.clip(rounded, limits.min, limits.max).astype(zero_point.dtype)


def values(meaning):
    """The value of every code."""
    scale, zero_point = meaning
    limits = np.iinfo(zero_point.dtype)
    return f32(np.arange(limits.min, limits.max + 1) - int(zero_point)) * f32(scale)


@pytest.fixture
def chain() -> Chain:
    return Chain()


def test_dequantize_and_quantize_alike_are_nothing(chain):
    chain.through(chain.through("x", A), A, "y")
    assert operators(chain.rewritten(X_SHAPE)) == FULL


def test_a_model_that_only_requantizes_alike_keeps_its_output(chain):
    chain.quantize(chain.through("x", A), A, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "Identity"]
    assert graph.outputs == ("y",)


def test_dequantize_and_quantize_otherwise_are_a_table(chain):
    chain.through(chain.through("x", A), C, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Lookup", "Dequantize"]
    assert np.array_equal(table(program), codes(values(A), C))
    lookup = one(program, Lookup)
    assert means(lookup.x, A)
    assert means(lookup.y, C)
    assert lookup.y.shape == X_SHAPE


def silu(chain, x):
    return chain.node("Mul", [x, chain.node("Sigmoid", [x])])


def hard_swish(chain, x):
    """As exporters write it: x * clip(x + 3, 0, 6) / 6."""
    bounds = [chain.constant("zero", f32(0)), chain.constant("six", f32(6))]
    raised = chain.node("Add", [chain.constant("three", f32([3])), x])
    return chain.node("Div", [chain.node("Mul", [x, chain.node("Clip", [raised, *bounds])]), "six"])


def relu_then_double(chain, x):
    return chain.node("Add", [chain.node("Relu", [x], "relu"), "relu"])


FUNCTIONS = {
    "relu": (lambda chain, x: chain.node("Relu", [x]), lambda v: np.maximum(v, 0)),
    "tanh": (lambda chain, x: chain.node("Tanh", [x]), np.tanh),
    "silu": (silu, lambda v: v / (1 + np.exp(-v.astype(float)))),
    "hard swish": (hard_swish, lambda v: v * np.clip(v + f32(3), 0, 6) / f32(6)),
    "one tensor twice": (relu_then_double, lambda v: 2 * np.maximum(v, 0)),
    "neg": (lambda chain, x: chain.node("Neg", [x]), np.negative),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_one_tensor_is_a_table(name):
    build, function = FUNCTIONS[name]
    chain = Chain()
    chain.through(build(chain, chain.through("x", A)), C, "y")
    program = chain.meant(X_SHAPE, opset=14)
    assert kinds(program) == ["Quantize", "Lookup", "Dequantize"]
    assert np.array_equal(table(program), codes(function(values(A)), C))


def test_a_relu_between_equal_quantizations_is_a_clamp_of_codes():
    graph = between("Relu", (B, B)).rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "Clip", "DequantizeLinear"]
    assert [int(operand(graph, "Clip", index)) for index in (1, 2)] == [60, 255]


def test_a_relu_that_clamps_nothing_vanishes():
    lowest = (0.05, np.int8(-128))
    assert operators(between("Relu", (lowest, lowest)).rewritten(X_SHAPE)) == FULL


def test_a_clamp_behind_a_table_joins_it(chain):
    flat = chain.node("Flatten", [chain.node("Relu", [chain.through("x", A)])])
    chain.through(chain.node("Relu", [flat]), C, "y")
    program = chain.meant(X_SHAPE)
    assert sorted(kinds(program)) == sorted(["Quantize", "Reshape", "Lookup", "Dequantize"])
    assert np.array_equal(table(program), codes(np.maximum(values(A), 0), C))


def test_a_float_operator_of_two_tensors_is_left_between_its_rims(chain):
    first, second = chain.through("x", A), chain.through("x", B)
    chain.through(chain.node("Sub", [first, second]), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program)[-3:] == ["FloatBinary", "Quantize", "Dequantize"]
    op = one(program, FloatBinary)
    assert (op.op_type, op.kind) == ("Sub", "sub")
    assert {op.a.dtype, op.b.dtype, op.y.dtype} == {DType.FLOAT32}


def test_rewriting_twice_changes_nothing_more(chain):
    chain.through(silu(chain, chain.through("x", A)), C, "y")
    graph = chain.rewritten(X_SHAPE)
    again = rewrite(graph)
    assert again.nodes == graph.nodes
    assert fold_constants(graph).nodes == graph.nodes


MALFORMED = ({}, {"axis": 9}, {"axes": ["a"], "perm": [7], "kernel_shape": 3}, {"alpha": "x", "mode": 3, "to": 99})


@pytest.mark.parametrize("attributes", MALFORMED)
@pytest.mark.parametrize("count", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "op_type",
    [
        *("Add", "AveragePool", "Cast", "Clip", "Concat", "Conv", "DequantizeLinear", "Dropout", "Gemm", "Identity"),
        *("LeakyRelu", "MatMul", "MaxPool", "Pad", "QuantizeLinear", "ReduceMean", "Reshape", "Resize", "Sigmoid"),
        *("Slice", "Softmax", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    ],
)
def test_no_malformed_node_between_quantizations_raises(chain, op_type, count, attributes):
    inputs = [chain.through("x", A), *(chain.constant(f"k{index}", np.array([99, -99])) for index in range(3))]
    chain.through(chain.node(op_type, inputs[:count], **attributes), B, "y")
    graph = graph_if_spelt_well(chain.model(X_SHAPE))
    if graph is None:
        return
    with suppress(ModelRejected):
        rewritten = rewrite(well_formed(graph))
        assert rewritten.outputs == ("y",)
        assert [tensor.name for tensor in meaning_of(rewritten).outputs] == ["y"]


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, [[0.1]], []])
def test_a_scale_that_makes_no_sense_leaves_the_model_as_it_is_to_be_refused(scale):
    graph = between("GlobalAveragePool", ((scale, np.uint8(0)), B)).rewritten(X_SHAPE)
    assert operators(graph) == [*FULL, "GlobalAveragePool", *FULL]
    with pytest.raises(ModelRejected) as rejection:
        check(graph)
    assert [problem.where for problem in rejection.value.problems] == [
        "node 'x_q_node' (QuantizeLinear)",
        "node 'x_q_dq_node' (DequantizeLinear)",
    ]


def test_new_names_avoid_the_models_own(chain):
    x = chain.through("x", A)
    chain.constant("t_low", np.float32(1))
    chain.constant("t_low_2", np.float32(2))
    chain.nodes.append(helper.make_node("Relu", [x], ["t"], name="t"))
    chain.nodes.append(helper.make_node("QuantizeLinear", ["t", *chain.parameters("q", A)], ["y"], name="q"))
    graph = chain.rewritten(X_SHAPE)
    assert only(graph, "Clip").name == "t"
    assert only(graph, "Clip").inputs[1] == "t_low_3"
    assert graph.constants["t_low"] == 1


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_codes_tell_where_the_largest_number_is(chain, op_type):
    chain.node(op_type, [chain.through("x", A)], "y", axis=1)
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "ArgMax"]
    op = one(program, ArgMax)
    assert (op.name, op.op_type, op.kind, op.axis) == ("y_node", op_type, op_type[3:].lower(), 1)
    assert means(op.x, A)


def test_codes_that_are_the_same_number_do_not_tell_where_the_largest_is(chain):
    coarse = chain.through("x", (1e38, np.uint8(3)))  # the codes above 6 are infinite
    chain.node("ArgMax", [coarse], "y", axis=1)
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Dequantize", "ArgMax"]
    assert one(program, ArgMax).x.dtype is DType.FLOAT32


@pytest.mark.parametrize("is_quantized", [False, True])
@pytest.mark.parametrize(
    ("op_type", "compare"),
    [
        ("Greater", np.greater),
        ("GreaterOrEqual", np.greater_equal),
        ("Less", np.less),
        ("LessOrEqual", np.less_equal),
        ("Equal", np.equal),
    ],
)
def test_a_choice_by_a_comparison_of_one_tensor_is_a_table(chain, op_type, compare, is_quantized):
    x = chain.through("x", A)
    limit, other = chain.constant("limit", f32(0.5)), chain.constant("other", f32(2))
    if is_quantized:
        other = chain.dequantize(chain.constant("other_q", np.uint8(100)), B)
    chain.through(chain.node("Where", [chain.node(op_type, [x, limit]), other, x]), B, "y")
    program = chain.meant(X_SHAPE, opset=16)
    assert kinds(program) == ["Quantize", "Lookup", "Dequantize"]
    numbers = (np.arange(256) - 3).astype(np.float32) * f32(0.02)
    chosen = np.where(compare(numbers, f32(0.5)), f32(2), numbers)
    codes = np.clip(np.rint(chosen / f32(0.05)) + 60, 0, 255)
    assert table(program) == codes.tolist()


def test_a_choice_between_two_tensors_is_no_table(chain):
    x = chain.through("x", A)
    other = chain.node("Softmax", [x])
    condition = chain.node("Greater", [x, chain.constant("limit", f32(0.5))])
    chain.through(chain.node("Where", [condition, chain.through(other, B), x]), B, "y")
    assert "Select" in kinds(chain.meant(X_SHAPE, opset=16))


@pytest.mark.parametrize("x_type", ["uint8", "int8"])
def test_bytes_that_are_cast_scaled_and_quantized_are_a_table(chain, x_type):
    scaled = chain.node("Div", [chain.node("Cast", ["x"], to=1), chain.constant("k", f32(255))])
    chain.quantize(chain.node("Sub", [scaled, chain.constant("half", f32(0.5))]), C, "y")
    program = meaning_of(rewrite(load(chain.model(X_SHAPE, x_type=x_type))))
    assert kinds(program) == ["Lookup"]
    every = np.arange(256) if x_type == "uint8" else np.arange(-128, 128)
    assert np.array_equal(table(program), codes(every.astype(np.float32) / f32(255) - f32(0.5), C))
