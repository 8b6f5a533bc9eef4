"""A Split some of whose outputs nobody reads gave the others' readers the wrong slices.

Where such an output had no name, onnxruntime crashed, and qcgen verify with it.
"""

import numpy as np
import pytest
from batch import require
from computed import computed
from models import graph_model
from onnx import helper
from tools import require_modules

import qcgen
from qcgen.verification import verify

X = np.random.default_rng(3).integers(-128, 128, (1, 9, 2)).astype(np.int8)


@pytest.mark.parametrize("read", [("a",), ("b",), ("c",), ("a", "c"), ("c", "b")])
@pytest.mark.parametrize("axis", [1, -2])
def test_the_outputs_that_are_read_are_the_right_slices(read, axis):
    nodes = [
        helper.make_node("Split", ["x", "split"], ["a", "b", "c"], axis=axis),
        *(helper.make_node("Transpose", [name], [f"{name}'"], perm=[0, 2, 1]) for name in read),
    ]
    split = {"split": np.array([2, 3, 4], np.int64)}
    outputs = [f"{name}'" for name in read]
    model = graph_model(nodes, {"x": ("int8", X.shape)}, dict.fromkeys(outputs), split)
    places = {"a": slice(0, 2), "b": slice(2, 5), "c": slice(5, 9)}
    for name, y in zip(read, computed(model, {"x": X}), strict=True):
        assert np.array_equal(y, X[:, places[name]].transpose(0, 2, 1))


@pytest.mark.parametrize("parts", [("a", "", "c"), ("", "b", "c"), ("a", "b", "")])
def test_onnxruntime_judges_a_split_into_parts_without_names(parts):
    require("gcc")
    require_modules("onnxruntime")
    node = helper.make_node("Split", ["x", "split"], parts, axis=1)
    split = {"split": np.array([2, 3, 4], np.int64)}
    model = graph_model([node], {"x": ("int8", X.shape)}, {part: None for part in parts if part}, split)
    judge = verify(qcgen.compile(model), cases=2, flags=("-O0",), oracle="onnxruntime", sums=False).judge
    assert (judge.oracle, judge.differing) == ("onnxruntime", 0)
    assert judge.outputs
