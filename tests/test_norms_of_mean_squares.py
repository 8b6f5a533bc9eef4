"""RMSNormalization, and onnxruntime's normalizations of sums: against onnxruntime, equal though floats."""

import numpy as np
import pytest
from batch import require
from judged import judge, optimized
from marks import some_at_first
from models import MICROSOFT, graph_model
from onnx import helper
from qdq import Chain

import qcgen
from qcgen.reference import evaluate

FUSING = ("-O3", "-march=native", "-ffp-contract=fast")
"""Flags that allow a product and a sum to become one operation."""
LENGTHS = (1, 5, 15, 16, 17, 33, 100)
SKIPS = {
    "SkipLayerNormalization": ("g",),
    "SkipLayerNormalization, beta": ("g", "b"),
    "SkipLayerNormalization, beta and bias": ("g", "b", "c"),
    "SkipLayerNormalization, bias": ("g", "", "c"),
    "SkipSimplifiedLayerNormalization": ("g",),
    "SkipSimplifiedLayerNormalization, bias": ("g", "c"),
}
rng = np.random.default_rng(3)


def drawn(*shape):
    return rng.normal(0, 2, shape).astype(np.float32)


def assert_equal(model, *shapes):
    require("gcc")
    feeds = {f"x{number}": drawn(*shape) for number, shape in enumerate(shapes)}
    artifact = qcgen.compile(model, name="net")
    assert artifact.report.inexact
    wanted, program = judge(model, feeds), evaluate(artifact.program, feeds)
    for found, name, expected in zip(artifact.load(FUSING).run(None, feeds), program, wanted, strict=True):
        np.testing.assert_array_equal(program[name], expected)
        np.testing.assert_array_equal(found, expected)


def of_floats(nodes, constants, *shapes, outputs=("y",), opset=17):
    inputs = {f"x{number}": ("float", shape) for number, shape in enumerate(shapes)}
    return graph_model(
        nodes, inputs, dict.fromkeys(outputs), constants, opset=opset, ir_version=10, opsets={MICROSOFT: 1}
    )


@pytest.mark.parametrize("length", some_at_first(LENGTHS, 5, 33))
@pytest.mark.parametrize(("op_type", "opset"), [("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17)])
def test_rows_are_onnxruntimes(op_type, opset, length):
    node = helper.make_node(op_type, ["x0", "g"], ["y"], epsilon=0.01)
    shape = (2, 30, length)
    assert_equal(of_floats([node], {"g": drawn(length)}, shape, opset=opset), shape)


def test_several_axes_are_a_row():
    node = helper.make_node("RMSNormalization", ["x0", "g"], ["y"], axis=-2)
    assert_equal(of_floats([node], {"g": drawn(4, 9)}, (3, 4, 9), opset=23), (3, 4, 9))


@pytest.mark.parametrize("length", some_at_first(LENGTHS, 15))
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("name", SKIPS)
def test_sums_are_onnxruntimes(name, is_read, length):
    outputs = ["y", "", "", "s"] if is_read else ["y"]
    inputs = ["x0", "x1", *SKIPS[name]]
    node = helper.make_node(name.partition(",")[0], inputs, outputs, domain=MICROSOFT, epsilon=1e-3)
    constants, shape = {each: drawn(length) for each in SKIPS[name] if each}, (2, 9, length)
    model = of_floats([node], constants, shape, shape, outputs=filter(None, outputs))
    assert_equal(model, shape, shape)


@pytest.mark.parametrize("op_type", ["RMSNormalization", "SimplifiedLayerNormalization"])
def test_the_sum_before_rows_is_onnxruntimes(op_type, tmp_path):
    """It joins neither with the Add, as it joins LayerNormalization."""
    nodes = [helper.make_node("Add", ["x0", "x1"], ["s"]), helper.make_node(op_type, ["s", "g"], ["y"], epsilon=0.01)]
    model = of_floats(nodes, {"g": drawn(40)}, (2, 9, 40), (2, 9, 40), opset=23)
    assert "Add" in optimized(model, tmp_path)
    assert_equal(model, (2, 9, 40), (2, 9, 40))


def test_rows_between_codes_are_computed_in_float():
    require("gcc")
    made = Chain()
    x, gain = made.dequantize("x", (0.03, np.uint8(3))), made.constant("g", drawn(20))
    made.quantize(made.node("RMSNormalization", [x, gain], "r"), (0.04, np.uint8(99)), "y")
    model = graph_model(made.nodes, {"x": ("uint8", (50, 20))}, {"y": None}, made.constants, opset=23, ir_version=10)
    feeds = {"x": rng.integers(0, 256, (50, 20)).astype(np.uint8)}
    [found], [wanted] = qcgen.compile(model, name="net").load(FUSING).run(None, feeds), judge(model, feeds)
    np.testing.assert_array_equal(found, wanted)
