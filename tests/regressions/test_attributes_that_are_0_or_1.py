"""keepdims = 3 was compiled as 1 and is 0 in onnxruntime: attributes that say yes or no are 1 or 0."""

import numpy as np
import pytest
from models import node_model

import qcgen
from qcgen.errors import ModelRejected

IMAGE = {"X": ("float", (1, 2, 6, 6))}
MATRICES = {"A": ("float", (3, 3)), "B": np.ones((3, 3), np.float32)}
SEQUENCE = {"X": ("float", (4, 1, 3)), "W": np.ones((1, 15, 3), np.float32), "R": np.ones((1, 15, 5), np.float32)}
WINDOW = {"kernel_shape": [2, 2]}
FLAGS = {
    ("ArgMax", "keepdims"): (IMAGE, {"axis": 1}),
    ("ArgMax", "select_last_index"): (IMAGE, {"axis": 1}),
    ("AveragePool", "ceil_mode"): (IMAGE, WINDOW),
    ("AveragePool", "count_include_pad"): (IMAGE, WINDOW),
    ("Cast", "saturate"): (IMAGE, {"to": 1, "opset": 19}),
    ("GRU", "linear_before_reset"): (SEQUENCE, {"hidden_size": 5}),
    ("Gemm", "transA"): (MATRICES, {}),
    ("Gemm", "transB"): (MATRICES, {}),
    ("MaxPool", "ceil_mode"): (IMAGE, WINDOW),
    ("MaxPool", "storage_order"): (IMAGE, WINDOW),
    ("ReduceMax", "keepdims"): (IMAGE, {}),
    ("ReduceMean", "keepdims"): (IMAGE, {"axes": [2, 3]}),
    ("ReduceMean", "noop_with_empty_axes"): (IMAGE, {"opset": 18}),
    ("ReduceSum", "keepdims"): (IMAGE, {}),
    ("Reshape", "allowzero"): ({**IMAGE, "shape": np.array([72], np.int64)}, {"opset": 14}),
    ("Resize", "exclude_outside"): (
        {**IMAGE, "roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
        {},
    ),
}


@pytest.mark.parametrize("value", [2, 3, -1, 256, 2**63 - 1])
@pytest.mark.parametrize(("op_type", "name"), FLAGS)
def test_another_number_is_refused_and_named(op_type, name, value):
    inputs, attributes = FLAGS[op_type, name]
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(node_model(op_type, inputs, **attributes, **{name: value}))
    [problem] = rejection.value.problems
    assert (problem.what, problem.hint) == (f"{name} is {value}, but must be 0 or 1", f"correct {name}")


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize(("op_type", "name"), FLAGS)
def test_0_and_1_are_not_refused_for_their_value(op_type, name, value):
    inputs, attributes = FLAGS[op_type, name]
    problems = ()
    try:
        qcgen.compile(node_model(op_type, inputs, **attributes, **{name: value}))
    except ModelRejected as rejection:
        problems = rejection.problems
    assert not [problem for problem in problems if "must be 0 or 1" in problem.what]
