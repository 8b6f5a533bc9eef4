"""Convolutions and products of matrices between DequantizeLinear and QuantizeLinear are products of codes."""

import numpy as np
import pytest
from models import problems, random_weights
from qdq import A, B, C, Chain, f32, kinds, meaning_of, means, one, operators, table

from qcgen.check import check
from qcgen.errors import ModelRejected
from qcgen.ir.program import Conv, Dequantize, FloatActivation, MatMul, QuantizedBinary, RawAccumulator, Requantize
from qcgen.ir.types import DType

OF_CODES = ["Quantize", "Conv", "Dequantize"]
IN_FLOAT = ["Quantize", "Dequantize", "Conv", "Quantize", "Dequantize"]
X_SHAPE = (1, 3, 6, 6)
W = random_weights((4, 3, 3, 3))
PER_TENSOR = (0.01, np.int8(0))
PER_CHANNEL = ([0.01, 0.02, 0.03, 0.015], np.zeros(4, np.int8))
BIAS = np.array([100, -120, 7, 55], np.int32)
FLOATS = np.array([1.23456, -0.3333, 0.0001, 7], np.float32)


def unit(w_meaning, x_meaning=A):
    """The value of one unit of the accumulator, rounded as float32."""
    return f32(x_meaning[0]) * f32(w_meaning[0])


def in_units(bias, w_meaning=PER_TENSOR):
    """The numbers that are added to the accumulators: the codes of a bias, or floats in units of the accumulator."""
    if bias is None:
        return [0] * 4
    return np.rint(bias / unit(w_meaning)).tolist() if bias.dtype == np.float32 else bias.tolist()


def requantizes(op, w_meaning=PER_TENSOR, x_meaning=A, y_meaning=B):
    """Whether accumulators are multiplied by fl32(unit / y_scale), one number a channel, to all codes of y's type."""
    scale = np.broadcast_to(unit(w_meaning, x_meaning) / f32(y_meaning[0]), op.geometry.out_channels)
    by, ends = op.epilogue, np.iinfo(y_meaning[1].dtype)
    return (
        type(by) is Requantize
        and by.scale.dtype == np.float32
        and np.array_equal(by.scale, scale)
        and (by.zero_point, by.low, by.high) == (y_meaning[1], ends.min, ends.max)
    )


def is_float(op):
    """Whether a product is one of float32 numbers."""
    types = {op.x.dtype, op.y.dtype, DType.of(op.weights), DType.of(op.bias)}
    return isinstance(op.epilogue, FloatActivation) and types == {DType.FLOAT32}


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
    return chain.meant(X_SHAPE, outputs)


def bias_of(program):
    """The bias of the one product of codes, whose numbers are int32."""
    bias = one(program, Conv).bias
    assert bias.dtype == np.int32
    return bias.tolist()


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.mark.parametrize("w_meaning", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per channel"])
@pytest.mark.parametrize("bias", [None, BIAS, FLOATS, BIAS.astype(np.int8)], ids=["none", "int32", "float", "int8"])
@pytest.mark.parametrize("behind", [(), [("Relu",)], [("Clip", -0.5, 2.2)]], ids=["directly", "relu", "clip"])
def test_conv_between_dequantize_and_quantize_is_one_convolution_of_codes(w_meaning, bias, behind):
    program = conv(w_meaning, bias, behind)
    clamp = ["Lookup"] if behind else []
    assert kinds(program) == ["Quantize", "Conv", *clamp, "Dequantize"]
    op = one(program, Conv)
    assert (op.name, op.op_type) == ("c_node", "Conv")
    assert bias_of(program) == in_units(bias, w_meaning)
    assert np.array_equal(op.weights, W)
    assert op.weights.dtype == np.int8
    assert requantizes(op, w_meaning)


def test_the_convolution_has_the_operands_of_the_nodes_around_it():
    program = conv(bias=BIAS)
    op = one(program, Conv)
    assert (op.x.name, op.y.name) == ("x_q", "c_q")
    assert means(op.x, A)
    assert means(op.y, B)
    assert op.x_zero_point == 3
    assert np.array_equal(op.weights, W)
    assert op.w_zero_point.tolist() == [0] * 4
    assert bias_of(program) == BIAS.tolist()
    assert requantizes(op)


@pytest.mark.parametrize("zero_points", [np.int8(7), np.array([1, -2, 3, 100], np.int8)], ids=["one", "per channel"])
def test_the_zero_points_of_weights_are_those_of_the_channels(zero_points):
    scale = f32(PER_TENSOR[0]) if zero_points.ndim == 0 else f32(PER_CHANNEL[0])
    op = one(conv((scale, zero_points)), Conv)
    assert op.w_zero_point.tolist() == np.broadcast_to(zero_points, 4).tolist()
    assert requantizes(op, (scale, zero_points))


def test_a_float_bias_is_divided_by_the_units_of_the_accumulator_and_rounded_half_to_even():
    # Recorded: what onnxruntime's default session makes of these two.
    assert bias_of(conv(PER_TENSOR, FLOATS)) == [6173, -1666, 0, 35000]
    half = f32([0.5, 1.5, 2.5, -0.5])
    power = (0.25, np.int8(0))
    chain = Chain()
    inputs = [chain.through("x", (0.5, np.uint8(0))), chain.weights("w", W, power), chain.constant("b", half / 8)]
    chain.through(chain.node("Conv", inputs), B, "y")
    assert bias_of(chain.meant(X_SHAPE)) == [0, 2, 2, 0]


def test_a_float_bias_is_quantized_by_the_scale_of_each_channel():
    assert bias_of(conv(PER_CHANNEL, FLOATS)) == np.rint(FLOATS / unit(PER_CHANNEL)).tolist()


@pytest.mark.parametrize("ratio", [1.0, 1.000001, 0.995, 1.009])
def test_an_int32_bias_whose_scale_is_about_the_accumulators_is_taken_as_it_is(ratio):
    program = conv(bias=BIAS * 1000, bias_meaning=(unit(PER_TENSOR) * f32(ratio), np.int32(0)))
    assert bias_of(program) == (BIAS * 1000).tolist()


@pytest.mark.parametrize(("dtype", "ratio"), [(np.int32, 2), (np.int32, 1.1), (np.int8, 4), (np.int8, 0.37)])
def test_a_bias_with_a_scale_of_its_own_is_rescaled(dtype, ratio):
    scale = unit(PER_TENSOR) * f32(ratio)
    program = conv(bias=BIAS.astype(dtype), bias_meaning=(scale, dtype(0)))
    exact = BIAS * (np.float64(scale) / np.float64(unit(PER_TENSOR)))
    assert bias_of(program) == np.rint(exact).tolist()


def test_a_bias_with_a_zero_point_is_rescaled():
    program = conv(bias=BIAS, bias_meaning=(unit(PER_TENSOR), np.int32(5)))
    assert bias_of(program) == (BIAS - 5).tolist()


def coarse(bias, meaning):
    """A convolution one unit of whose accumulator is many output codes."""
    chain = Chain()
    inputs = [chain.through("x", (16.0, np.uint8(0))), chain.weights("w", W, (16.0, np.int8(0)))]
    inputs.append(chain.weights("b", bias, meaning))
    chain.through(chain.node("Conv", inputs), (16.0, np.uint8(0)), "y")
    return chain.meant(X_SHAPE)


def test_a_convolution_stays_float_where_rounding_its_bias_would_be_seen():
    bias = np.array([8, 16, 24, 32], np.int32)
    program = coarse(bias, (16.0, np.int32(0)))
    assert kinds(program) == IN_FLOAT
    assert is_float(one(program, Conv))
    assert bias_of(coarse(bias * 2, (16.0, np.int32(0)))) == [1, 2, 3, 4]


def test_a_bias_beyond_int32_keeps_the_convolution_in_float():
    assert is_float(one(conv(bias=f32([1e9, 0, 0, 0])), Conv))


def test_a_relu_that_the_smallest_code_implies_leaves_nothing_behind():
    assert kinds(conv(behind=[("Relu",)], y_meaning=(0.05, np.uint8(0)))) == OF_CODES


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
    program = conv(behind=behind)
    assert kinds(program) == ["Quantize", "Conv", "Lookup", "Dequantize"]
    assert table(program) == np.clip(np.arange(256), *bounds).tolist()
    assert requantizes(one(program, Conv))


def test_the_attributes_of_the_convolution_are_kept(chain):
    inputs = [chain.through("x", A), chain.weights("w", random_weights((6, 1, 3, 3)), PER_TENSOR)]
    settings = {"group": 3, "pads": [1, 0, 0, 1], "strides": [2, 1], "dilations": [1, 2]}
    chain.through(chain.node("Conv", inputs, **settings), B, "y")
    op = one(chain.meant(X_SHAPE), Conv)
    g = op.geometry
    assert requantizes(op)
    assert (g.group, g.strides, g.dilations) == (3, (2, 1), (1, 2))
    assert (g.pads_begin, g.pads_end) == ((1, 0), (0, 1))


def test_float_weights_that_are_quantized_in_the_graph_are_folded():
    floats = W.astype(np.float32) * f32(0.01)
    chain = Chain()
    low, high = chain.constant("low", np.int8(-127)), chain.constant("high", np.int8(127))
    codes = chain.node("Clip", [chain.quantize(chain.constant("w", floats), PER_TENSOR), low, high])
    inputs = [chain.through("x", A), chain.dequantize(codes, PER_TENSOR)]
    chain.through(chain.node("Conv", inputs), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == OF_CODES
    assert np.array_equal(one(program, Conv).weights, np.maximum(W, -127))
    assert requantizes(one(program, Conv))


def test_absent_zero_points_are_0(chain):
    inputs = [chain.through("x", (0.02, None)), chain.weights("w", W, (0.01, None))]
    chain.through(chain.node("Conv", inputs), (0.05, None), "y")
    op = one(chain.meant(X_SHAPE), Conv)
    assert means(op.x, (0.02, np.uint8(0)))
    assert means(op.y, (0.05, np.uint8(0)))
    assert (op.weights.dtype, op.x_zero_point, op.w_zero_point.tolist()) == (np.int8, 0, [0] * 4)
    assert requantizes(op, y_meaning=(0.05, np.uint8(0)))


def test_a_convolution_whose_float_output_is_used_stays_float_with_its_weights_folded():
    program = conv(bias=BIAS, outputs=("y", "c"))
    assert kinds(program) == IN_FLOAT
    op = one(program, Conv)
    assert is_float(op)
    assert np.array_equal(op.weights, W.astype(np.float32) * f32(0.01))
    assert np.array_equal(op.bias, BIAS.astype(np.float32) * unit(PER_TENSOR))


@pytest.mark.parametrize("other", ["Relu", "QuantizeLinear"])
def test_a_convolution_that_two_nodes_read_stays_float(chain, other):
    result = chain.node("Conv", [chain.through("x", A), chain.weights("w", W, PER_TENSOR)], "c")
    chain.through(result, B, "y")
    chain.node(other, [result, *(chain.parameters("z", C) if other == "QuantizeLinear" else [])], "z")
    program = chain.meant(X_SHAPE, ("y", "z"))
    assert kinds(program)[:3] == ["Quantize", "Dequantize", "Conv"]
    assert is_float(one(program, Conv))


def test_a_convolution_with_scales_along_another_axis_of_its_weights_stays_float(chain):
    w = chain.weights("w", W, (np.full(3, 0.01), np.zeros(3, np.int8)), axis=1)
    chain.through(chain.node("Conv", [chain.through("x", A), w]), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == IN_FLOAT
    assert is_float(one(program, Conv))


def test_a_negative_scale_stays_in_the_graph_and_is_refused(chain):
    x = chain.through("x", (-0.02, np.uint8(3)))
    chain.through(chain.node("Conv", [x, chain.weights("w", W, PER_TENSOR)]), B, "y")
    graph = chain.rewritten(X_SHAPE)
    rims = ["QuantizeLinear", "DequantizeLinear"]
    assert operators(graph) == [*rims, "Conv", *rims]
    with pytest.raises(ModelRejected) as rejection:
        check(graph)
    assert [problem.where for problem in rejection.value.problems] == [
        "node 'x_q_node' (QuantizeLinear)",
        "node 'x_q_dq_node' (DequantizeLinear)",
    ]


def test_one_quantized_tensor_feeds_several_operators_of_codes(chain):
    x = chain.through("x", A)
    first = chain.through(chain.node("Conv", [x, chain.weights("w1", W, PER_TENSOR)]), B)
    second = chain.through(chain.node("Conv", [x, chain.weights("w2", W, PER_CHANNEL)]), C)
    chain.through(chain.node("Add", [first, second]), B, "y")
    convolutions = [op for op in chain.meant(X_SHAPE).operators if isinstance(op, Conv)]
    assert [op.x.name for op in convolutions] == ["x_q", "x_q"]
    assert requantizes(convolutions[0])
    assert requantizes(convolutions[1], PER_CHANNEL, y_meaning=C)


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
    return chain.meant((2, 6), ("y",) if quantized else (last,))


def columns(program):
    """The weights of the one product, those of a column of the product in a row."""
    return one(program, Conv).weights[:, :, 0]


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("w_meaning", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per column"])
@pytest.mark.parametrize("bias", [None, BIAS, FLOATS], ids=["none", "int32", "float"])
def test_gemm_between_dequantize_and_quantize_is_one_product_of_codes(transposed, w_meaning, bias):
    program = gemm(bias=bias, transposed=transposed, w_meaning=w_meaning)
    assert kinds(program) == OF_CODES
    op = one(program, Conv)
    assert (op.name, op.op_type, op.x.name) == ("g_node", "Gemm", "x_q")
    assert means(op.x, A)
    assert means(op.y, B)
    assert op.x_zero_point == 3
    assert np.array_equal(columns(program), G)
    assert requantizes(op, w_meaning)
    assert bias_of(program) == in_units(bias, w_meaning)


@pytest.mark.parametrize("bias", [np.int32(7), np.array([7], np.int32), np.array([[1, 2, 3, 4]], np.int32)])
def test_a_bias_of_gemm_becomes_one_number_a_column(bias):
    assert bias_of(gemm(bias=bias)) == np.broadcast_to(bias.reshape(-1), 4).tolist()


def test_a_bias_that_differs_from_row_to_row_keeps_gemm_in_float_where_it_is_refused():
    [problem] = problems(gemm, bias=np.arange(8, dtype=np.int32).reshape(2, 4))
    assert (problem.where, problem.what) == ("node 'g_node' (Gemm)", "C differs from row to row")


def test_the_int32_bias_of_gemm_is_taken_whatever_its_scale():
    # onnxruntime's default session does so, too; for Conv it compares the scales.
    program = gemm(bias=BIAS, bias_meaning=(unit(PER_TENSOR) * f32(1.5), np.int32(0)))
    assert bias_of(program) == BIAS.tolist()


@pytest.mark.parametrize("op_type", ["Gemm", "MatMul"])
def test_x_and_y_of_gemm_have_one_type_or_its_sums_become_floats(chain, op_type):
    # onnxruntime's QGemm has one type for both.
    w = chain.weights("w", np.ascontiguousarray(G.T), PER_TENSOR)
    chain.through(chain.node(op_type, [chain.through("x", A), w], "g"), C, "y")
    program = chain.meant((2, 6))
    op = one(program, Conv)
    if op_type == "MatMul":
        assert kinds(program) == OF_CODES
        assert requantizes(op, y_meaning=C)
    else:
        assert kinds(program) == ["Quantize", "Conv", "Dequantize", "Quantize", "Dequantize"]
        assert isinstance(op.epilogue, RawAccumulator)
        assert means(op.y, (unit(PER_TENSOR), np.int32(0)))


@pytest.mark.parametrize("factors", [{"alpha": 2.0}, {"beta": 0.5}])
def test_products_with_factors_are_of_codes_only_without_a_bias(factors):
    assert is_float(one(gemm(bias=BIAS, **factors), Conv))
    program = gemm(**factors)
    assert kinds(program) == OF_CODES
    assert requantizes(one(program, Conv), x_meaning=(f32(factors.get("alpha", 1.0)) * f32(A[0]), A[1]))
    assert bias_of(program) == [0] * 4


@pytest.mark.parametrize("bias", [BIAS, FLOATS], ids=["int32", "float"])
def test_matmul_and_a_bias_are_one_product_of_codes(bias):
    program = gemm("MatMul", bias, transposed=False)
    assert kinds(program) == OF_CODES
    assert bias_of(program) == in_units(bias)
    assert np.array_equal(columns(program), G)
    assert requantizes(one(program, Conv))


def test_matmul_without_a_bias_is_a_product_of_codes():
    program = gemm("MatMul", transposed=False, w_meaning=PER_CHANNEL)
    assert kinds(program) == OF_CODES
    op = one(program, Conv)
    assert (op.name, op.op_type) == ("g_node", "MatMul")
    assert np.array_equal(columns(program), G)
    assert means(op.y, B)
    assert requantizes(op, PER_CHANNEL)
    assert bias_of(program) == [0] * 4


def test_matmul_of_two_computed_tensors_is_a_product_of_codes(chain):
    x = chain.through("x", A)
    other = chain.through(chain.node("Softmax", [x]), B)
    chain.through(chain.node("MatMul", [x, chain.node("Transpose", [other], perm=[1, 0])], "g"), C, "y")
    op = one(chain.meant((2, 6)), MatMul)
    assert (op.name, op.a.name, op.a_zero_point, op.b_zero_point) == ("g_node", "x_q", 3, 60)
    assert [means(op.a, A), means(op.b, B), means(op.y, C)] == [True] * 3
    by = op.epilogue
    assert by.scale.tolist() == [(f32(A[0]) * f32(B[0]) / f32(C[0])).item()]
    assert (by.zero_point, by.low, by.high) == (-20, -128, 127)


def test_a_matmul_that_is_quantized_before_its_bias_is_added_keeps_both(chain):
    w = chain.weights("w", np.ascontiguousarray(G.T), PER_TENSOR)
    product = chain.through(chain.node("MatMul", [chain.through("x", C), w]), C)
    bias = chain.weights("b", np.array([1, -2, 3, 4], np.int8), (0.004, np.int8(-43)))
    chain.through(chain.node("Add", [product, bias]), C, "y")
    program = chain.meant((2, 6))
    assert kinds(program) == ["Quantize", "Conv", "QuantizedBinary", "Dequantize"]
    assert requantizes(one(program, Conv), x_meaning=C, y_meaning=C)
    added = one(program, QuantizedBinary).b
    assert program.constants[added.name].tolist() == [1, -2, 3, 4]
    assert means(added, (0.004, np.int8(-43)))


@pytest.mark.parametrize("op_type", ["Gemm", "MatMul"])
@pytest.mark.parametrize("bias", [None, BIAS], ids=["none", "int32"])
def test_a_product_that_is_not_quantized_adds_up_codes_and_gives_floats(op_type, bias):
    program = gemm(op_type, bias, quantized=False, transposed=False)
    assert kinds(program) == OF_CODES
    op, result = one(program, Conv), one(program, Dequantize)
    assert op.x.name == "x_q"
    assert isinstance(op.epilogue, RawAccumulator)
    assert np.array_equal(columns(program), G)
    assert bias_of(program) == in_units(bias)
    assert op.y == result.x
    assert means(result.x, (unit(PER_TENSOR), np.int32(0)))
    assert (result.y, result.y.dtype) == (program.outputs[0], DType.FLOAT32)


def test_a_float_bias_keeps_a_product_that_is_not_quantized_in_float():
    program = gemm(bias=FLOATS, quantized=False)
    assert kinds(program) == ["Quantize", "Dequantize", "Conv"]
    assert is_float(one(program, Conv))


def test_weights_that_are_transposed_behind_dequantize_keep_their_columns(chain):
    w = chain.node("Transpose", [chain.weights("w", G, PER_CHANNEL)], perm=[1, 0])
    chain.through(chain.node("MatMul", [chain.through("x", A), w]), B, "y")
    program = chain.meant((2, 6))
    assert kinds(program) == OF_CODES
    assert np.array_equal(columns(program), G)
    assert requantizes(one(program, Conv), PER_CHANNEL)


def product_of_scales(op_type, x_scale, w_scale):
    """The graph of a product whose node is called after "product"."""
    chain = Chain()
    w = chain.weights("w", W if op_type == "Conv" else np.ascontiguousarray(G.T), (w_scale, np.int8(0)))
    chain.through(chain.node(op_type, [chain.through("x", (x_scale, np.uint8(3))), w], "product"), B, "y")
    return chain.rewritten(X_SHAPE if op_type == "Conv" else (2, 6))


@pytest.mark.parametrize("op_type", ["Conv", "Gemm", "MatMul"])
def test_what_is_wrong_with_a_product_is_told_of_the_operator_that_the_user_wrote(op_type):
    [problem] = problems(check, product_of_scales(op_type, 1e30, 1e30))
    assert problem.where == f"node 'product_node' ({op_type})"
    assert problem.what == "the product of its scales is inf in float32"


@pytest.mark.parametrize(("length", "fits"), [(33025, True), (33027, False)])
def test_sums_of_products_of_computed_codes_beyond_int32_are_refused(chain, length, fits):
    x = chain.through("x", (0.02, np.uint8(0)))
    turned = chain.node("Transpose", [x], perm=[1, 0])
    chain.through(chain.node("MatMul", [x, turned], "product"), B, "y")
    graph = chain.rewritten((2, length))
    if fits:
        assert kinds(meaning_of(graph)).count("MatMul") == 1
        return
    with pytest.raises(ModelRejected, match="sums of 33027 products of codes can exceed int32"):
        check(graph)


@pytest.mark.parametrize("op_type", ["Conv", "Gemm", "MatMul"])
def test_scales_whose_product_underflows_are_the_least_one(op_type):
    by = one(meaning_of(product_of_scales(op_type, 1e-30, 1e-30)), Conv).epilogue
    assert by.scale.tolist() == [2.0**-126] * 4


@pytest.mark.parametrize("is_first", [False, True])
def test_a_product_with_a_vector_of_codes_is_one_with_a_matrix_of_codes(chain, is_first):
    x, vector = chain.through("x", A), chain.weights("w", np.array([1, -2, 3, 4], np.int8), PER_TENSOR)
    chain.through(chain.node("MatMul", [vector, x] if is_first else [x, vector], "r"), B, "y")
    program = chain.meant((4, 4))
    assert "FloatActivation" not in {type(op.epilogue).__name__ for op in program.operators if hasattr(op, "epilogue")}
    assert {"Conv", "MatMul"}.intersection(kinds(program))
    assert program.outputs[0].shape == (4,)
