"""Checking of whole networks: what is refused, where, in which words, and all of it at once."""

from __future__ import annotations

import numpy as np
import pytest
from judged import assert_judged
from models import MICROSOFT, graph_model, node_model, random_weights
from onnx import helper, numpy_helper

import qcgen
from qcgen.check import check
from qcgen.errors import ModelRejected
from qcgen.infer import infer
from qcgen.load import load
from qcgen.rewrite import rewrite

F32 = np.float32
IMAGE = (1, 2, 6, 6)


def problems(model):
    with pytest.raises(ModelRejected) as rejection:
        check(infer(load(model)))
    return rejection.value.problems


def scale(value):
    return np.asarray(value, F32)


def zero(value=0, dtype="uint8"):
    return np.asarray(value, dtype)


def pair(op_type="QLinearAdd", **other):
    operands = {"A": ("uint8", (2, 3)), "A_scale": scale(1), "A_zero_point": zero(), "B": ("uint8", (2, 3))}
    operands |= {"B_scale": scale(1), "B_zero_point": zero(), "C_scale": scale(1), "C_zero_point": zero()}
    return node_model(op_type, operands | other, domain=MICROSOFT)


def one(op_type, shape=IMAGE, *, attributes=None, domain=MICROSOFT, **other):
    operands = {"X": ("uint8", shape), "X_scale": scale(0.1), "X_zero_point": zero(), "Y_scale": scale(0.1)}
    return node_model(op_type, operands | {"Y_zero_point": zero()} | other, domain=domain, **(attributes or {}))


def softmax(opset=13, **other):
    model = one("QLinearSoftmax", (1, 2), **other)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    return model


def matmul(**other):
    operands = {"a": ("uint8", (2, 3)), "a_scale": scale(1), "a_zero_point": zero(), "b": random_weights((3, 4))}
    operands |= {"b_scale": scale(1), "b_zero_point": zero(0, "int8"), "y_scale": scale(1), "y_zero_point": zero()}
    return node_model("QLinearMatMul", operands | other)


def normalization(shape=(4, 8), Scale=None, **attributes):
    operands = {"X": ("float", shape), "Scale": scale(np.ones(shape[-1])) if Scale is None else Scale}
    return node_model("LayerNormalization", operands, opset=17, **attributes)


def channels(shape=IMAGE, Scale=None, **attributes):
    operands = {"X": ("float", shape), "Scale": scale([1, 2]) if Scale is None else Scale, "B": scale([1, 2])}
    return node_model("InstanceNormalization", operands, **attributes)


def pool(**attributes):
    return one("QLinearAveragePool", attributes={"kernel_shape": [2, 2], **attributes})


def image(op_type, dtype="float", shape=IMAGE, *, opset=13, **attributes):
    return node_model(op_type, {"X": (dtype, shape)}, opset=opset, **attributes)


BAD = {
    "a scale of zero": (pair(A_scale=scale(0)), "A_scale is 0.0; a scale must be positive and finite"),
    "a scale that is infinite": (pair(C_scale=scale(np.inf)), "C_scale is inf; a scale must be positive and finite"),
    "a scale for each element": (pair(B_scale=scale([1, 1])), "B_scale has shape (2,), but must be one number"),
    "a scale that is computed": (
        pair(A_scale=("float", ())),
        "A_scale is not constant: it is the model's input 'A_scale'",
    ),
    "operands of two types": (pair(B=("int8", (2, 3))), "B is int8, but A is uint8"),
    "a zero point of another type": (pair(A_zero_point=zero(0, "int8")), "A_zero_point is int8, but A is uint8"),
    "float operands": (pair(A=("float", (2, 3))), "A is float, but must be int8 or uint8"),
    "a missing scale": (pair(B_scale=None), "input B_scale is missing"),
    "shapes that do not agree": (pair(B=("uint8", (4,))), "the shapes (2, 3) and (4,) cannot be broadcast"),
    "a product out of range": (pair("QLinearMul", C_scale=scale(1e-6)), "A_scale * B_scale / C_scale is 1e+06"),
    "a sum out of range": (pair(C_scale=scale(1e-8)), "(A_scale + B_scale) / C_scale is 2e+08"),
    "a mean out of range": (
        one("QLinearGlobalAveragePool", X_scale=scale(1e6)),
        "x_scale / (y_scale * 36 pixels) is 277778",
    ),
    "an average out of range": (
        one("QLinearAveragePool", attributes={"kernel_shape": [2, 2]}, X_scale=scale(1e9)),
        "x_scale / y_scale is 1e+10",
    ),
    "a softmax of huge codes": (softmax(Y_scale=scale(5e-8)), "y_scale is 5e-08: every code saturates"),
    "a softmax without opset": (one("QLinearSoftmax", (1, 2)), "it has no attribute opset"),
    "an unknown attribute": (one("QLinearSigmoid", attributes={"alpha": 1.0}), "the attribute 'alpha' is unknown"),
    "an attribute of a wrong kind": (pool(strides=2), "strides is an integer, but must be a list of integers"),
    "a window without its size": (one("QLinearAveragePool"), "it has no kernel_shape"),
    "a window of too few axes": (pool(kernel_shape=[2]), "kernel_shape has 1 number, but its input has 2 spatial axes"),
    "a window that does not fit": (
        pool(kernel_shape=[9, 2]),
        "the kernel covers 9 elements of spatial axis 0, but the padded input has 6",
    ),
    "padding as large as the window": (
        pool(pads=[2, 0, 0, 0]),
        "spatial axis 0 is padded by 2 and 0, more than 1",
    ),
    "an auto_pad that does not exist": (pool(auto_pad="same"), "auto_pad is 'same', which does not exist"),
    "a mode of padding that does not exist": (
        node_model("Pad", {"data": ("int8", (1, 3)), "pads": np.array([0, 1, 0, 1])}, mode="mirror"),
        "mode 'mirror' is not supported",
    ),
    "negative padding": (
        node_model("Pad", {"data": ("int8", (1, 3)), "pads": np.array([0, -1, 0, 0])}),
        "its pads are negative",
    ),
    "linear interpolation": (
        node_model("Resize", {"X": ("int8", IMAGE), "r": None, "s": scale([1, 1, 2, 2])}, mode="linear"),
        "mode 'linear' is not supported in this form",
    ),
    "a mean over an axis too many": (
        image("ReduceMean", axes=[1, 4]),
        "it names axis 4, but its input has 4 dimensions",
    ),
    "a sum over an axis twice": (
        node_model("ReduceSum", {"X": ("float", IMAGE), "axes": np.array([1, -3])}),
        "it names axis 1 twice",
    ),
    "a largest code over axes that are computed": (
        node_model("ReduceMax", {"X": ("int8", IMAGE), "axes": ("int64", (1,))}, opset=18),
        "axes is not constant: it is the model's input 'axes'",
    ),
    "a largest integer": (
        image("ReduceMax", "int32"),
        "data is int32, but must be int8 or uint8 or int16 or uint16 or float",
    ),
    "a slice of nothing": (
        node_model("Slice", {"data": ("float", (2, 3)), "starts": np.array([1]), "ends": np.array([1])}),
        "'y' has shape (0, 3): it is empty",
    ),
    "a largest along an axis that is not there": (
        image("ArgMax", axis=-5),
        "axis is -5, but its input has 4 dimensions",
    ),
    "a largest of a number": (image("ArgMax", shape=()), "axis is 0, but its input has 0 dimensions"),
    "an element that is not there": (
        node_model("Gather", {"data": ("int8", IMAGE), "indices": np.array([[0, -7]])}, axis=2),
        "it takes element -7 of axis 2, which has 6 elements",
    ),
    "an element along an axis that is not there": (
        node_model("Gather", {"data": ("int8", IMAGE), "indices": np.array(0)}, axis=4),
        "axis is 4, but its input has 4 dimensions",
    ),
    "elements at computed places": (
        node_model("Gather", {"data": ("int8", IMAGE), "indices": ("int64", (2,))}),
        "neither its data nor its indices are constant: it is the model's input 'indices'",
    ),
    "columns at computed places": (
        node_model("Gather", {"data": random_weights((4, 3)), "indices": ("int32", (2,))}, axis=-1),
        "it takes elements of axis -1 of a table at places that are not constant",
    ),
    "rows of an empty table": (
        node_model("Gather", {"data": np.zeros((0, 3), np.int8), "indices": ("int64", (2,))}),
        "its table has shape (0, 3): it is empty",
    ),
    "rows by codes": (
        node_model("Gather", {"data": random_weights((4, 3)), "indices": ("int8", (2,))}),
        "indices is int8, but must be int32 or int64",
    ),
    "rows that are not finite": (
        node_model("Gather", {"data": np.float32([[1], [np.nan]]), "indices": ("int64", (2,))}),
        "1 element of data is not finite",
    ),
    "an expansion that does not fit": (
        node_model("Expand", {"input": ("int8", (2, 3)), "shape": np.array([2, 2])}),
        "its input of shape (2, 3) cannot be expanded to (2, 2)",
    ),
    "an expansion to nothing": (
        node_model("Expand", {"input": ("int8", (1, 3)), "shape": np.array([0, 3])}),
        "its shape is (0, 3)",
    ),
    "tiles of too few axes": (
        node_model("Tile", {"input": ("int8", IMAGE), "repeats": np.array([1, 2])}),
        "repeats has 2 numbers, but its input has 4 dimensions",
    ),
    "no tile": (
        node_model("Tile", {"input": ("int8", (2, 3)), "repeats": np.array([1, 0])}),
        "its repeats are (1, 0)",
    ),
    "channels that are not blocks": (
        image("DepthToSpace", blocksize=2),
        "its 2 channels are not a multiple of blocksize squared = 4",
    ),
    "pixels that are not blocks": (image("SpaceToDepth", blocksize=4), "its 6 by 6 pixels are not blocks of 4 by 4"),
    "blocks of no pixels": (image("DepthToSpace", blocksize=0), "blocksize is 0"),
    "blocks of a volume": (
        image("SpaceToDepth", shape=(1, 2, 2, 2, 2), blocksize=2),
        "its input has shape (1, 2, 2, 2, 2): 5 dimensions, but must have 4",
    ),
    "blocks of another order": (image("DepthToSpace", mode="RDC", blocksize=1), "mode 'RDC' is not supported"),
    "a norm along no axis": (
        image("ReduceL2", opset=18, noop_with_empty_axes=1),
        "it names no axes and has noop_with_empty_axes",
    ),
    "a conversion of types": (image("Cast", to=12), "it converts float to uint32"),
    "a float pooling of codes": (image("AveragePool", "int8", kernel_shape=[2, 2]), "X is int8, but must be float"),
    "rows that do not fit": (matmul(b=random_weights((4, 4))), "the first operand has 3 columns, the second 4 rows"),
    "computed matrices that do not fit": (
        matmul(b=("int8", (2, 4, 4))),
        "the first operand has 3 columns, the second 4 rows",
    ),
    "computed matrices of different batches": (
        matmul(a=("uint8", (2, 2, 3)), b=("int8", (4, 3, 4))),
        "the shapes (2, 2, 3) and (4, 3, 4) cannot be broadcast",
    ),
    "scales of columns that are computed": (
        matmul(b=("int8", (3, 4)), b_scale=scale([1, 2, 3, 4])),
        "b_scale has shape (4,), but its operand is not a constant matrix",
    ),
    "a scale of a computed matrix that is not a number": (
        matmul(b=("int8", (3, 4)), b_scale=scale(np.nan)),
        "b_scale is nan; a scale must be positive and finite",
    ),
    "sums of computed products beyond int32": (
        matmul(a=("uint8", (1, 70000)), b=("int8", (70000, 1))),
        "sums of 70000 products of codes can exceed int32",
    ),
    "a constant vector": (matmul(a=("uint8", (3,)), b=zero([1, 2, 3], "int8")), "the second operand has shape (3,)"),
    "too few scales of columns": (
        matmul(b_scale=scale([1, 1])),
        "b_scale has shape (2,), but the product has 4 columns",
    ),
    "scales too far apart": (
        matmul(a_scale=scale(1e30), b_scale=scale(1e30)),
        "a_scale * b_scale / y_scale is inf in float32",
    ),
    "a normalization along no axis": (normalization(axis=-3), "axis is -3, but its input has 2 dimensions"),
    "a normalization of rows of another length": (
        normalization(Scale=scale(np.ones(9))),
        "Scale has shape (9,), but the rows have shape (8,)",
    ),
    "a normalization by infinity": (
        normalization(Scale=scale([np.inf] * 8)),
        "8 elements of Scale are not finite",
    ),
    "a normalization in float64": (normalization(stash_type=11), "stash_type is 11, but must be 1"),
    "a normalization of too few channels": (channels(Scale=scale([1])), "Scale has shape (1,), but x has 2 channels"),
    "a normalization of vectors": (
        channels(shape=(4, 2)),
        "its input has shape (4, 2), but must have batch, channels and spatial axes",
    ),
    "a node of constants": (
        node_model("Mul", {"A": scale([1, 2]), "B": scale([3, 4])}),
        "all its inputs are constant",
    ),
    "an operator newer than the opset": (
        image("HardSwish"),
        "HardSwish needs opset 14 of ai.onnx; the model imports 13",
    ),
    "int64": (
        node_model("DequantizeLinear", {"x": ("int64", (3,)), "s": scale(1)}),
        "x is int64, but must be int8 or uint8 or int16 or uint16 or int32",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_this_is_refused_in_these_words(name):
    model, what = BAD[name]
    found = problems(model)
    assert what in [problem.what for problem in found]
    assert all(problem.hint for problem in found)
    assert next(problem.where for problem in found if problem.what == what).startswith("node 'node' (")


def test_of_a_node_of_constants_only_what_keeps_it_from_being_computed_is_told():
    model = node_model("Flatten", {"input": zero([1, 2])}, axis=2)
    [problem] = problems(model)
    assert problem.what == "axis is 2, but its input has 1 dimension"


def test_all_problems_of_all_nodes_are_told_at_once():
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], name="first", kernel_shape=[9, 9]),
        helper.make_node("Strange", ["a"], ["b"], name="second"),
        helper.make_node("Strange", ["b"], ["c"], name="third"),
        helper.make_node("Softmax", ["x"], ["y"], name="fourth", axis=7),
    ]
    found = problems(graph_model(nodes, {"x": ("float", IMAGE)}, {"y": None, "c": None}))
    places = [problem.where for problem in found]
    assert "node 'first' (MaxPool)" in places
    assert places.count("nodes 'second', 'third' (Strange)") == 1
    assert "node 'fourth' (Softmax)" in places


def middle(*between, behind="Conv"):
    """x -> Q -> DQ -> Sigmoid -> ... -> Conv or another operator -> Q -> DQ -> y."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["a"], name="before"),
    ]
    last = "a"
    for index, op_type in enumerate(between):
        extra = ["s", "z"] if op_type.endswith("Linear") else []
        nodes.append(helper.make_node(op_type, [last, *extra], [f"t{index}"]))
        last = f"t{index}"
    nodes += [
        helper.make_node(behind, [last, "w"] if behind == "Conv" else [last], ["b"], name="behind"),
        helper.make_node("QuantizeLinear", ["b", "s", "z"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    constants = {"s": scale(0.1), "z": zero()}
    if behind == "Conv":
        constants["w"] = np.ones((3, 2, 1, 1), np.float32)
    return graph_model(nodes, {"x": ("float", (1, 2, 4, 4))}, {"y": None}, constants)


@pytest.mark.parametrize(("between", "last"), [((), "before"), (("Identity",), "before"), (("Relu",), "Relu_0")])
def test_float_numbers_inside_a_quantized_network_are_computed_and_named_with_what_is_missing(between, last):
    """As where a quantizer was told to leave layers out."""
    model = middle(*between)
    assert_judged(model, named=None, exact=True)
    with pytest.raises(ModelRejected) as rejected:
        qcgen.compile(model, strict=True)
    [problem] = [each for each in rejected.value.problems if each.where == "node 'behind' (Conv)"]
    assert problem.what == "it computes in float, which strict=True refuses"
    assert problem.hint == f"a QuantizeLinear is missing behind {last}"


def test_a_node_of_which_rewriting_makes_others_is_called_what_the_user_wrote():
    content = middle()
    resize = helper.make_node("Resize", ["d", "", "twice"], ["a"], name="before", mode="linear")
    content.graph.node[2].CopyFrom(resize)
    content.graph.initializer.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "twice"))
    graph = infer(rewrite(infer(load(content))))
    assert [(node.op_type, node.operator) for node in graph.nodes if node.name == "before"] == [("Add", "Resize")]


def test_activations_and_means_that_quantizers_leave_in_float_are_accepted():
    for behind in ("Tanh", "GlobalAveragePool"):
        graph = infer(load(middle(behind=behind)))
        assert check(graph) is graph


def test_float_numbers_between_the_two_conversions_are_accepted():
    graph = infer(load(middle("QuantizeLinear", "DequantizeLinear")))
    assert check(graph) is graph


def test_a_float_tail_is_accepted():
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    graph = infer(load(graph_model(nodes, {"x": ("uint8", (2, 3))}, {"y": None}, {"s": scale(0.1), "z": zero()})))
    assert check(graph) is graph
