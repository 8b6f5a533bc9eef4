"""Where by a comparison of float32 numbers: against onnxruntime's outputs, and what is refused."""

import numpy as np
import pytest
from batch import require
from onnx import TensorProto, helper, numpy_helper

import qcgen
from qcgen.compiler import read

A = np.float32([0, -0.0, 3, np.nan, np.inf, -np.inf, 2])
B = np.float32([0, 0, 2, 1, np.inf, 1, np.nan])
RECORDED = {
    "Greater": "0010000",
    "GreaterOrEqual": "1110100",
    "Less": "0000010",
    "LessOrEqual": "1100110",
    "Equal": "1100100",
}
"""Where onnxruntime 1.32.0 takes X."""


def model(nodes, shapes, constants=(), cond=False):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs += [helper.make_tensor_value_info("condition", TensorProto.BOOL, (2, 3))] * cond
    stored = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(
        nodes, "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


@pytest.mark.parametrize("with_not", [False, True])
@pytest.mark.parametrize("comparison", RECORDED)
def test_a_comparison_chooses_as_in_onnxruntime(comparison, with_not):
    require("gcc")
    nodes = [helper.make_node(comparison, ["a", "b"], ["is"]), helper.make_node("Not", ["is"], ["is_not"])]
    nodes = [*nodes[: 1 + with_not], helper.make_node("Where", ["is_not" if with_not else "is", "c", "d"], ["y"])]
    net = model(nodes, {"a": (7,), "b": (7,)}, {"c": 1, "d": 0})
    [y] = qcgen.compile(net, name="net").load().run(None, {"a": A, "b": B})
    assert y.tolist() == [float(digit) != float(with_not) for digit in RECORDED[comparison]]


def test_operands_are_broadcast_and_one_may_be_read_twice():
    require("gcc")
    nodes = [helper.make_node("Greater", ["x", "b"], ["is"]), helper.make_node("Where", ["is", "x", "d"], ["y"])]
    net = model(nodes, {"x": (2, 3), "d": (1, 3)}, {"b": [[0.5], [-1]]})
    x, d = np.float32([[0, 1, 2], [-3, -1, 0]]), np.float32([[7, 8, 9]])
    [y] = qcgen.compile(net, name="net").load().run(None, {"x": x, "d": d})
    assert y.tolist() == [[7, 1, 2], [7, 8, 0]]


def test_one_comparison_may_choose_several_times():
    nodes = [
        helper.make_node("Less", ["x", "b"], ["is"]),
        helper.make_node("Where", ["is", "x", "b"], ["low"]),
        helper.make_node("Where", ["is", "b", "low"], ["y"]),
    ]
    graph = read(model(nodes, {"x": (2, 3)}, {"b": 0.5}))
    assert [node.op_type for node in graph.nodes] == ["Select", "Select"]


def test_truth_values_from_outside_are_refused():
    nodes = [helper.make_node("Where", ["condition", "x", "d"], ["y"])]
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model(nodes, {"x": (2, 3)}, {"d": 0}, cond=True))
    assert "Where" in str(rejection.value)
