"""Lowering of whole networks: what becomes of each operator, and what is known of every tensor."""

from __future__ import annotations

import numpy as np
import pytest
from models import MICROSOFT, graph_model, node_model, qlinear_conv, random_weights
from onnx import helper

import qcgen
from qcgen import geometry
from qcgen.check import check
from qcgen.check.specs import COORDINATES, NEAREST_MODES, PAD_MODES
from qcgen.compiler import read
from qcgen.infer import infer
from qcgen.ir.program import (
    Concat,
    Conv,
    Dequantize,
    Lookup,
    RawAccumulator,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Transpose,
    inputs_of,
)
from qcgen.ir.types import DType, Layout
from qcgen.load import load
from qcgen.lower import lower, movement

F32 = np.float32


def program_of(model):
    return lower(check(read(model)))


def kinds(program):
    return [type(op) for op in program.operators]


def scale(value):
    return np.asarray(value, F32)


def zero(value, dtype="uint8"):
    return np.asarray(value, dtype)


def qgemm(w, *, y=True, x_shape=(3, 4), **attributes):
    operands = {
        "A": ("uint8", x_shape),
        "a_scale": scale(0.5),
        "a_zero_point": zero(7),
        "B": w,
        "b_scale": scale(0.25),
        "b_zero_point": zero(0, "int8"),
        "C": np.arange(w.shape[1], dtype=np.int32),
    }
    operands |= {"y_scale": scale(2), "y_zero_point": zero(9)} if y else {}
    return node_model("QGemm", operands, domain=MICROSOFT, **attributes)


def test_check_accepts_just_the_modes_that_are_lowered():
    assert set(PAD_MODES) == {"constant", *movement.OUTSIDE}
    assert set(COORDINATES) == set(geometry.COORDINATES)
    assert set(NEAREST_MODES) == set(movement.NEAREST)


def test_a_gemm_is_a_convolution_of_one_tap_over_its_rows():
    w = random_weights((4, 5))
    program = program_of(qgemm(w))
    [op] = program.operators
    g = op.geometry
    assert (g.batch, g.input, g.output, g.kernel) == (1, (3,), (3,), (1,))
    assert (g.in_channels, g.out_channels, g.group, g.macs) == (4, 5, 1, 60)
    assert (op.x.layout, op.y.shape, op.x_zero_point) == (None, (3, 5), 7)
    np.testing.assert_array_equal(op.weights, w.T[:, :, None])
    np.testing.assert_array_equal(op.bias, np.arange(5))
    np.testing.assert_array_equal(op.epilogue.scale, np.full(5, 0.0625, F32))


def test_a_transposed_gemm_turns_its_input_first():
    program = program_of(qgemm(random_weights((4, 5)), x_shape=(4, 3), transA=1))
    assert kinds(program) == [Transpose, Conv]
    assert program.operators[1].x.shape == (3, 4)


def test_a_gemm_without_y_scale_dequantizes_its_accumulators():
    program = program_of(qgemm(random_weights((4, 5)), y=False))
    conv, floats = program.operators
    assert isinstance(conv.epilogue, RawAccumulator)
    assert isinstance(floats, Dequantize)
    assert (floats.x.dtype, floats.x.scale, floats.x.zero_point) == (DType.INT32, 0.125, 0)


def test_a_concat_requantizes_only_the_inputs_that_differ():
    operands = {"y_scale": scale(0.5), "y_zero_point": zero(3)}
    for name, s in (("a", 0.5), ("b", 0.25)):
        operands |= {name: ("uint8", (1, 2)), f"{name}_scale": scale(s), f"{name}_zero": zero(3)}
    program = program_of(node_model("QLinearConcat", operands, domain=MICROSOFT, axis=-1))
    assert kinds(program) == [Lookup, Concat]
    lookup, concat = program.operators
    assert concat.xs == (program.inputs[0], lookup.y)
    assert concat.axis == 1
    np.testing.assert_array_equal(lookup.table[:8], [1, 2, 3, 3, 3, 4, 5, 5])  # -3/2, -1, -1/2, 0, ... to even, plus 3


def test_a_split_is_one_slice_for_each_output():
    model = node_model(
        "Split", {"x": ("int8", (1, 6)), "s": np.array([1, 2, 3])}, {"a": None, "b": None, "c": None}, axis=1
    )
    program = program_of(model)
    assert kinds(program) == [Slice] * 3
    assert [(op.starts, op.y.shape) for op in program.operators] == [
        ((0, 0), (1, 1)),
        ((0, 1), (1, 2)),
        ((0, 3), (1, 3)),
    ]
    assert len({op.name for op in program.operators}) == 3


def test_repeating_paddings_are_maps_of_places():
    model = node_model("Pad", {"x": ("int8", (1, 3)), "pads": np.array([0, 1, 0, 2])}, mode="edge")
    [op] = program_of(model).operators
    assert isinstance(op, Resize)
    assert op.places == ((0,), (0, 0, 1, 2, 2, 2))


def test_softmax_over_an_inner_axis_is_transposed_to_the_last_and_back():
    one = {"X": ("uint8", (2, 3, 4)), "s": scale(0.1), "z": zero(0), "ys": scale(1 / 256), "yz": zero(0)}
    model = node_model("QLinearSoftmax", one, domain=MICROSOFT, axis=1)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    program = program_of(model)
    assert kinds(program) == [Transpose, Softmax, Transpose]
    assert program.operators[1].x.shape == (2, 4, 3)
    assert program.operators[1].factor == 256


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_softmax_reads_its_rows_where_they_lie(axis):
    pooled = helper.make_node("MaxPool", ["x"], ["pooled"], name="pool", kernel_shape=[2, 2])
    softmax = helper.make_node("LogSoftmax", ["pooled"], ["shares"], name="softmax", axis=axis)
    mean = helper.make_node("GlobalAveragePool", ["shares"], ["y"], name="mean")
    model = graph_model([pooled, softmax, mean], {"x": ("float", (2, 3, 4, 5))}, {"y": None})
    plan = qcgen.compile(model.SerializeToString(), layout="nhwc").plan
    assert [call.op.name for call in plan.calls] == ["pool", "softmax", "mean"]


def test_the_mean_of_floats_over_height_and_width_is_one_of_rows_with_or_without_the_axes():
    for keepdims, shape in ((1, (1, 3, 1, 1)), (0, (1, 3))):
        [op] = program_of(
            node_model("ReduceMean", {"x": ("float", (1, 3, 4, 5))}, axes=[2, 3], keepdims=keepdims)
        ).operators
        assert isinstance(op, Reduce)
        assert (op.y.shape, op.axes, op.row) == (shape, (2, 3), ("eights", (2, 3)))


def network():
    """x -> conv -> relu of codes -> max pooling -> flatten -> y, with scales at the convolution alone."""
    conv = qlinear_conv(
        (1, 2, 6, 6), random_weights((3, 2, 3, 3)), x_type="int8", y_type="int8", y_scale=0.5, y_zero_point=4
    )
    nodes = [
        *conv.graph.node,
        helper.make_node("Relu", ["y"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
    ]
    del conv.graph.node[:]
    conv.graph.node.extend(nodes)
    conv.graph.output[0].name = "f"
    conv.opset_import[0].version = 14
    return conv


def test_scales_and_layouts_are_handed_on():
    program = program_of(network())
    tensors = {tensor.name: tensor for op in program.operators for tensor in (op.y, *inputs_of(op))}
    for name in ("y", "r", "p", "f"):
        assert (tensors[name].scale, tensors[name].zero_point) == (0.5, 4)
    assert {tensors[name].layout for name in ("x", "y", "r", "p")} == {Layout.CHANNELS_FIRST}
    assert tensors["f"].layout is None


def test_every_mention_of_a_tensor_is_the_same():
    program = program_of(network())
    seen = {}
    for op in program.operators:
        for tensor in (*inputs_of(op), op.y):
            assert seen.setdefault(tensor.name, tensor) == tensor
    assert [*program.inputs, *program.outputs] == [seen["x"], seen["f"]]


def test_layouts_go_back_to_the_input_through_a_transposition():
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[2, 2]),
    ]
    program = program_of(graph_model(nodes, {"x": ("int8", (1, 4, 4, 3))}, {"y": None}))
    assert program.inputs[0].layout is Layout.CHANNELS_LAST


def test_codes_that_are_read_with_another_scale_get_a_view_of_their_own():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s1", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s2", "z"], ["y"], name="d"),
    ]
    constants = {"s1": scale(0.5), "s2": scale(0.25), "z": zero(0)}
    model = graph_model(nodes, {"x": ("float", (2,))}, {"y": None}, constants)
    quantize, view, dequantize = lower(check(infer(load(model)))).operators
    assert isinstance(view, Reshape)
    assert (quantize.y.scale, dequantize.x.scale) == (0.5, 0.25)


def test_a_constant_operand_belongs_to_the_program():
    constant = np.arange(3, dtype=np.uint8).reshape(3, 1, 1)
    both = {"A": ("uint8", (1, 3, 4, 4)), "as": scale(1), "az": zero(0), "B": constant, "bs": scale(1), "bz": zero(0)}
    program = program_of(node_model("QLinearAdd", {**both, "cs": scale(1), "cz": zero(0)}, domain=MICROSOFT))
    assert list(program.constants) == ["B"]
    np.testing.assert_array_equal(program.constants["B"], constant)
    assert [tensor.name for tensor in program.inputs] == ["A"]


@pytest.mark.parametrize("op_type", ["Identity", "Dropout"])
def test_what_changes_nothing_is_a_reshape(op_type):
    assert kinds(program_of(node_model(op_type, {"x": ("float", (2, 3))}))) == [Reshape]
