"""Sums, products, means and softmaxes between DequantizeLinear and QuantizeLinear are operators of codes."""

import numpy as np
import pytest
from qdq import A, B, C, Chain, between, f32, kinds, means, one, table

from qcgen.errors import ModelRejected
from qcgen.ir.program import (
    AveragePool,
    GlobalAveragePool,
    Lookup,
    MaxPool,
    Quantize,
    QuantizedBinary,
    Reduce,
    Reshape,
    Softmax,
    Transpose,
)
from qcgen.ir.types import DType, Layout

X_SHAPE = (1, 4, 6, 6)


def x_and_its_maxima(chain):
    """x quantized as A, and another tensor of the same codes."""
    x = chain.through("x", A)
    return x, chain.node("MaxPool", [x], kernel_shape=[1, 1])


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.mark.parametrize(("op_type", "kind"), [("Add", "add"), ("Mul", "mul")])
def test_two_tensors_are_added_and_multiplied_in_codes(chain, op_type, kind):
    chain.through(chain.node(op_type, x_and_its_maxima(chain), "r"), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "MaxPool", "QuantizedBinary", "Dequantize"]
    op = one(program, QuantizedBinary)
    assert (op.name, op.op_type, op.kind) == ("r_node", op_type, kind)
    assert (op.a.name, op.b.name) == ("x_q", one(program, MaxPool).y.name)
    assert [means(op.a, A), means(op.b, A), means(op.y, B)] == [True] * 3


def test_operands_of_the_other_8_bit_type_are_shifted_to_the_outputs(chain):
    constant = chain.weights("k", np.array([[[[-128]], [[0]], [[1]], [[127]]]], np.int8), C)
    chain.through(chain.node("Add", [chain.through("x", C), constant], "r"), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Lookup", "QuantizedBinary", "Dequantize"]
    assert table(program) == list(range(256))
    op = one(program, QuantizedBinary)
    shifted = program.constants[op.b.name]
    assert shifted.reshape(-1).tolist() == [0, 128, 129, 255]
    assert shifted.dtype == np.uint8
    raised = (C[0], np.uint8(108))
    assert [means(op.a, raised), means(op.b, raised), means(op.y, B)] == [True] * 3
    lookup = one(program, Lookup)
    assert (lookup.x.name, lookup.y) == ("x_q", op.a)
    assert means(lookup.x, C)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_constant_of_absent_zero_point_is_shifted_only_to_the_other_type(chain, dtype):
    constant = chain.weights("k", np.array([[[[0]], [[1]], [[99]], [[127]]]], dtype), (0.04, None))
    chain.through(chain.node("Mul", [constant, chain.through("x", A)], "r"), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "QuantizedBinary", "Dequantize"]
    op, by = one(program, QuantizedBinary), 128 if dtype is np.int8 else 0
    assert means(op.a, (0.04, np.uint8(by)))
    assert program.constants[op.a.name].reshape(-1).tolist() == [by, 1 + by, 99 + by, 127 + by]


def test_a_relu_behind_an_add_is_a_clamp_of_codes(chain):
    chain.through(chain.node("Relu", [chain.node("Add", x_and_its_maxima(chain))]), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program)[2:] == ["QuantizedBinary", "Lookup", "Dequantize"]
    assert means(one(program, QuantizedBinary).y, B)
    assert table(program) == np.clip(np.arange(256), 60, 255).tolist()


@pytest.mark.parametrize(
    ("op_type", "scales"),
    [("Add", (0.02, 1e-9)), ("Mul", (1e9, 1e9)), ("Mul", (1e30, 1e-30))],
)
def test_operations_whose_scales_are_out_of_range_are_refused(op_type, scales):
    x_scale, y_scale = scales
    chain = Chain()
    x = chain.through("x", (x_scale, np.uint8(3)))
    other = chain.node("MaxPool", [x], kernel_shape=[1, 1])
    chain.through(chain.node(op_type, [x, other], "r"), (y_scale, np.uint8(60)), "y")
    with pytest.raises(ModelRejected, match=rf"node 'r_node' \({op_type}\).*C_scale is"):
        chain.meant(X_SHAPE)


def of_x(op_type, kind, meanings=(A, B), opset=13, **attributes):
    """What an operator of one tensor means, and the one operator of codes among the rest."""
    program = between(op_type, meanings, **attributes).meant(X_SHAPE, opset=opset)
    return program, one(program, kind)


def test_a_mean_of_an_image_is_one_of_codes():
    program, op = of_x("GlobalAveragePool", GlobalAveragePool)
    assert kinds(program) == ["Quantize", "GlobalAveragePool", "Dequantize"]
    assert (op.name, op.op_type, op.x.name) == ("r_node", "GlobalAveragePool", "x_q")
    assert means(op.x, A)
    assert means(op.y, B)
    assert (op.x.layout, op.channel_axis, op.pixels) == (Layout.CHANNELS_FIRST, 1, 36)
    assert op.requantize.scale.tolist() == [f32(A[0]) / (f32(B[0]) * f32(36))]
    assert (op.requantize.zero_point, op.requantize.low, op.requantize.high) == (60, 0, 255)


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_means_of_windows_are_of_codes(count_include_pad):
    settings = {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "strides": [2, 1], "count_include_pad": count_include_pad}
    program, op = of_x("AveragePool", AveragePool, **settings)
    assert kinds(program) == ["Quantize", "AveragePool", "Dequantize"]
    assert (op.name, op.op_type, op.x.name) == ("r_node", "AveragePool", "x_q")
    assert means(op.x, A)
    assert means(op.y, B)
    g = op.geometry
    assert (g.kernel, g.strides, g.pads_begin, g.pads_end) == ((3, 2), (2, 1), (1, 0), (0, 1))
    assert (op.x.layout, g.group, op.count_include_pad) == (Layout.CHANNELS_FIRST, 4, count_include_pad == 1)


def test_means_of_windows_with_gaps_are_of_floats():
    program, op = of_x("AveragePool", AveragePool, opset=19, kernel_shape=[2, 2], dilations=[2, 2])
    assert kinds(program) == ["Quantize", "Dequantize", "AveragePool", "Quantize", "Dequantize"]
    assert (op.x.dtype, op.y.dtype, op.geometry.dilations) == (DType.FLOAT32, DType.FLOAT32, (2, 2))


@pytest.mark.parametrize(
    ("axis", "opset", "moves", "shape"),
    [
        (None, 13, None, X_SHAPE),
        (3, 13, None, X_SHAPE),
        (1, 13, Transpose, (1, 6, 6, 4)),
        (None, 11, Reshape, (1, 144)),
        (2, 11, Reshape, (4, 36)),
    ],
)
def test_a_softmax_is_one_of_codes_along_its_axis(axis, opset, moves, shape):
    """Before opset 13 the axis counts from 1, and the axes from there on are one."""
    program, op = of_x("Softmax", Softmax, opset=opset, **({} if axis is None else {"axis": axis}))
    moved = [] if moves is None else [moves.__name__]
    assert kinds(program) == ["Quantize", *moved, "Softmax", *moved, "Dequantize"]
    assert (op.name, op.op_type, op.x.shape, op.y.shape) == ("r_node", "Softmax", shape, shape)
    first, last = program.operators[1], program.operators[-2]
    assert first.x.name == "x_q"
    assert last.y.name == "r_q"
    if moves is Transpose:
        assert first.perm == last.perm == (0, 3, 2, 1)
    assert [means(op.x, A), means(op.y, B), means(first.x, A), means(last.y, B)] == [True] * 4
    powers = np.exp(np.arange(-255, 1) * np.float64(f32(A[0])))
    assert np.allclose(op.table / op.table[-1], powers, rtol=1e-6, atol=0)
    assert op.factor == 20


@pytest.mark.parametrize(
    ("op_type", "scales", "what"),
    [
        ("GlobalAveragePool", (1e9, 0.02), "pixels. is"),
        ("GlobalAveragePool", (1e-9, 1e9), "pixels. is"),
        ("AveragePool", (1e9, 0.02), "x_scale / y_scale is"),
        ("AveragePool", (1e-31, 1e-31), "float32 does not hold all sums"),
        ("Softmax", (0.02, 1e-8), "every code saturates"),
    ],
)
def test_means_and_softmaxes_whose_scales_are_out_of_range_are_refused(op_type, scales, what):
    attributes = {"kernel_shape": [3, 3]} if op_type == "AveragePool" else {}
    with pytest.raises(ModelRejected, match=rf"node 'r_node' \({op_type}\).*{what}"):
        between(op_type, [(scale, np.uint8(3)) for scale in scales], **attributes).meant(X_SHAPE)


@pytest.mark.parametrize(("side", "fits"), [(128, True), (129, False)])
def test_windows_of_more_codes_than_are_averaged_are_refused(side, fits):
    chain = between("AveragePool", kernel_shape=[side, side], count_include_pad=1)
    if fits:
        assert one(chain.meant((1, 1, 130, 130)), AveragePool).y.dtype is DType.UINT8
        return
    with pytest.raises(ModelRejected, match="its window has 16641 elements, more than 16384"):
        chain.meant((1, 1, 130, 130))


def test_one_table_shifts_codes_for_all_that_read_them(chain):
    x = chain.through("x", A)
    parts = [chain.through(chain.node(op_type, [x]), C) for op_type in ("GlobalAveragePool", "Softmax")]
    chain.node("Mul", parts, "y")
    assert kinds(chain.meant(X_SHAPE)).count("Lookup") == 1


@pytest.mark.parametrize(("dtype", "is_kept"), [(np.uint8, False), (np.int8, True), (np.int16, False)])
def test_sums_of_codes_of_two_types_are_told_to_be_floats_in_onnxruntime(chain, dtype, is_kept):
    x = chain.through("x", A)
    other = chain.through("x", (0.02, dtype(3)))
    chain.through(chain.node("Add", [x, other], "r"), B, "y")
    assert chain.meant(X_SHAPE, opset=21).in_float == ({"r_node"} if is_kept else set())


@pytest.mark.parametrize(
    ("op_type", "kind", "attributes"),
    [
        ("GlobalAveragePool", GlobalAveragePool, {}),
        ("AveragePool", AveragePool, {"kernel_shape": [2, 2]}),
        ("Softmax", Softmax, {}),
    ],
)
def test_an_operator_of_codes_has_one_type(op_type, kind, attributes):
    program, op = of_x(op_type, kind, (A, C), **attributes)
    assert kinds(program) == ["Quantize", "Lookup", op_type, "Dequantize"]
    assert means(op.x, (A[0], np.int8(-125)))
    assert means(op.y, C)
    assert table(program) == list(range(-128, 128))


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_over_all_pixels_is_a_global_average_pool(keepdims):
    program, op = of_x("ReduceMean", GlobalAveragePool, axes=[-1, 2], keepdims=keepdims)
    flatten = [] if keepdims else ["Reshape"]
    assert kinds(program) == ["Quantize", "GlobalAveragePool", *flatten, "Dequantize"]
    assert (op.channel_axis, op.pixels) == (1, 36)
    [y] = program.outputs
    assert y.shape == ((1, 4, 1, 1) if keepdims else (1, 4))


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("meanings", [(A, B), (A, C)])
@pytest.mark.parametrize(("axes", "found"), [(None, (0, 1, 2, 3)), ([1], (1,)), ([-1, 0], (0, 3))])
def test_sums_along_any_axes_are_of_codes(op_type, meanings, axes, found):
    attributes = {} if axes is None else {"axes": axes}
    program, op = of_x(op_type, Reduce, meanings, opset=11, keepdims=0, **attributes)
    assert kinds(program) == ["Quantize", "Reduce", "Dequantize"]
    assert op.axes == found
    assert means(op.x, meanings[0])
    assert means(op.y, meanings[1])
    assert op.requantize is not None


def test_a_sum_along_no_axis_stays_float(chain):
    none = chain.constant("none", np.zeros(0, np.int64))
    total = chain.node("ReduceSum", [chain.through("x", A), none], noop_with_empty_axes=1)
    chain.through(total, B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "Dequantize", "Reshape", "Quantize", "Dequantize"]
    op = one(program, Reshape)
    assert (op.op_type, op.x.dtype, op.y.dtype) == ("ReduceSum", DType.FLOAT32, DType.FLOAT32)


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("ReduceMax", {"axes": [1]}), ("ReduceMin", {}), ("GlobalMaxPool", {})]
)
def test_the_largest_of_many_codes_is_requantized_after_it_is_found(op_type, attributes):
    kind = MaxPool if op_type == "GlobalMaxPool" else Reduce
    program, op = of_x(op_type, kind, (A, C), **attributes)
    assert kinds(program) == ["Quantize", kind.__name__, "Lookup", "Dequantize"]
    assert means(op.y, A)
    assert means(one(program, Lookup).y, C)
    assert kinds(of_x(op_type, kind, (A, A), **attributes)[0]) == ["Quantize", kind.__name__, "Dequantize"]


def test_a_constant_that_is_quantized_again_stays_a_constant(chain):
    k = chain.through(chain.weights("k", np.array([[[[0]], [[3]], [[4]], [[255]]]], np.uint8), A), C)
    chain.through(chain.node("Add", [chain.through("x", C), k]), C, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "QuantizedBinary", "Dequantize"]
    k = one(program, QuantizedBinary).b
    assert program.constants[k.name].reshape(-1).tolist() == [-22, -20, -20, 106]
    assert means(k, C)


def test_a_float_tail_stays_float(chain):
    pooled = chain.through(chain.node("GlobalAveragePool", [chain.through("x", A)]), B)
    chain.node("Softmax", [chain.node("Flatten", [pooled])], "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "GlobalAveragePool", "Reshape", "Dequantize", "FloatSoftmax"]
    assert means(one(program, GlobalAveragePool).y, B)
    [y] = program.outputs
    assert (y.name, y.dtype) == ("y", DType.FLOAT32)


def test_quantizing_a_tensor_twice_alike_happens_once(chain):
    first = chain.dequantize(chain.quantize("x", A, "q1"), A)
    second = chain.dequantize(chain.quantize("x", A, "q2"), A)
    chain.through(chain.node("Add", [first, second], "r"), B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "QuantizedBinary", "Dequantize"]
    assert one(program, Quantize).y.name == "q1"
    op = one(program, QuantizedBinary)
    assert (op.a.name, op.b.name) == ("q1", "q1")


def test_identities_in_between_are_no_obstacle(chain):
    x = chain.node("Identity", [chain.node("Dropout", [chain.through("x", A)])])
    pooled = chain.node("Cast", [chain.node("GlobalAveragePool", [x])], to=1)
    chain.through(pooled, B, "y")
    program = chain.meant(X_SHAPE)
    assert kinds(program) == ["Quantize", "GlobalAveragePool", "Dequantize"]
    op = one(program, GlobalAveragePool)
    assert [means(op.x, A), means(op.y, B)] == [True] * 2
