"""CumSum along a constant axis, and OneHot: against onnxruntime, bit for bit, in float and between codes."""

import numpy as np
import pytest
from batch import require
from judged import judge
from marks import some_at_first
from models import graph_model, node_model
from qdq import Chain

import qcgen
from qcgen.errors import ModelRejected

rng = np.random.default_rng(5)
SHAPES = {"a row": (7,), "rows": (30, 64), "columns": (40, 9), "images": (2, 3, 14, 11), "one": (3, 1)}


def assert_equal(model, feeds):
    require("gcc")
    artifact = qcgen.compile(model, name="net")
    assert not artifact.report.inexact
    [found], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("name", some_at_first(SHAPES, "rows", "a row"))
def test_running_sums_are_onnxruntimes(name, exclusive, reverse):
    x = rng.normal(size=SHAPES[name]).astype(np.float32)
    x[..., 0] = -0.0
    for axis in {-1, 0}:
        if exclusive and x.shape[axis] == 1:
            continue  # all are 0, whatever x is: nothing is left to compile
        operands = {"x": ("float", x.shape), "axis": np.array(axis)}
        model = node_model("CumSum", operands, opset=14, exclusive=exclusive, reverse=reverse)
        assert_equal(model, {"x": x})


def test_running_sums_between_codes_are_onnxruntimes():
    made = Chain()
    sums = made.node("CumSum", [made.dequantize("x", (0.03, np.uint8(100))), made.constant("axis", np.array(1))], "r")
    made.quantize(sums, (0.2, np.uint8(90)), "y")
    model = graph_model(made.nodes, {"x": ("uint8", (90, 30))}, {"y": None}, made.constants, opset=14)
    assert_equal(model, {"x": rng.integers(0, 256, (90, 30)).astype(np.uint8)})


OF_TYPES = {("int64", "int64"): [0, 1], ("int64", "float32"): [0.25, -3], ("int32", "float32"): [9, 7]}
"""Types of numbers and values that onnxruntime has, and values."""


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("types", OF_TYPES)
def test_places_are_onnxruntimes(types, axis):
    x = rng.integers(-15, 15, (13, 9)).astype(types[0])  # of ten places, counted from the end, too, or of none
    x[0, 0], x[0, 1] = np.iinfo(x.dtype).max, np.iinfo(x.dtype).min
    operands = {"x": (types[0], x.shape), "depth": np.array(10, x.dtype), "values": np.array(OF_TYPES[types], types[1])}
    assert_equal(node_model("OneHot", operands, opset=11, axis=axis), {"x": x})


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("CumSum", {"x": ("float", (2, 65)), "axis": np.array(1)}),
        ("CumSum", {"x": ("float", (2, 3)), "axis": ("int64", ())}),
        ("CumSum", {"x": ("int64", (2, 3)), "axis": np.array(0)}),
        ("OneHot", {"x": ("float", (2, 3)), "depth": np.array(4), "values": np.float32([0, 1])}),
        ("OneHot", {"x": ("int64", (2, 3)), "depth": np.array(4), "values": ("float", (2,))}),
    ],
)
def test_other_forms_are_refused_with_what_is_compiled(op_type, operands):
    with pytest.raises(ModelRejected, match=f"{op_type} is not supported\\n *it is compiled"):
        qcgen.compile(node_model(op_type, operands, opset=14))
