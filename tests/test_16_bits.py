"""Activations of 16 bits: the codes of onnxruntime where nothing depends on an order, else what they mean."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from gallery_networks import network_16_bits
from onnx import helper
from qdq import Chain
from wide_recorded import IN_ORDER, OPERATORS, TYPES, Wide, X, Y, codes, feed, model, weights, zero_point

import qcgen
from qcgen import arithmetic
from qcgen.cli.report_text import exactness
from qcgen.ir.program import Conv, Quantize, RoundOnce
from qcgen.reference import evaluate
from qcgen.verification import verify

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "wide.npz")
CASES = [(name, dtype) for name in OPERATORS for dtype in TYPES]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_codes_are_those_of_onnxruntime(name, dtype):
    x, y = feed(name, dtype), RECORDED[f"{name}.{dtype}"].astype(np.int32)
    found = qcgen.compile(model(name, dtype), name="recorded").load(("-O0",)).run(None, {"x": x})[0].astype(np.int32)
    # In float32 a sum of numbers of 16 bits is not exact: about one code in 1000 is another one, its neighbour.
    assert np.count_nonzero(found != y) <= (1 if name in IN_ORDER else 0)
    assert np.abs(found - y).max() <= 1


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_node_that_may_be_a_code_off_is_named(name, dtype):
    artifact = qcgen.compile(model(name, dtype), name="recorded")
    named = [node.name for node in artifact.report.nodes if node.in_float]
    assert bool(named) == (name in IN_ORDER)
    assert ("one code more or less" in exactness([artifact.report])) == (name in IN_ORDER)
    assert ("computes this node in float" in artifact.files["recorded.c"]) == (name in IN_ORDER)


@pytest.mark.parametrize("x_type", ["uint8", "int16"])
def test_a_transposed_convolution_to_or_from_16_bits_is_named(x_type):
    c = Chain()
    inputs = [c.dequantize("x", (X, np.array(1, x_type))), c.weights("w", weights((4, 5, 2, 2)), (0.01, np.int8(0)))]
    c.quantize(c.node("ConvTranspose", inputs), (Y, np.array(0, "uint8" if x_type == "int16" else "int16")), "y")
    report = qcgen.compile(c.model((1, 4, 3, 3), opset=21, x_type=x_type), name="m").report
    assert exactness([report]) == "exact: 0 of 1 node bit for bit as onnxruntime; 1 one code more or less next to a tie"


def test_what_is_recorded_is_what_is_compared():
    assert set(RECORDED) == {"version", *(f"{name}.{dtype}" for name, dtype in CASES)}


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_quantizers_of_older_opsets_write_com_microsoft(domain):
    whole = model("conv", "int16")
    proto = OPERATORS["conv"](Wide("int16"))
    for node in proto.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = domain
    if domain:
        proto.opset_import[0].version = 13
        proto.opset_import.append(helper.make_opsetid(domain, 1))
    [one], [other] = (qcgen.compile(each, name="m").program.operators for each in (whole, proto))
    assert isinstance(one, Conv)
    assert isinstance(other, Conv)
    assert isinstance(one.epilogue, RoundOnce)
    assert isinstance(other.epilogue, RoundOnce)
    assert np.array_equal(one.epilogue.multiplier, other.epilogue.multiplier)


def rounded(value: Fraction) -> int:
    return round(value)  # half to even


@pytest.mark.parametrize("scale", [2.0**-9, 2.0**-16, 3.1e-5, 0.7, 5e4, 1e30, 1e-30])
def test_a_sum_is_multiplied_and_rounded_once(scale):
    largest = np.array([2**31])
    multiplier, shift = arithmetic.exact_multiplier(np.float32(scale), np.float32([1]), np.float32(1), largest)
    sums = np.array([0, 1, -1, 2, 255, 256, 257, 768, -256, -768, 32768, 98304, 2**31 - 1, -(2**31), 123456789])
    found = arithmetic.round_once(sums, RoundOnce(multiplier, shift, -7, -32768, 32767))
    exact = [rounded(Fraction(float(np.float32(scale))) * int(total)) - 7 for total in sums]
    assert found.tolist() == np.clip(exact, -32768, 32767).tolist()


def dense(dtype: str, weights: np.ndarray, scale: float, y_type: str, bias: np.ndarray) -> bytes:
    """A Gemm of one row; the zero point of the weights is their type's middle or 0."""
    c = Wide(dtype)
    low = np.array(200 if weights.dtype == np.uint8 else 0, weights.dtype)
    w = c.dequantize(c.constant("w", weights), (np.float32(scale), low))
    value = c.node("Gemm", [c.x, w, c.constant("bias", bias.astype(np.float32))])
    c.quantize(value, (np.float32(0.01), np.array(3, y_type)), "y")
    return bytes(c.model((1, len(weights)), opset=21, x_type=dtype).SerializeToString())


EXTREMES = {
    "sums beyond int32": (np.full((700, 3), 127, np.int8), 1e-4, "int16"),
    "sums beyond int32 of corrected weights": (np.arange(2100).astype(np.uint8).reshape(700, 3), 1e-4, "uint16"),
    "codes of 8 bits": (np.arange(-60, 60).astype(np.int8).reshape(40, 3), 1e-4, "int8"),
    "a huge scale": (np.arange(-60, 60).astype(np.int8).reshape(40, 3), 1e9, "int16"),
    "a tiny scale": (np.arange(-60, 60).astype(np.int8).reshape(40, 3), 1e-25, "uint16"),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", EXTREMES)
def test_the_c_gives_the_outputs_of_the_reference_at_extremes(name, dtype):
    weights, scale, y_type = EXTREMES[name]
    bias = np.array([0.1, -2.0, 0.0]) if scale > 1e-20 else np.zeros(3)
    artifact = qcgen.compile(dense(dtype, weights, scale, y_type, bias), name="extreme")
    assert any(isinstance(op, Conv) and isinstance(op.epilogue, RoundOnce) for op in artifact.program.operators)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    ends = [np.full((1, len(weights)), end, dtype) for end in (low, high, int(zero_point(dtype)))]
    compiled = artifact.load(("-O0",))
    for x in (*ends, codes(dtype, (1, len(weights)))):
        assert np.array_equal(compiled.run(None, {"x": x})[0], evaluate(artifact.program, {"x": x})["y"])


def test_sums_that_fit_int32_are_taken_in_int32():
    weights = np.full((700, 1), 127, np.int8)
    large, small = (
        qcgen.compile(dense("int16", w, 1e-4, "int16", np.zeros(1)), name="m") for w in (weights, weights[:9])
    )
    assert "int64_t acc" in large.files["m.c"]
    assert "int64_t acc" not in small.files["m.c"]


def test_the_network_of_the_gallery_gives_the_outputs_of_the_reference():
    artifact = qcgen.compile(network_16_bits(), name="network")
    assert sum(isinstance(op, Quantize) for op in artifact.program.operators) == 1  # the rest is done to codes
    x = np.random.RandomState(1).normal(0, 3, (1, 2, 4, 4)).astype(np.float32)
    y = artifact.load(("-O0",)).run(None, {"x": x})[0]
    assert np.array_equal(y, evaluate(artifact.program, {"x": x})["y"])


def test_what_has_no_form_for_16_bits_stays_in_float():
    c = Wide("int16")
    c.quantize(c.node("Sigmoid", [c.x]), (np.float32(2**-15), np.array(0, np.int16)), "y")
    artifact = qcgen.compile(c.model((2, 5), opset=21, x_type="int16"), name="m")
    assert [op.op_type for op in artifact.program.operators] == ["DequantizeLinear", "Sigmoid", "QuantizeLinear"]


@pytest.mark.parametrize(("size", "is_float"), [(128, False), (129, True)])
def test_means_of_images_whose_sums_may_leave_int32_stay_in_float(size, is_float):
    c = Wide("uint16")
    model = c.finished(c.node("GlobalAveragePool", [c.x]), (1, 2, size, size))
    artifact = qcgen.compile(model, name="m")
    assert any(isinstance(op, Quantize) for op in artifact.program.operators) == is_float
    if not is_float:
        ends = np.zeros((1, 2, size, size), np.uint16)
        ends[:, 1] = 65535
        expected = evaluate(artifact.program, {"x": ends})["y"]
        assert np.array_equal(artifact.load(("-O0",)).run(None, {"x": ends})[0], expected)


def test_products_of_two_computed_matrices_of_16_bits_are_computed_in_float():
    """The codes of onnxruntime 1.32.0."""
    c = Wide("int16")
    c.quantize(c.node("MatMul", [c.x, c.x]), (np.float32(0.0007), np.array(-5, np.int16)), "y")
    artifact = qcgen.compile(c.model((3, 3), opset=21, x_type="int16"), name="m")
    assert [op.op_type for op in artifact.program.operators] == ["DequantizeLinear", "MatMul", "QuantizeLinear"]
    x = np.int16([[31000, -2017, 5], [-32768, 12000, 777], [3, 900, -15000]])
    [y] = artifact.load().run(None, {"x": x})
    assert y.tolist() == [[32767, -5568, 264], [-32768, 15727, -1000], [-2591, -264, 16388]]


def test_ties_go_to_the_even_code_in_the_c_too():
    c = Chain()
    x = c.dequantize("x", (np.float32(2**-12), np.array(3, np.int16)))
    w = c.dequantize(c.constant("w", np.int8([[1, -1, 3]])), (np.float32(2**-3), np.array(0, np.int8)))
    c.quantize(c.node("MatMul", [x, w]), (np.float32(2**-13), np.array(5, np.int16)), "y")
    artifact = qcgen.compile(c.model((64, 1), opset=21, x_type="int16"), name="ties")
    codes_in = np.arange(-30, 34, dtype=np.int16)[:, None]
    expected = np.rint((codes_in.astype(np.int64) - 3) * [1, -1, 3] / 4).astype(np.int64) + 5
    assert artifact.load(("-O0",)).run(None, {"x": codes_in})[0].tolist() == expected.tolist()


def test_verify_says_where_the_reference_is_not_onnxruntimes_own_arithmetic():
    own = "; sums that become codes of 16 bits are rounded once, not in float32"
    assert verify(qcgen.compile(network_16_bits(), name="network"), cases=1, sums=False).reference.endswith(own)
