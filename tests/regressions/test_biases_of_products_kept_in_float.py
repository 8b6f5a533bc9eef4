"""The bias of a Gemm, dequantized, was added as codes where onnxruntime computes in float and heeds its scale.

It does so behind a Flatten or a Relu, and where what alone reads the Gemm is a Relu or Clip that QuantizeLinear does
not do by itself; with any other node in between it makes a QGemm of numbers, which ignores the scale.
"""

from __future__ import annotations

import numpy as np
import pytest
from judged import judge, optimized
from onnx import ModelProto
from qdq import Chain

import qcgen

CONSTANTS = {
    "Clip": [np.float32(0), np.float32(6)],
    "Reshape": [np.int64([2, -1])],
}
WEIGHTS = np.random.default_rng(0).integers(-127, 128, (3, 4)).astype(np.int8)
UNIT = np.float32(0.1) * np.float32(0.01)


def product(
    op_type: str,
    before: str,
    behind: str,
    factor: float,
    *,
    zero: int = 4,
    codes: bool = True,
    bias: int = 900,
    step: float = 0.1,
) -> ModelProto:
    """A product of dequantized codes, with nodes before and behind it; the scale of its bias is off by ``factor``."""
    made = Chain()

    def through(names: str, tensor: str) -> str:
        for number, each in enumerate(names.split()):
            also = [made.constant(f"{tensor}_{number}_{i}", c) for i, c in enumerate(CONSTANTS.get(each, []))]
            tensor = made.node(each, [tensor, tensor] if each == "Concat" else [tensor, *also], **axis(each))
        return tensor

    shape = (2, 3, 1, 1) if op_type.startswith("Conv") else (2, 3)
    w = {"Conv": WEIGHTS.T.reshape(4, 3, 1, 1), "ConvTranspose": WEIGHTS.reshape(3, 4, 1, 1)}.get(op_type, WEIGHTS)
    x = through(before, made.dequantize("x", (0.1, np.int8(-5)), "values"))
    b = made.weights("b", np.int32([bias, -bias, 70, 0]), (np.float32(factor) * UNIT, np.int32(0)))
    w = made.weights("w", w, (0.01, np.int8(0)))
    inputs = [made.node("MatMul", [x, w]), b] if op_type == "MatMul" else [x, w, b]
    y = made.node("Add" if op_type == "MatMul" else op_type, inputs)
    y = through(behind, y)
    y = made.quantize(y, (step, np.int8(zero)), "y") if codes else made.node("Neg", [y], "y")
    return made.model(shape, opset=13, x_type="int8")


def axis(op_type: str) -> dict[str, int]:
    return {"axis": 0} if op_type == "Concat" else {}


X = np.random.default_rng(1).integers(-128, 128, (2, 3)).astype(np.int8)


def assert_close(model: ModelProto, *, is_float: bool) -> None:
    """Next to a tie, where onnxruntime adds up numbers, a code may be one off; numbers, in their last bits.

    All that is told; all that is not equals onnxruntime's.
    """
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": X.reshape(shape)}
    [wanted] = judge(model, feeds)
    artifact = qcgen.compile(model, name="net")
    [got] = artifact.load(["-O0"]).run(None, feeds)
    named = artifact.report.inexact or [node for node in artifact.report.nodes if node.in_float]
    assert named or not is_float
    if not named:
        assert np.array_equal(got, wanted)
    elif got.dtype == np.float32:
        assert np.allclose(got, wanted, rtol=1e-6, atol=1e-5)
    else:
        assert np.abs(got.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("factor", [1, 1.009, 3])
@pytest.mark.parametrize(
    ("op_type", "before", "behind"),
    [
        ("Gemm", "", ""),
        ("Gemm", "", "Relu"),
        ("Gemm", "Flatten", ""),
        ("MatMul", "", "Clip"),
        ("Conv", "", "Relu"),
        *(
            pytest.param(*case, marks=pytest.mark.all)
            for case in [
                ("Gemm", "", "Clip"),
                ("Gemm", "", "Relu Relu"),
                ("Gemm", "", "Relu Clip"),
                ("Gemm", "", "Relu Flatten"),
                ("Gemm", "", "Relu Reshape"),
                ("Gemm", "", "Relu Sigmoid"),
                ("Gemm", "", "Flatten"),
                ("Gemm", "", "Reshape"),
                ("Gemm", "", "Concat"),
                ("Gemm", "", "Sigmoid"),
                ("Gemm", "", "Flatten Relu"),
                ("Gemm", "Reshape", "Relu"),
                ("Gemm", "Relu", ""),
                ("MatMul", "", "Relu"),
                ("MatMul", "Flatten", ""),
                ("Conv", "Relu", ""),
            ]
        ),
    ],
)
def test_the_scale_of_a_bias_counts_where_onnxruntime_heeds_it(op_type, before, behind, factor, tmp_path):
    for codes in (True, False) if op_type != "Conv" else (True,):
        model = product(op_type, before, behind, factor, codes=codes)
        ran = optimized(model, tmp_path)
        if "MatMulNBits" in ran:  # which rounds the numbers that it multiplies unless a session is told not to
            continue
        assert_close(model, is_float=not {"Conv", "FusedConv", "FusedGemm", "Gemm"}.isdisjoint(ran))


@pytest.mark.parametrize("behind", ["Relu", "Relu Reshape"])
def test_a_relu_that_the_codes_do_leaves_a_gemm_in_integers(behind):
    model = product("Gemm", "", behind, 3, zero=-128)
    assert not [node for node in qcgen.compile(model, name="net").report.nodes if node.in_float]
    assert_close(model, is_float=False)


@pytest.mark.parametrize(
    ("op_type", "before", "behind", "codes"),
    [
        ("Conv", "", "Relu", True),
        ("ConvTranspose", "", "", True),
        ("Gemm", "", "Relu", True),
        ("Gemm", "", "Relu", False),
        ("Gemm", "", "", True),
        ("Conv", "", "", True),
    ],
)
def test_only_sums_of_codes_wrap(op_type, before, behind, codes):
    """Sums beyond int32 wrapped in the C where those of onnxruntime are numbers."""
    model = product(op_type, before, behind, 1, codes=codes, bias=2**31 - 1, step=20000.0)
    assert_close(model, is_float=bool(behind) or op_type == "ConvTranspose")
