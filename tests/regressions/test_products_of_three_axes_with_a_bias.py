"""MatMul of other than two axes, then Add of a bias that is dequantized, is a QGemm to onnxruntime: it adds the codes.

The C computed it in float, by the scale that the bias has: 16 codes off where this is ten times that of the sums. So it
did in a Gemm of weights with a scale for each column that nothing quantizes.
"""

import numpy as np
import pytest
from judged import judge, optimized
from qdq import Chain

import qcgen

WEIGHTS = np.random.default_rng(0).integers(-127, 128, (3, 4)).astype(np.int8)
BIAS = np.array([900, -700, 50, 0], np.int32)


def product(shape, factor, behind="", w_scale=0.01, op_type="MatMul", **attributes):
    made = Chain()
    x = made.dequantize("x", (0.1, np.int8(5)), "values")
    w = made.weights("w", WEIGHTS, (w_scale, np.zeros(np.shape(w_scale), np.int8)), axis=1)
    b = made.weights("b", BIAS, (np.float32(factor * 0.001), np.int32(0)))
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
    model, report, got, wanted = compared(*product(shape, factor, behind), codes)
    assert "QGemm" in optimized(model, tmp_path)
    assert np.array_equal(got, wanted)
    assert behind or not report.inexact


@pytest.mark.parametrize("factor", [1, 10])
@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3)])
def test_so_they_are_to_numbers_of_weights_with_a_scale_for_each_column(shape, factor, tmp_path):
    model, report, got, wanted = compared(*product(shape, factor, w_scale=np.float32([0.01, 0.02, 0.03, 0.04])), False)
    assert "QGemm" in optimized(model, tmp_path)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-5)
    assert report.inexact


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_factor_keeps_a_gemm_with_a_bias_in_float(alpha, tmp_path):
    model, _, got, wanted = compared(*product((2, 3), 3, op_type="Gemm", alpha=alpha), False)
    assert ("QGemm" in optimized(model, tmp_path)) == (alpha == 1)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-5)
