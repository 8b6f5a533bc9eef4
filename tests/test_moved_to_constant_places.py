"""Operators that move elements to places which the model knows: against onnxruntime, in float and between codes."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from qdq import Chain

import qcgen
from qcgen.errors import ModelRejected

SHAPE = (3, 4, 5)
NUMBERS = np.float32([[0.5, -1, 2], [0.25, 3, -0.5]])
PLACES = np.int64([[0, 1], [2, -1]])
COMPUTED = "computed"

CASES = {
    "Trilu": ("Trilu", [], {}),
    "Trilu below": ("Trilu", [np.int64(-1)], {"upper": 0}),
    "GatherND of batches": ("GatherND", [np.int64([[1], [3], [-1]])], {"batch_dims": 1}),
    "Compress": ("Compress", [np.array([True, False, True])], {"axis": 1}),
    "Compress of a row": ("Compress", [np.array([False, True, True])], {}),
    "ReverseSequence": ("ReverseSequence", [np.int64([3, 1, 2, 3])], {}),
    "ReverseSequence of batches": ("ReverseSequence", [np.int64([4, 1, 2])], {"batch_axis": 0, "time_axis": 1}),
    "ScatterND": ("ScatterND", [PLACES, np.resize(NUMBERS, (2, 5))], {}),
    "ScatterND of computed numbers": ("ScatterND", [PLACES, COMPUTED], {}),
    "ScatterND to one place": ("ScatterND", [PLACES[[0, 0]], np.resize(NUMBERS, (2, 5))], {}),
    "ScatterElements": ("ScatterElements", [np.int64([[[0, 3, -2]]]), NUMBERS[:1, None]], {"axis": 1}),
}


def moved(name, *, coded, **others):
    op_type, rest, attributes = CASES[name]
    made, inputs = Chain(), {"x": ("uint8" if coded else "float", SHAPE)}
    operands = [made.dequantize("x", (0.03, np.uint8(20))) if coded else "x"]
    for index, each in enumerate(rest):
        if each is COMPUTED:
            inputs["u"] = ("float", (2, 5))
        operands.append("u" if each is COMPUTED else made.constant(f"k{index}", each))
    y = made.node(op_type, operands, "r" if coded else "y", **attributes, **others)
    if coded:
        made.quantize(y, (0.04, np.uint8(40)), "y")
    return graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=18)


@pytest.mark.parametrize("coded", [False, True], ids=["float", "codes"])
@pytest.mark.parametrize("name", CASES)
def test_elements_are_where_onnxruntime_has_them(name, coded):
    require("gcc")
    model, rng = moved(name, coded=coded), np.random.default_rng(9)
    artifact = qcgen.compile(model, name="net")
    feeds = {
        x.name: rng.integers(0, 256, x.shape).astype(np.uint8)
        if x.dtype.is_code
        else rng.normal(size=x.shape).astype("f")
        for x in artifact.program.inputs
    }
    [got], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    assert not artifact.report.inexact
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted)


def test_numbers_that_are_added_where_they_go_are_refused():
    with pytest.raises(ModelRejected, match="ScatterElements is not supported"):
        qcgen.compile(moved("ScatterElements", coded=False, reduction="add"))
