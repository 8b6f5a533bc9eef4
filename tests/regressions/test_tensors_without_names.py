"""Inputs and outputs that have no name, that nothing reads, or without what belongs to them."""

import numpy as np
import pytest
from batch import require
from computed import computed
from marks import some_at_first
from models import MICROSOFT, graph_model, qlinear_conv
from onnx import helper
from tools import require_modules

import qcgen
from qcgen import ModelRejected
from qcgen.infer import RULES
from qcgen.verification import verify


def test_a_quantizelinear_without_input_is_named():
    """A result without a name is not what an input without a name reads: such a model ended with an internal error."""
    nodes = [
        helper.make_node("QuantizeLinear", ["", "scale", "zero"], ["y"], "y"),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], "codes"),
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["numbers"], "numbers"),
        helper.make_node("ReduceSum", ["numbers", "rows"], [""], "total", keepdims=0),
    ]
    constants = {"scale": np.float32(0.1), "zero": np.int8(3), "rows": np.int64([2])}
    with pytest.raises(qcgen.ModelRejected, match="'y' \\(QuantizeLinear\\)"):
        qcgen.compile(graph_model(nodes, {"x": ("float", (1, 2, 4, 5))}, {"y": ("int8", (1, 2, 5))}, constants))


# A Cast without an input in a model with float16 raised IndexError: that model is rewritten before it is checked.
@pytest.mark.parametrize("key", some_at_first(sorted(RULES), ("", "Cast"), ("", "Clip"), ("", "Reshape"), ("", "Gemm")))
@pytest.mark.parametrize("dtype", ["float16", "float"])
def test_a_node_without_inputs_or_outputs_is_refused_in_words(key, dtype):
    domain, op_type = key
    for inputs, outputs in (([], ["m"]), ([""], ["m"]), (["h"], []), (["h"], [""])):
        node = helper.make_node(
            op_type, inputs, outputs, name="node", domain=domain, **({"to": 1} if op_type == "Cast" else {})
        )
        last = outputs[0] if outputs and outputs[0] else "h"
        nodes = [helper.make_node("Relu", ["x"], ["h"]), node, helper.make_node("Add", [last, "c"], ["y"], name="last")]
        constants = {"c": np.ones(4, np.float16 if dtype == "float16" else np.float32)}
        opsets = {domain: 1} if domain else {}
        values = {"m": (dtype, (1, 2, 3, 4))}
        model = graph_model(
            nodes, {"x": (dtype, (1, 2, 3, 4))}, {"y": None}, constants, opset=20, opsets=opsets, values=values
        )
        try:
            qcgen.compile(model)
        except ModelRejected as rejection:
            assert str(rejection)  # noqa: PT017 - what nothing reads need not be refused


def test_a_cast_without_inputs_is_named():
    nodes = [
        helper.make_node("Cast", [], ["m"], name="node", to=1),
        helper.make_node("Cast", ["x"], ["h"], name="other", to=1),
        helper.make_node("Add", ["m", "h"], ["y"], name="sum"),
    ]
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(graph_model(nodes, {"x": ("float16", (1, 4))}, {"y": None}, values={"m": ("float16", (1, 4))}))
    assert [(each.where, each.what) for each in rejection.value.problems] == [
        ("node 'node' (Cast)", "its input is missing")
    ]


# A convolution whose only named output was its second crashed: nothing computes that one.
def test_a_convolution_without_its_first_output_is_refused():
    model = qlinear_conv((1, 1, 4, 4), np.ones((1, 1, 1, 1), np.uint8))
    model.graph.node[0].output[:] = ["", "y"]
    with pytest.raises(ModelRejected, match="its first output has no name"):
        qcgen.compile(model)


@pytest.mark.parametrize("op_type", ["MaxPool", "Relu", "Transpose", "Flatten"])
def test_so_are_other_operators(op_type):
    attributes = {"kernel_shape": [2, 2]} if op_type == "MaxPool" else {}
    node = helper.make_node(op_type, ["x"], ["", "y"], name="node", **attributes)
    model = graph_model([node], {"x": ("float", (1, 1, 4, 4))}, {"y": ("float", None)})
    with pytest.raises(ModelRejected):
        qcgen.compile(model)


def test_an_input_that_nobody_reads_is_a_parameter_without_a_warning():
    """An input on which no output depends was an unused parameter, which the promised flags refuse."""
    require("gcc")
    nodes = [helper.make_node("Relu", ["a"], ["y"], name="relu")]
    model = graph_model(nodes, {"a": ("float", (2,)), "b": ("float", (3,))}, {"y": None})
    a = np.float32([-1, 2])
    [y] = qcgen.compile(model).load().run(None, {"a": a, "b": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(y, [0, 2])


# A Split some of whose outputs nobody reads gave the others' readers the wrong slices.
#
# Where such an output had no name, onnxruntime crashed, and qcgen verify with it.
X = np.random.default_rng(3).integers(-128, 128, (1, 9, 2)).astype(np.int8)


@pytest.mark.parametrize("read", [("a",), ("b",), ("c",), ("a", "c"), ("c", "b")])
@pytest.mark.parametrize("axis", [1, -2])
def test_the_outputs_of_a_split_that_are_read_are_the_right_slices(read, axis):
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


# A QGemm with y_zero_point and no y_scale wrote floats into a tensor that its readers took for codes.
CONSTANTS = {
    "s": np.float32(0.02),
    "z": np.uint8(3),
    "w": np.arange(-10, 10, dtype=np.int8).reshape(5, 4),
    "wz": np.int8(0),
}


@pytest.mark.parametrize(("output", "lacks"), [(["", "z"], "y_zero_point, but no y_scale"), (["s"], "y_scale, but no")])
def test_half_of_what_quantizes_the_output_is_refused(output, lacks):
    node = helper.make_node("QGemm", ["x", "s", "z", "w", "s", "wz", "", *output], ["y"], name="node", domain=MICROSOFT)
    model = graph_model(
        [node], {"x": ("uint8", (2, 5))}, {"y": ("uint8", (2, 4))}, CONSTANTS, opset=13, opsets={MICROSOFT: 1}
    )
    with pytest.raises(ModelRejected, match=f"it has {lacks}"):
        qcgen.compile(model)


# Weights of an LSTM with one scale and many zero points, which onnxruntime does not run, were an internal error.
def lstm():
    weights = {
        "w": np.arange(80, dtype=np.uint8).reshape(1, 16, 5),
        "scale": np.full(1, 0.1, np.float32),
        "zero_point": np.arange(16, dtype=np.uint8),
        "r": np.ones((1, 16, 4), np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero_point"], ["w_float"], name="weights", axis=1),
        helper.make_node("LSTM", ["x", "w_float", "r"], ["y"], name="lstm", hidden_size=4),
    ]
    return graph_model(nodes, {"x": ("float", [3, 2, 5])}, {"y": ("float", None)}, weights)


def test_zero_points_without_scales_are_refused():
    with pytest.raises(qcgen.ModelRejected) as refused:
        qcgen.compile(lstm())
    assert "node 'weights' (DequantizeLinear): x_zero_point has shape (16,), but must be one number" in str(
        refused.value
    )
