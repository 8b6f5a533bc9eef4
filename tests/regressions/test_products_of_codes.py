"""Products of codes: what onnxruntime sums up in integers, and what in float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from batch import require
from judged import judge, optimized
from models import graph_model
from onnx import ModelProto, helper
from qdq import Chain, one
from tools import require_modules

import qcgen
from qcgen.cli.report_text import exactness
from qcgen.ir.program import Conv, FloatActivation
from qcgen.verification import verify

# Weights quantized along the axis that is summed up: of square ones onnxruntime takes the scales for the columns'.
#
# Up to 271 of 320 outputs differed from what ONNX defines, and qcgen verify blamed the C.
TERMS = {"Gemm": 0, "transposed Gemm": 1, "MatMul": 0}


def product_of_weights(kind, axis, columns=8):
    """Codes times 8-bit weights with scales along an axis."""
    shape = (columns, 8) if kind == "transposed Gemm" else (8, columns)
    draw = np.random.default_rng(1)
    constants = {
        "s": np.float32(0.02), "z": np.int8(3), "w": draw.integers(-60, 60, shape).astype(np.int8),
        "ws": draw.uniform(0.002, 0.012, shape[axis]).astype(np.float32), "wz": np.zeros(shape[axis], np.int8),
    }  # fmt: skip
    attributes = {"transB": 1} if kind == "transposed Gemm" else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["numbers"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["weights"], axis=axis),
        helper.make_node(kind.split()[-1], ["numbers", "weights"], ["y"], name="product", **attributes),
    ]
    return graph_model(nodes, {"x": ("int8", (5, 8))}, {"y": None}, constants)


def judged_by(model):
    require("gcc")
    require_modules("onnxruntime")
    verification = verify(qcgen.compile(model), cases=2, flags=("-O0",), sums=False)
    assert verification.is_right
    assert verification.judge.outputs
    return verification.judge


@pytest.mark.parametrize("kind", TERMS)
def test_onnxruntime_does_not_judge_products_that_it_misreads(kind):
    judge = judged_by(product_of_weights(kind, TERMS[kind]))
    assert judge.oracle == "onnx"
    [note] = judge.notes
    assert "onnxruntime misreads node 'product'" in note


@pytest.mark.parametrize("kind", TERMS)
def test_it_judges_those_that_have_a_scale_for_each_column(kind):
    assert judged_by(product_of_weights(kind, 1 - TERMS[kind])).oracle == "onnxruntime"
    if kind != "MatMul":  # onnxruntime cannot run that one
        assert judged_by(product_of_weights(kind, TERMS[kind], columns=13)).oracle == "onnxruntime"


# MatMul of other than two axes, then Add of a bias that is dequantized, is a QGemm to onnxruntime: it adds the codes.
#
# The C computed it in float, by the scale that the bias has: 16 codes off where this is ten times that of the sums.
# So it did in a Gemm of weights with a scale for each column that nothing quantizes.
MATRIX_3 = np.random.default_rng(0).integers(-127, 128, (3, 4)).astype(np.int8)
BIAS_3 = np.array([900, -700, 50, 0], np.int32)


def product_and_bias(shape, factor, behind="", w_scale=0.01, op_type="MatMul", **attributes):
    made = Chain()
    x = made.dequantize("x", (0.1, np.int8(5)), "values")
    w = made.weights("w", MATRIX_3, (w_scale, np.zeros(np.shape(w_scale), np.int8)), axis=1)
    b = made.weights("b", BIAS_3, (np.float32(factor * 0.001), np.int32(0)))
    if op_type == "Gemm":
        y = made.node("Gemm", [x, w, b], **attributes)
    else:
        y = made.node("Add", [b, made.node("MatMul", [x, w])])
    y = made.node(behind, [y]) if behind else y
    return made, y, shape


def compared(made, y, shape, codes):
    if codes:
        made.quantize(y, (0.5, np.int8(4)), "y")
    else:
        made.node("Identity", [y], "y")
    model = made.model(shape, opset=13, x_type="int8")
    artifact = qcgen.compile(model, name="net")
    feeds = {"x": np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)}
    return model, artifact.report, artifact.load(["-O0"]).run(None, feeds)[0], judge(model, feeds)[0]


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("factor", [1, 1.005, 10])
@pytest.mark.parametrize(
    ("shape", "behind"),
    [((1, 2, 3), ""), *(pytest.param(*case, marks=pytest.mark.all) for case in [((2, 1, 2, 3), "Neg"), ((3,), "")])],
)
def test_the_codes_of_the_bias_are_added(shape, behind, factor, codes, tmp_path):
    model, report, got, wanted = compared(*product_and_bias(shape, factor, behind), codes)
    assert "QGemm" in optimized(model, tmp_path)
    assert np.array_equal(got, wanted)
    assert behind or not report.inexact


@pytest.mark.parametrize("factor", [1, 10])
@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3)])
def test_so_they_are_to_numbers_of_weights_with_a_scale_for_each_column(shape, factor, tmp_path):
    model, report, got, wanted = compared(
        *product_and_bias(shape, factor, w_scale=np.float32([0.01, 0.02, 0.03, 0.04])), False
    )
    assert "QGemm" in optimized(model, tmp_path)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-5)
    assert report.inexact


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_factor_keeps_a_gemm_with_a_bias_in_float(alpha, tmp_path):
    model, _, got, wanted = compared(*product_and_bias((2, 3), 3, op_type="Gemm", alpha=alpha), False)
    assert ("QGemm" in optimized(model, tmp_path)) == (alpha == 1)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-5)


# onnxruntime computes these in float, which was not told; a bias that it adds as numbers was added as codes.
X, UNIT = (0.1, np.uint8(0)), np.float32(0.1) * np.float32(0.01)
WEIGHTS = np.random.default_rng(5).integers(-127, 128, (6, 8)).astype(np.int8)
BIAS = np.array([100, -200, 3, 0, 70, -8], np.int32)


def listed(number):
    """Number and zero point of a tensor whose scale is a list."""
    return np.array([number], np.float32), np.array([7], np.int8)


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
@pytest.mark.parametrize("place", ["a", "y", None])
def test_sums_and_products_with_a_scale_in_a_list(op_type, place):
    chain = Chain()
    a = chain.through("x", listed(0.1) if place == "a" else (0.1, np.int8(7)))
    b = chain.through(chain.node("Neg", ["x"]), (0.1, np.int8(-7)))
    chain.through(chain.node(op_type, [a, b], "r"), listed(0.2) if place == "y" else (0.2, np.int8(7)), "y")
    assert chain.meant((1, 8)).in_float == ({"r_node"} if place else set())


def gemm(w_zero_point, factor, readers=1, w=WEIGHTS):
    chain = Chain()
    b = chain.weights("b", BIAS, (np.float32(factor) * UNIT, np.int32(0)))
    weights = chain.weights("w", w, (0.01, w_zero_point))
    result = chain.node("Gemm", [chain.through("x", X), weights, b], "r", transB=1)
    outputs = [chain.through(result, (0.02, np.uint8(128 + number)), f"y{number}") for number in range(readers)]
    return chain.meant((2, 8), outputs)


def test_a_gemm_without_zero_points_has_a_bias_in_its_own_units():
    program = gemm(None, 3)
    assert program.in_float == {"r_node"}
    assert one(program, Conv).bias.tolist() == (BIAS * 3).tolist()
    assert gemm(None, 1).in_float == {"r_node"}


def test_the_bias_of_an_integer_gemm_is_taken_in_any_units():
    program = gemm(np.int8(0), 3)
    assert program.in_float == set()
    assert one(program, Conv).bias.tolist() == BIAS.tolist()


def test_a_gemm_of_types_without_a_kernel_has_a_bias_in_its_own_units():
    chain = Chain()
    b = chain.weights("b", BIAS, (np.float32(3) * UNIT, np.int32(0)))
    w = chain.weights("w", np.abs(WEIGHTS).astype(np.uint8), (0.01, np.uint8(0)))
    result = chain.node("Gemm", [chain.through("x", (0.1, np.int8(0))), w, b], "r", transB=1)
    chain.through(result, (0.02, np.int8(0)), "y")
    program = chain.meant((2, 8))
    assert program.in_float == {"r_node"}
    assert one(program, Conv).bias.tolist() == (BIAS * 3).tolist()


def test_a_gemm_that_is_quantized_twice_is_one_of_numbers_if_its_bias_has_other_units():
    assert isinstance(one(gemm(np.int8(0), 3, readers=2), Conv).epilogue, FloatActivation)
    assert not isinstance(one(gemm(np.int8(0), 1, readers=2), Conv).epilogue, FloatActivation)


# A MatMul of two dequantized tensors was summed in float32 where onnxruntime sums up the codes.
#
# It makes MatMulIntegerToFloat of it. Of 45 results 39 differed, which were named; if the first operand was constant,
# they were claimed bit for bit, as were products with weights behind which a computed vector is added.
CODES = {"uint8": np.uint8(3), "int8": np.int8(7)}
ROW, IMAGE = (5, 64), (3, 5, 64)
MATRIX, MATRICES = (64, 9), (3, 64, 9)
RNG = np.random.default_rng(2)


def random(element: str, shape: tuple[int, ...]) -> np.ndarray:
    return (
        RNG.normal(size=shape).astype(np.float32) if element == "float" else RNG.integers(0, 256, shape).astype(element)
    )


def product_of_codes(
    a: tuple[int, ...] = IMAGE,
    b: tuple[int, ...] = MATRICES,
    types: tuple[str, str] = ("uint8", "int8"),
    constant: str = "",
    columns: bool = False,
    zero: bool = True,
    added: tuple[int, ...] | None = None,
    behind: Callable[[Chain, str], object] | None = None,
    turns: str = "",
) -> ModelProto:
    """Codes a and b, dequantized, their product, and what stands behind it."""
    made, inputs, operands = Chain(), {}, []
    for name, element, shape in zip("ab", types, (a, b), strict=True):
        zero_point = CODES[element] if zero else None
        meaning = (0.02 if name == "a" else 0.05, zero_point)
        if name in constant:
            made.constant(name, random(element, shape))
            if columns:
                meaning = (RNG.uniform(0.01, 0.05, shape[-1]), np.zeros(shape[-1], element))
        else:
            inputs[name] = (element, shape)
        operand = made.dequantize(name, meaning, axis=len(shape) - 1)
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        operands.append(made.node("Transpose", [operand], perm=order) if name in turns else operand)
    y = made.node("MatMul", operands, "product")
    if added is not None:
        inputs["c"] = ("float", added)
        y = made.node("Add", [y, "c"])
    if behind is not None:
        behind(made, y)
    made.node("Relu", [y], "y")
    outputs = {name: None for node in made.nodes for name in node.output if name in "yz"}
    return graph_model(made.nodes, inputs, outputs, made.constants, opset=13)


WHOLE = {
    "of two types": product_of_codes(),
    "of uint8": product_of_codes(types=("uint8", "uint8")),
    "of int8": product_of_codes(types=("int8", "int8")),
    "without zero points": product_of_codes(zero=False),
    "of matrices": product_of_codes(ROW, MATRIX),
    "of batches, broadcast": product_of_codes((2, 1, 5, 64), MATRICES),
    "of a vector": product_of_codes((64,), MATRIX),
    "by a vector": product_of_codes(ROW, (64,)),
    "by weights": product_of_codes(IMAGE, MATRIX, constant="b"),
    "by weights with scales of columns": product_of_codes(IMAGE, MATRIX, constant="b", columns=True),
    "of rows by weights with scales of columns": product_of_codes(ROW, MATRIX, constant="b", columns=True),
    "by constant matrices": product_of_codes(constant="b"),
    "of constants": product_of_codes(types=("uint8", "uint8"), constant="a"),
    "turned": product_of_codes((3, 64, 5), (3, 9, 64), turns="ab"),
    "a number is added": product_of_codes(ROW, MATRIX, added=(1,)),
    "matrices are added": product_of_codes(ROW, MATRIX, added=(1, 5, 9)),
    "rows are added to matrices": product_of_codes(added=(9,)),
    "scaled": product_of_codes(behind=lambda made, y: made.node("Mul", [y, made.constant("s", np.float32(0.3))], "z")),
}
IN_ORDER = {
    "of int8 by uint8": product_of_codes(types=("int8", "uint8")),
    "quantized, too": product_of_codes(behind=lambda made, y: made.quantize(y, (0.3, np.uint8(9)), "z")),
}
"""What onnxruntime sums up in float, in the order of float products."""
IN_FLOAT = {
    "rows are added": product_of_codes(ROW, MATRIX, added=(9,)),
    "one row is added": product_of_codes(ROW, MATRIX, added=(1, 9)),
    "a column is added": product_of_codes(ROW, MATRIX, added=(5, 1)),
    "a matrix is added": product_of_codes(ROW, MATRIX, added=(5, 9)),
    "rows are added to an image": product_of_codes(IMAGE, MATRIX, added=(9,)),
    "rows are added to a product by weights": product_of_codes(ROW, MATRIX, constant="b", added=(9,)),
}


@pytest.mark.parametrize("name", [*WHOLE, *IN_ORDER, *IN_FLOAT])
def test_a_product_of_codes_is_onnxruntimes_or_named(name, tmp_path):
    require("gcc")
    model = {**WHOLE, **IN_ORDER, **IN_FLOAT}[name]
    assert ("MatMulIntegerToFloat" in optimized(model, tmp_path)) == (name in WHOLE)
    artifact = qcgen.compile(model, name="net")
    assert bool(artifact.report.inexact) == (name in IN_FLOAT)
    feeds = {x.name: random(x.dtype.value, x.shape) for x in artifact.program.inputs}
    for got, wanted in zip(artifact.load().run(None, feeds), judge(model, feeds), strict=True):
        assert np.allclose(got, wanted, rtol=0, atol=1 if got.dtype == np.uint8 else 1e-4)
        assert name in IN_FLOAT or np.array_equal(got, wanted)


def test_the_operator_that_onnxruntime_makes_of_it_may_stand_in_the_model():
    require("gcc")
    made = Chain()
    scales = [made.constant(f"{name}_scale", np.float32(scale)) for name, scale in (("a", 0.02), ("b", 0.05))]
    zeros = [made.constant(f"{name}_zero", zero) for name, zero in (("a", CODES["uint8"]), ("b", CODES["int8"]))]
    made.node("MatMulIntegerToFloat", ["a", "b", *scales, *zeros, "c"], "y", domain="com.microsoft")
    inputs = {"a": ("uint8", IMAGE), "b": ("int8", MATRICES), "c": ("float", (9,))}
    model = graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13, opsets={"com.microsoft": 1})
    feeds = {name: random(*of) for name, of in inputs.items()}
    artifact = qcgen.compile(model, name="net")
    assert not artifact.report.inexact
    assert np.array_equal(artifact.load().run(None, feeds)[0], judge(model, feeds)[0])


# Products of codes that nothing quantizes were claimed bit for bit where onnxruntime sums them up in float.
#
# QGemm and MatMulIntegerToFloat have whole sums. Gemm and MatMul behind a Flatten, with int8 codes by uint8 weights or
# without a zero point sum up float32 numbers, in an order of their own: the last bits differ, and verify failed.
SCALE, W_SCALE = 0.037, 0.0067


def last_layer(
    op_type: str,
    *movements: str,
    x_type: str = "uint8",
    w_type: str = "int8",
    zero: bool = True,
    bias: bool = False,
    codes: str = "",
) -> ModelProto:
    """The last layer of a classifier: 64 codes, moved, times a matrix."""
    made, rng = Chain(), np.random.default_rng(3)
    x = made.dequantize("x", (SCALE, np.array(3, x_type)))
    for each in movements:
        also = [made.constant("shape", np.int64([3, 64]))] if each == "Reshape" else []
        x = made.node(each, [x, *also])
    low = 0 if w_type == "uint8" else -127
    w = made.constant("w", rng.integers(low, 128, (64, 9)).astype(w_type))
    inputs = [x, made.dequantize(w, (W_SCALE, np.array(0, w_type) if zero else None))]
    if bias:
        scale = np.float32(SCALE) * np.float32(W_SCALE)
        inputs.append(made.weights("b", rng.integers(-999, 999, 9).astype(np.int32), (scale, np.int32(0))))
    made.node(op_type, inputs, "y")
    if codes:
        made.quantize("y", (0.3, np.array(5, x_type)), codes)
    shape = (3, 64) if "Flatten" not in movements and "Reshape" not in movements else (3, 4, 4, 4)
    return made.model(shape, ("y", codes) if codes else ("y",), opset=13, x_type=x_type)


LAST_LAYERS = {
    "Gemm": (last_layer("Gemm"), "QGemm"),
    "Gemm with a bias": (last_layer("Gemm", bias=True), "QGemm"),
    "Gemm behind a Reshape": (last_layer("Gemm", "Reshape", bias=True), "QGemm"),
    "MatMul": (last_layer("MatMul"), "MatMulIntegerToFloat"),
    "MatMul of int8": (last_layer("MatMul", x_type="int8"), "MatMulIntegerToFloat"),
    "MatMul without a zero point": (last_layer("MatMul", zero=False), "MatMulIntegerToFloat"),
    "Gemm behind a Flatten, with a bias": (last_layer("Gemm", "Flatten", bias=True), "MatMulNBits"),
    "Gemm behind a Relu, with a bias": (last_layer("Gemm", "Relu", bias=True), "MatMulNBits"),
    "Gemm behind a Flatten and a Relu": (last_layer("Gemm", "Flatten", "Relu", bias=True), "MatMulNBits"),
    "Gemm of int8 by uint8": (last_layer("Gemm", x_type="int8", w_type="uint8"), "Gemm"),
    "MatMul of int8 by uint8": (last_layer("MatMul", x_type="int8", w_type="uint8"), "MatMul"),
    "Gemm without a zero point": (last_layer("Gemm", zero=False), "Gemm"),
    "MatMul behind a Flatten": (last_layer("MatMul", "Flatten"), "MatMulNBits"),
    "MatMul that is quantized, too": (last_layer("MatMul", codes="z"), "MatMul"),
    "Gemm that is quantized, too": (last_layer("Gemm", codes="z"), "Gemm"),
}


@pytest.mark.parametrize("name", LAST_LAYERS)
def test_a_last_layer_is_named_if_onnxruntime_sums_it_up_in_float(name, tmp_path):
    model, runs = LAST_LAYERS[name]
    assert runs in optimized(model, tmp_path)
    artifact = qcgen.compile(model, name="last")
    is_float = runs in ("Gemm", "MatMul", "MatMulNBits")
    assert bool(artifact.report.inexact) == is_float
    assert ("1 in float, within a tolerance" in exactness([artifact.report])) == is_float
    assert ("in float: its last bits may be others" in artifact.files["last.c"]) == is_float


@pytest.mark.parametrize("name", LAST_LAYERS)
def test_verify_allows_such_a_sum_its_tolerance_and_others_none(name):
    model, runs = LAST_LAYERS[name]
    result = verify(qcgen.compile(model, name="last"), cases=3, oracle="onnxruntime")
    assert result.is_right
    assert result.judge.differing == 0
    assert ("float numbers within" in result.judge.criterion) == (runs in ("Gemm", "MatMul", "MatMulNBits"))
    assert result.criterion.startswith("every output equals the reference, bit for bit")
