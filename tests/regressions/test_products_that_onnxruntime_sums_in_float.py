"""Products of codes that nothing quantizes were claimed bit for bit where onnxruntime sums them up in float.

QGemm and MatMulIntegerToFloat have whole sums. Gemm and MatMul behind a Flatten, with int8 codes by uint8 weights or
without a zero point sum up float32 numbers, in an order of their own: the last bits differ, and verify failed.
"""

from __future__ import annotations

import numpy as np
import pytest
from judged import optimized
from onnx import ModelProto
from qdq import Chain

import qcgen
from qcgen.cli.report_text import exactness
from qcgen.verification import verify

SCALE, W_SCALE = 0.037, 0.0067


def product(
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


CASES = {
    "Gemm": (product("Gemm"), "QGemm"),
    "Gemm with a bias": (product("Gemm", bias=True), "QGemm"),
    "Gemm behind a Reshape": (product("Gemm", "Reshape", bias=True), "QGemm"),
    "MatMul": (product("MatMul"), "MatMulIntegerToFloat"),
    "MatMul of int8": (product("MatMul", x_type="int8"), "MatMulIntegerToFloat"),
    "MatMul without a zero point": (product("MatMul", zero=False), "MatMulIntegerToFloat"),
    "Gemm behind a Flatten, with a bias": (product("Gemm", "Flatten", bias=True), "MatMulNBits"),
    "Gemm behind a Relu, with a bias": (product("Gemm", "Relu", bias=True), "MatMulNBits"),
    "Gemm behind a Flatten and a Relu": (product("Gemm", "Flatten", "Relu", bias=True), "MatMulNBits"),
    "Gemm of int8 by uint8": (product("Gemm", x_type="int8", w_type="uint8"), "Gemm"),
    "MatMul of int8 by uint8": (product("MatMul", x_type="int8", w_type="uint8"), "MatMul"),
    "Gemm without a zero point": (product("Gemm", zero=False), "Gemm"),
    "MatMul behind a Flatten": (product("MatMul", "Flatten"), "MatMulNBits"),
    "MatMul that is quantized, too": (product("MatMul", codes="z"), "MatMul"),
    "Gemm that is quantized, too": (product("Gemm", codes="z"), "Gemm"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_product_is_named_if_onnxruntime_sums_it_up_in_float(name, tmp_path):
    model, runs = CASES[name]
    assert runs in optimized(model, tmp_path)
    artifact = qcgen.compile(model, name="last")
    is_float = runs in ("Gemm", "MatMul", "MatMulNBits")
    assert bool(artifact.report.inexact) == is_float
    assert ("1 in float, within a tolerance" in exactness([artifact.report])) == is_float
    assert ("in float: its last bits may be others" in artifact.files["last.c"]) == is_float


@pytest.mark.parametrize("name", CASES)
def test_verify_allows_such_a_sum_its_tolerance_and_others_none(name):
    model, runs = CASES[name]
    result = verify(qcgen.compile(model, name="last"), cases=3, oracle="onnxruntime")
    assert result.is_right
    assert result.judge.differing == 0
    assert ("float numbers within" in result.judge.criterion) == (runs in ("Gemm", "MatMul", "MatMulNBits"))
    assert result.criterion.startswith("every output equals the reference, bit for bit")
