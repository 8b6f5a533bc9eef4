"""Convolutions and products of matrices between DequantizeLinear and QuantizeLinear become integer operators."""

import numpy as np
import pytest
from models import random_weights
from qdq import A, B, C, Chain, attributes_of, only, operand, operators

from qcgen.check import check
from qcgen.errors import ModelRejected

RIMS = ["QuantizeLinear", "DequantizeLinear"]
X_SHAPE = (1, 3, 6, 6)
W = random_weights((4, 3, 3, 3))
PER_TENSOR = (0.01, np.int8(0))
PER_CHANNEL = ([0.01, 0.02, 0.03, 0.015], np.zeros(4, np.int8))
BIAS = np.array([100, -120, 7, 55], np.int32)
FLOATS = np.array([1.23456, -0.3333, 0.0001, 7], np.float32)


def f32(value):
    return np.asarray(value, np.float32)


def unit(w_meaning, x_meaning=A):
    """The value of one unit of the accumulator, rounded as float32."""
    return f32(x_meaning[0]) * f32(w_meaning[0])


def conv(w_meaning=PER_TENSOR, bias=None, behind=(), y_meaning=B, bias_meaning=None, outputs=("y",)):
    """x quantized as A, Conv, the nodes in ``behind`` (operator and bounds), y quantized and dequantized."""
    chain = Chain()
    inputs = [chain.through("x", A), chain.weights("w", W, w_meaning)]
    if bias is not None and bias.dtype == np.float32:
        inputs.append(chain.constant("b", bias))
    elif bias is not None:
        scale = unit(w_meaning)
        inputs.append(chain.weights("b", bias, bias_meaning or (scale, np.zeros(scale.shape, bias.dtype))))
    last = chain.node("Conv", inputs, "c")
    for index, (op_type, *bounds) in enumerate(behind):
        names = [chain.constant(f"bound{index}_{place}", f32(bound)) for place, bound in enumerate(bounds)]
        last = chain.node(op_type, [last, *names])
    chain.through(last, y_meaning, "y")
    return chain.rewritten(X_SHAPE, outputs)


@pytest.mark.parametrize("w_meaning", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per channel"])
@pytest.mark.parametrize("bias", [None, BIAS, FLOATS, BIAS.astype(np.int8)], ids=["none", "int32", "float", "int8"])
@pytest.mark.parametrize("behind", [(), [("Relu",)], [("Clip", -0.5, 2.2)]], ids=["directly", "relu", "clip"])
def test_conv_between_dequantize_and_quantize_is_one_qlinear_conv(w_meaning, bias, behind):
    graph = conv(w_meaning, bias, behind)
    clamp = ["Clip"] if behind else []
    assert operators(graph) == ["QuantizeLinear", "QLinearConv", *clamp, "DequantizeLinear"]
    assert only(graph, "QLinearConv").name == "c_node"
    assert len(only(graph, "QLinearConv").inputs) == (8 if bias is None else 9)
    assert np.array_equal(operand(graph, "QLinearConv", 3), W)
    assert np.array_equal(operand(graph, "QLinearConv", 4), f32(w_meaning[0]))


def test_the_operands_stand_in_the_order_of_qlinear_conv():
    graph = conv(bias=BIAS)
    names = ["x_q", "x_q_scale", "x_q_zp", "w", "w_dq_scale", "w_dq_zp", "c_q_scale", "c_q_zp", "b"]
    x, *constants = only(graph, "QLinearConv").inputs
    assert x == names[0]
    values = [graph.constants[name] for name in constants]
    expected = [0.02, 3, W, 0.01, 0, 0.05, 60, BIAS]
    for value, wanted in zip(values, expected, strict=True):
        assert np.array_equal(value, f32(wanted) if isinstance(wanted, float) else wanted)
    assert constants[2] == "w"
    assert constants[-1] == "b"


def test_a_float_bias_is_divided_by_the_units_of_the_accumulator_and_rounded_half_to_even():
    # Recorded: what onnxruntime's default session makes of these two.
    assert operand(conv(PER_TENSOR, FLOATS), "QLinearConv", 8).tolist() == [6173, -1666, 0, 35000]
    half = f32([0.5, 1.5, 2.5, -0.5])
    power = (0.25, np.int8(0))
    chain = Chain()
    inputs = [chain.through("x", (0.5, np.uint8(0))), chain.weights("w", W, power), chain.constant("b", half / 8)]
    chain.through(chain.node("Conv", inputs), B, "y")
    assert operand(chain.rewritten(X_SHAPE), "QLinearConv", 8).tolist() == [0, 2, 2, 0]


def test_a_float_bias_is_quantized_by_the_scale_of_each_channel():
    bias = operand(conv(PER_CHANNEL, FLOATS), "QLinearConv", 8)
    assert bias.dtype == np.int32
    assert bias.tolist() == np.rint(FLOATS / unit(PER_CHANNEL)).tolist()


@pytest.mark.parametrize("ratio", [1.0, 1.000001, 0.995, 1.009])
def test_an_int32_bias_whose_scale_is_about_the_accumulators_is_taken_as_it_is(ratio):
    graph = conv(bias=BIAS, bias_meaning=(unit(PER_TENSOR) * f32(ratio), np.int32(0)))
    assert only(graph, "QLinearConv").inputs[8] == "b"


@pytest.mark.parametrize(("dtype", "ratio"), [(np.int32, 2), (np.int32, 1.1), (np.int8, 4), (np.int8, 0.37)])
def test_a_bias_with_a_scale_of_its_own_is_rescaled(dtype, ratio):
    scale = unit(PER_TENSOR) * f32(ratio)
    graph = conv(bias=BIAS.astype(dtype), bias_meaning=(scale, dtype(0)))
    exact = BIAS * (np.float64(scale) / np.float64(unit(PER_TENSOR)))
    assert operand(graph, "QLinearConv", 8).tolist() == np.rint(exact).tolist()


def test_a_bias_with_a_zero_point_is_rescaled():
    graph = conv(bias=BIAS, bias_meaning=(unit(PER_TENSOR), np.int32(5)))
    assert operand(graph, "QLinearConv", 8).tolist() == (BIAS - 5).tolist()


def coarse(bias, meaning):
    """A convolution one unit of whose accumulator is many output codes."""
    chain = Chain()
    inputs = [chain.through("x", (16.0, np.uint8(0))), chain.weights("w", W, (16.0, np.int8(0)))]
    inputs.append(chain.weights("b", bias, meaning))
    chain.through(chain.node("Conv", inputs), (16.0, np.uint8(0)), "y")
    return chain.rewritten(X_SHAPE)


def test_a_convolution_stays_float_where_rounding_its_bias_would_be_seen():
    bias = np.array([8, 16, 24, 32], np.int32)
    assert operators(coarse(bias, (16.0, np.int32(0)))) == [*RIMS, "Conv", *RIMS]
    graph = coarse(bias * 2, (16.0, np.int32(0)))
    assert operand(graph, "QLinearConv", 8).tolist() == [1, 2, 3, 4]


def test_a_bias_beyond_int32_keeps_the_convolution_in_float():
    assert "Conv" in operators(conv(bias=f32([1e9, 0, 0, 0])))


def test_a_relu_that_the_smallest_code_implies_leaves_nothing_behind():
    graph = conv(behind=[("Relu",)], y_meaning=(0.05, np.uint8(0)))
    assert operators(graph) == ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("behind", "bounds"),
    [
        ([("Relu",)], (60, 255)),
        ([("Clip", 0, 6)], (60, 180)),
        ([("Clip", -0.524, 2.226)], (50, 105)),
        ([("Clip", -0.526, 100)], (49, 255)),
        ([("Clip", 1, -1)], (40, 40)),
        ([("Relu",), ("Clip", -9, 1)], (60, 80)),
    ],
)
def test_a_clamp_in_front_of_quantize_is_a_clamp_of_codes(behind, bounds):
    graph = conv(behind=behind)
    low, high = 0, 255
    for node in graph.nodes:
        if node.op_type == "Clip":
            one, other = (int(graph.constants[name]) for name in node.inputs[1:])
            assert graph.constants[node.inputs[1]].dtype == np.uint8
            low, high = min(max(low, one), other), min(max(high, one), other)
    assert (low, high) == bounds
    assert {"Relu", "Conv"}.isdisjoint(operators(graph))


def test_the_attributes_of_the_convolution_are_kept():
    chain = Chain()
    inputs = [chain.through("x", A), chain.weights("w", random_weights((6, 1, 3, 3)), PER_TENSOR)]
    settings = {"group": 3, "pads": [1, 0, 0, 1], "strides": [2, 1], "dilations": [1, 2]}
    chain.through(chain.node("Conv", inputs, **settings), B, "y")
    attributes = attributes_of(chain.rewritten(X_SHAPE), "QLinearConv")
    assert {key: value if isinstance(value, int) else list(value) for key, value in attributes.items()} == settings


def test_float_weights_that_are_quantized_in_the_graph_are_folded():
    floats = W.astype(np.float32) * f32(0.01)
    chain = Chain()
    low, high = chain.constant("low", np.int8(-127)), chain.constant("high", np.int8(127))
    codes = chain.node("Clip", [chain.quantize(chain.constant("w", floats), PER_TENSOR), low, high])
    inputs = [chain.through("x", A), chain.dequantize(codes, PER_TENSOR)]
    chain.through(chain.node("Conv", inputs), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert operators(graph) == ["QuantizeLinear", "QLinearConv", "DequantizeLinear"]
    assert np.array_equal(operand(graph, "QLinearConv", 3), np.maximum(W, -127))


def test_absent_zero_points_become_constants():
    chain = Chain()
    inputs = [chain.through("x", (0.02, None)), chain.weights("w", W, (0.01, None))]
    chain.through(chain.node("Conv", inputs), (0.05, None), "y")
    graph = chain.rewritten(X_SHAPE)
    zero_points = [operand(graph, "QLinearConv", index) for index in (2, 5, 7)]
    assert [zero.dtype for zero in zero_points] == [np.uint8, np.int8, np.uint8]
    assert not any(zero.any() for zero in zero_points)


def test_a_convolution_whose_float_output_is_used_stays_float_with_its_weights_folded():
    graph = conv(bias=BIAS, outputs=("y", "c"))
    assert operators(graph) == [*RIMS, "Conv", *RIMS]
    assert np.array_equal(operand(graph, "Conv", 1), W.astype(np.float32) * f32(0.01))
    assert np.array_equal(operand(graph, "Conv", 2), BIAS.astype(np.float32) * unit(PER_TENSOR))


@pytest.mark.parametrize(
    "change",
    [
        {"w_meaning": (np.full(3, 0.01), np.zeros(3, np.int8)), "axis": 1},
        {"x_meaning": (-0.02, np.uint8(3))},
    ],
    ids=["weights along another axis", "negative scale"],
)
def test_what_qlinear_conv_cannot_say_stays_as_it_is(change):
    chain = Chain()
    x = chain.through("x", change.get("x_meaning", A))
    w = chain.weights("w", W, change.get("w_meaning", PER_TENSOR), axis=change.get("axis", 0))
    chain.through(chain.node("Conv", [x, w]), B, "y")
    assert operators(chain.rewritten(X_SHAPE)) == [*RIMS, "Conv", *RIMS]


def test_one_quantized_tensor_feeds_several_fused_operators():
    chain = Chain()
    x = chain.through("x", A)
    first = chain.through(chain.node("Conv", [x, chain.weights("w1", W, PER_TENSOR)]), B)
    second = chain.through(chain.node("Conv", [x, chain.weights("w2", W, PER_CHANNEL)]), C)
    chain.through(chain.node("Add", [first, second]), B, "y")
    graph = chain.rewritten(X_SHAPE)
    assert [node.inputs[0] for node in graph.nodes if node.op_type == "QLinearConv"] == ["x_q", "x_q"]
    assert "Conv" not in operators(graph)


G = random_weights((4, 6))


def gemm(
    op_type="Gemm", bias=None, quantized=True, transposed=True, w_meaning=PER_TENSOR, bias_meaning=None, **attributes
):
    """x (2, 6) quantized as A, times the weights, plus the bias."""
    chain = Chain()
    codes = G if transposed else np.ascontiguousarray(G.T)
    inputs = [chain.through("x", A), chain.weights("w", codes, w_meaning, axis=0 if transposed else 1)]
    added = []
    if bias is not None and bias.dtype == np.float32:
        added = [chain.constant("b", bias)]
    elif bias is not None:
        added = [
            chain.weights("b", bias, bias_meaning or (unit(w_meaning), np.zeros(unit(w_meaning).shape, bias.dtype)))
        ]
    if op_type == "Gemm":
        last = chain.node("Gemm", [*inputs, *added], "g", transB=int(transposed), **attributes)
    else:
        last = chain.node("MatMul", inputs, "g")
        last = chain.node("Add", [*added, last], "s") if added else last
    if quantized:
        chain.through(last, B, "y")
    return chain.rewritten((2, 6), ("y",) if quantized else (last,))


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("w_meaning", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per column"])
@pytest.mark.parametrize("bias", [None, BIAS, FLOATS], ids=["none", "int32", "float"])
def test_gemm_between_dequantize_and_quantize_is_one_qgemm(transposed, w_meaning, bias):
    graph = gemm(bias=bias, transposed=transposed, w_meaning=w_meaning)
    assert operators(graph) == ["QuantizeLinear", "QGemm", "DequantizeLinear"]
    assert graph.opsets["com.microsoft"] == 1
    node = only(graph, "QGemm")
    assert node.inputs[0] == "x_q"
    assert graph.constants[node.inputs[7]] == f32(0.05)
    assert graph.constants[node.inputs[8]] == 60
    if bias is None:
        assert node.inputs[6] == ""
    else:
        expected = BIAS if bias is BIAS else np.rint(FLOATS / unit(w_meaning))
        assert graph.constants[node.inputs[6]].tolist() == expected.tolist()


@pytest.mark.parametrize("bias", [np.int32(7), np.array([7], np.int32), np.array([[1, 2, 3, 4]], np.int32)])
def test_a_bias_of_gemm_becomes_one_number_a_column(bias):
    assert operand(gemm(bias=bias), "QGemm", 6).tolist() == np.broadcast_to(bias.reshape(-1), 4).tolist()


def test_a_bias_that_differs_from_row_to_row_keeps_gemm_in_float():
    assert "Gemm" in operators(gemm(bias=np.arange(8, dtype=np.int32).reshape(2, 4)))


def test_the_int32_bias_of_gemm_is_taken_whatever_its_scale():
    # onnxruntime's default session does so, too; for Conv it compares the scales.
    graph = gemm(bias=BIAS, bias_meaning=(unit(PER_TENSOR) * f32(1.5), np.int32(0)))
    assert only(graph, "QGemm").inputs[6] == "b"


@pytest.mark.parametrize("factors", [{"alpha": 2.0}, {"beta": 0.5}])
def test_factors_are_fused_only_without_a_bias(factors):
    assert "Gemm" in operators(gemm(bias=BIAS, **factors))
    graph = gemm(**factors)
    assert attributes_of(graph, "QGemm").get("alpha", 1.0) == factors.get("alpha", 1.0)
    assert "beta" not in attributes_of(graph, "QGemm")


@pytest.mark.parametrize("bias", [BIAS, FLOATS], ids=["int32", "float"])
def test_matmul_and_a_bias_are_one_qgemm(bias):
    graph = gemm("MatMul", bias, transposed=False)
    assert operators(graph) == ["QuantizeLinear", "QGemm", "DequantizeLinear"]
    expected = BIAS if bias is BIAS else np.rint(FLOATS / unit(PER_TENSOR))
    assert operand(graph, "QGemm", 6).tolist() == expected.tolist()


def test_matmul_without_a_bias_is_qlinear_matmul():
    graph = gemm("MatMul", transposed=False, w_meaning=PER_CHANNEL)
    assert operators(graph) == ["QuantizeLinear", "QLinearMatMul", "DequantizeLinear"]
    assert np.array_equal(operand(graph, "QLinearMatMul", 3), G.T)
    assert operand(graph, "QLinearMatMul", 7) == 60


@pytest.mark.parametrize("op_type", ["Gemm", "MatMul"])
def test_a_product_that_is_not_quantized_is_a_qgemm_with_a_float_output(op_type):
    graph = gemm(op_type, quantized=False, transposed=False)
    assert operators(graph) == ["QuantizeLinear", "QGemm"]
    assert len(only(graph, "QGemm").inputs) == 6
    assert graph.value(graph.outputs[0]).dtype.value == "float"


def test_a_float_bias_keeps_a_product_that_is_not_quantized_in_float():
    graph = gemm(bias=FLOATS, quantized=False)
    assert operators(graph) == [*RIMS, "Gemm"]


def test_weights_that_are_transposed_behind_dequantize_keep_their_columns():
    chain = Chain()
    w = chain.node("Transpose", [chain.weights("w", G, PER_CHANNEL)], perm=[1, 0])
    chain.through(chain.node("MatMul", [chain.through("x", A), w]), B, "y")
    graph = chain.rewritten((2, 6))
    assert operators(graph) == ["QuantizeLinear", "QLinearMatMul", "DequantizeLinear"]
    assert np.array_equal(operand(graph, "QLinearMatMul", 3), G.T)
    assert np.array_equal(operand(graph, "QLinearMatMul", 4), f32(PER_CHANNEL[0]))


def test_what_is_wrong_with_a_product_is_told_of_the_operator_that_the_user_wrote():
    chain = Chain()
    w = chain.weights("w", np.ascontiguousarray(G.T), (1e30, np.int8(0)))
    chain.through(chain.node("MatMul", [chain.through("x", (1e30, np.uint8(3))), w], "product"), B, "y")
    with pytest.raises(ModelRejected) as rejection:
        check(chain.rewritten((2, 6)))
    [problem] = rejection.value.problems
    assert problem.where == "node 'product_node' (MatMul)"
    assert problem.what == "a_scale * b_scale / y_scale is inf in float32"
