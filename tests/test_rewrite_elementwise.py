"""Sums, means, softmaxes and functions of one tensor between DequantizeLinear and QuantizeLinear."""

import numpy as np
import pytest
from models import graph_if_spelt_well
from onnx import helper
from qdq import A, B, C, Chain, attributes_of, kinds, meaning_of, only, operand, operators, table

from qcgen.ir.types import DType
from qcgen.load import load
from qcgen.rewrite import rewrite
from qcgen.rewrite.fold_constants import fold_constants

X_SHAPE = (1, 4, 6, 6)
FULL = ["QuantizeLinear", "DequantizeLinear"]


def f32(value):
    return np.asarray(value, np.float32)


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


def between(op_type, meanings=(A, B), opset=13, **attributes):
    """x quantized as the first meaning, the operator, quantized as the second and dequantized."""
    chain = Chain()
    result = chain.node(op_type, [chain.through("x", meanings[0])], "r", **attributes)
    chain.through(result, meanings[1], "y")
    return chain.rewritten(X_SHAPE, opset=opset)


@pytest.mark.parametrize(("op_type", "fused"), [("Add", "QLinearAdd"), ("Mul", "QLinearMul")])
def test_two_tensors_are_added_and_multiplied_in_integers(op_type, fused):
    chain = Chain()
    x = chain.through("x", A)
    other = chain.node("MaxPool", [x], kernel_shape=[1, 1])
    chain.through(chain.node(op_type, [x, other], "r"), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "MaxPool", fused, "DequantizeLinear"]
    node = only(graph, fused)
    assert node.name == "r_node"
    assert node.inputs[0] == "x_q"
    assert node.inputs[3] == graph.nodes[1].outputs[0]
    assert [graph.constants[node.inputs[index]].item() for index in (2, 5, 7)] == [3, 3, 60]


def test_operands_of_the_other_8_bit_type_are_shifted_to_the_outputs():
    chain = Chain()
    constant = chain.weights("k", np.array([[[[-128]], [[0]], [[1]], [[127]]]], np.int8), C)
    chain.through(chain.node("Add", [chain.through("x", C), constant], "r"), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert kinds(meaning_of(graph)) == ["Quantize", "Lookup", "QuantizedBinary", "Dequantize"]
    assert table(meaning_of(graph)) == list(range(256))
    assert operand(graph, "QLinearAdd", 3).reshape(-1).tolist() == [0, 128, 129, 255]
    zero_points = [operand(graph, "QLinearAdd", index) for index in (2, 5, 7)]
    assert [int(zero) for zero in zero_points] == [108, 108, 60]
    assert {zero.dtype for zero in zero_points} == {np.dtype(np.uint8)}


def test_a_relu_behind_an_add_is_a_clamp_of_codes():
    chain = Chain()
    x = chain.through("x", A)
    other = chain.node("MaxPool", [x], kernel_shape=[1, 1])
    chain.through(chain.node("Relu", [chain.node("Add", [x, other])]), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph)[2:] == ["QLinearAdd", "Clip", "DequantizeLinear"]
    assert [int(operand(graph, "Clip", index)) for index in (1, 2)] == [60, 255]


@pytest.mark.parametrize(
    ("op_type", "attributes", "fused"),
    [
        ("GlobalAveragePool", {}, {"channels_last": 0}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, {"channels_last": 0}),
        ("Softmax", {}, {"axis": -1, "opset": 13}),
        ("Softmax", {"axis": 1}, {"axis": 1, "opset": 13}),
    ],
)
def test_operators_of_one_tensor_have_their_integer_forms(op_type, attributes, fused):
    graph = between(op_type, **attributes)
    assert operators(graph) == ["QuantizeLinear", f"QLinear{op_type}", "DequantizeLinear"]
    node = only(graph, f"QLinear{op_type}")
    assert node.inputs[0] == "x_q"
    operands = [graph.constants[name].item() for name in node.inputs[1:]]
    assert operands == [f32(0.02).item(), 3, f32(0.05).item(), 60]
    assert fused.items() <= node.attributes.items()


def test_softmax_before_opset_13_counts_its_axis_from_1():
    assert attributes_of(between("Softmax", opset=11), "QLinearSoftmax") == {"axis": 1, "opset": 11}


def test_an_integer_form_has_one_type():
    graph = between("GlobalAveragePool", (A, C))
    assert kinds(meaning_of(graph)) == ["Quantize", "Lookup", "GlobalAveragePool", "Dequantize"]
    assert [int(operand(graph, "QLinearGlobalAveragePool", index)) for index in (2, 4)] == [-125, -20]


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_over_all_pixels_is_a_global_average_pool(keepdims):
    graph = between("ReduceMean", axes=[-1, 2], keepdims=keepdims)
    flatten = [] if keepdims else ["Flatten"]
    assert operators(graph) == ["QuantizeLinear", "QLinearGlobalAveragePool", *flatten, "DequantizeLinear"]
    assert graph.value("y").shape == ((1, 4, 1, 1) if keepdims else (1, 4))


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("meanings", [(A, B), (A, C)])
@pytest.mark.parametrize("axes", [None, [1], [-1, 0]])
def test_sums_along_any_axes_have_an_integer_form(op_type, meanings, axes):
    graph = between(op_type, meanings, opset=11, keepdims=0, **({} if axes is None else {"axes": axes}))
    program = meaning_of(graph)
    assert kinds(program) == ["Quantize", "Reduce", "Dequantize"]
    op = program.operators[1]
    assert (op.x.scale, op.x.zero_point) == (f32(meanings[0][0]).item(), 3)
    assert (op.y.scale, op.y.zero_point) == (f32(meanings[1][0]).item(), int(meanings[1][1]))
    assert op.requantize is not None


def test_a_sum_along_no_axis_stays_float():
    chain = Chain()
    none = chain.constant("none", np.zeros(0, np.int64))
    total = chain.node("ReduceSum", [chain.through("x", A), none], noop_with_empty_axes=1)
    chain.through(total, B, "y")
    assert operators(chain.rewritten(X_SHAPE)) == [*FULL, "ReduceSum", *FULL]


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("ReduceMax", {"axes": [1]}), ("ReduceMin", {}), ("GlobalMaxPool", {})]
)
def test_the_largest_of_many_codes_is_requantized_after_it_is_found(op_type, attributes):
    graph = between(op_type, (A, C), **attributes)
    kind = "MaxPool" if op_type == "GlobalMaxPool" else "Reduce"
    assert kinds(meaning_of(graph)) == ["Quantize", kind, "Lookup", "Dequantize"]
    assert operators(between(op_type, (A, A), **attributes)) == ["QuantizeLinear", op_type, "DequantizeLinear"]


def test_dequantize_and_quantize_alike_are_nothing():
    chain = Chain()
    chain.through(chain.through("x", A), A, "y")
    assert operators(chain.rewritten(X_SHAPE)) == FULL


def test_a_model_that_only_requantizes_alike_keeps_its_output():
    chain = Chain()
    chain.quantize(chain.through("x", A), A, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "Identity"]
    assert graph.outputs == ("y",)


def test_dequantize_and_quantize_otherwise_are_a_table():
    chain = Chain()
    chain.through(chain.through("x", A), C, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Lookup", "Dequantize"]
    assert np.array_equal(table(program), codes(values(A), C))
    lookup = program.operators[1]
    assert [lookup.x.scale, lookup.x.zero_point] == [f32(0.02).item(), 3]
    assert [lookup.y.scale, lookup.y.zero_point] == [f32(0.04).item(), -20]
    assert (lookup.y.dtype, lookup.y.shape) == (DType.INT8, X_SHAPE)


def test_a_constant_that_is_quantized_again_stays_a_constant():
    chain = Chain()
    k = chain.through(chain.weights("k", np.array([[[[0]], [[3]], [[4]], [[255]]]], np.uint8), A), C)
    chain.through(chain.node("Add", [chain.through("x", C), k]), C, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "QLinearAdd", "DequantizeLinear"]
    assert operand(graph, "QLinearAdd", 3).reshape(-1).tolist() == [-22, -20, -20, 106]


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
    graph = between("Relu", (B, B))
    assert operators(graph) == ["QuantizeLinear", "Clip", "DequantizeLinear"]
    assert [int(operand(graph, "Clip", index)) for index in (1, 2)] == [60, 255]


def test_a_relu_that_clamps_nothing_vanishes():
    assert operators(between("Relu", ((0.05, np.int8(-128)), (0.05, np.int8(-128))))) == FULL


def test_a_clamp_behind_a_table_joins_it():
    chain = Chain()
    flat = chain.node("Flatten", [chain.node("Relu", [chain.through("x", A)])])
    chain.through(chain.node("Relu", [flat]), C, "y")
    program = chain.meant(X_SHAPE)
    assert sorted(kinds(program)) == sorted(["Quantize", "Reshape", "Lookup", "Dequantize"])
    assert np.array_equal(table(program), codes(np.maximum(values(A), 0), C))


def test_a_float_operator_of_two_tensors_is_left_between_its_rims():
    chain = Chain()
    first, second = chain.through("x", A), chain.through("x", B)
    chain.through(chain.node("Sub", [first, second]), B, "y")
    assert operators(chain.rewritten(X_SHAPE))[-3:] == ["Sub", "QuantizeLinear", "DequantizeLinear"]


def test_a_float_tail_stays_float():
    chain = Chain()
    pooled = chain.through(chain.node("GlobalAveragePool", [chain.through("x", A)]), B)
    chain.node("Softmax", [chain.node("Flatten", [pooled])], "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "QLinearGlobalAveragePool", "Flatten", "DequantizeLinear", "Softmax"]
    assert graph.value("y").dtype is DType.FLOAT32


def test_quantizing_a_tensor_twice_alike_happens_once():
    chain = Chain()
    first = chain.dequantize(chain.quantize("x", A, "q1"), A)
    second = chain.dequantize(chain.quantize("x", A, "q2"), A)
    chain.through(chain.node("Add", [first, second], "r"), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "QLinearAdd", "DequantizeLinear"]
    assert [only(graph, "QLinearAdd").inputs[index] for index in (0, 3)] == ["q1", "q1"]


def test_identities_in_between_are_no_obstacle():
    chain = Chain()
    x = chain.node("Identity", [chain.node("Dropout", [chain.through("x", A)])])
    pooled = chain.node("Cast", [chain.node("GlobalAveragePool", [x])], to=1)
    chain.through(pooled, B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "QLinearGlobalAveragePool", "DequantizeLinear"]


def test_rewriting_twice_changes_nothing_more():
    chain = Chain()
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
def test_no_malformed_node_between_quantizations_raises(op_type, count, attributes):
    chain = Chain()
    inputs = [chain.through("x", A), *(chain.constant(f"k{index}", np.array([99, -99])) for index in range(3))]
    chain.through(chain.node(op_type, inputs[:count], **attributes), B, "y")
    graph = graph_if_spelt_well(chain.model(X_SHAPE))
    assert graph is None or rewrite(graph).outputs == ("y",)


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, [[0.1]], []])
def test_a_scale_that_makes_no_sense_leaves_the_model_as_it_is(scale):
    chain = Chain()
    chain.through(chain.node("GlobalAveragePool", [chain.through("x", (scale, np.uint8(0)))]), B, "y")
    assert operators(chain.rewritten(X_SHAPE)) == [*FULL, "GlobalAveragePool", *FULL]


def test_new_names_avoid_the_models_own():
    chain = Chain()
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
def test_codes_tell_where_the_largest_number_is(op_type):
    chain = Chain()
    chain.node(op_type, [chain.through("x", A)], "y", axis=1)
    assert operators(chain.rewritten(X_SHAPE)) == ["QuantizeLinear", op_type]


def test_codes_that_are_the_same_number_do_not_tell_where_the_largest_is():
    chain = Chain()
    coarse = chain.through("x", (1e38, np.uint8(3)))  # the codes above 6 are infinite
    chain.node("ArgMax", [coarse], "y", axis=1)
    assert operators(chain.rewritten(X_SHAPE)) == [*FULL, "ArgMax"]


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
def test_a_choice_by_a_comparison_of_one_tensor_is_a_table(op_type, compare, is_quantized):
    chain = Chain()
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


def test_a_choice_between_two_tensors_is_no_table():
    chain = Chain()
    x = chain.through("x", A)
    other = chain.node("Softmax", [x])
    condition = chain.node("Greater", [x, chain.constant("limit", f32(0.5))])
    chain.through(chain.node("Where", [condition, chain.through(other, B), x]), B, "y")
    assert "Select" in kinds(chain.meant(X_SHAPE, opset=16))


@pytest.mark.parametrize("x_type", ["uint8", "int8"])
def test_bytes_that_are_cast_scaled_and_quantized_are_a_table(x_type):
    chain = Chain()
    scaled = chain.node("Div", [chain.node("Cast", ["x"], to=1), chain.constant("k", f32(255))])
    chain.quantize(chain.node("Sub", [scaled, chain.constant("half", f32(0.5))]), C, "y")
    program = meaning_of(rewrite(load(chain.model(X_SHAPE, x_type=x_type))))
    assert kinds(program) == ["Lookup"]
    every = np.arange(256) if x_type == "uint8" else np.arange(-128, 128)
    assert np.array_equal(table(program), codes(every.astype(np.float32) / f32(255) - f32(0.5), C))
