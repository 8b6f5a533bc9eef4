"""Corners of operators that few models reach: outputs that ONNX's text and onnxruntime give, written out."""

import numpy as np
import pytest
from cases import U8, quantized
from computed import computed, one_node
from onnx import helper
from qdq import A, B, Chain

import qcgen
from qcgen.compiler import compile_graph
from qcgen.intervals import accumulator_interval
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv

X = np.arange(-6, 6).reshape(1, 2, 6)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@pytest.mark.parametrize(("low", "high"), [(3, -2), (100, -100), (5, 4)])
def test_where_the_bounds_of_a_clip_cross_every_output_is_max(dtype, low, high):
    """onnxruntime takes the minimum last."""
    x = X.astype(dtype)
    bounds = {"low": np.array(low, dtype), "high": np.array(high, dtype)}
    [y] = computed(one_node(helper.make_node("Clip", ["x", *bounds], ["y"]), {"x": x}, bounds), {"x": x})
    assert (y == high).all()


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@pytest.mark.parametrize(
    ("axes", "pads"),
    [((-1,), ((0, 0), (0, 0), (2, 1))), ((-2,), ((0, 0), (2, 1), (0, 0))), ((-1, -2), ((0, 0), (3, 4), (2, 1)))],
)
def test_pads_of_negative_axes_count_from_the_end(dtype, axes, pads):
    x = X.astype(dtype)
    given = [pads[axis] for axis in axes]
    constants = {
        "pads": np.array([before for before, _ in given] + [after for _, after in given], np.int64),
        "value": np.array(7, dtype),
        "axes": np.array(axes, np.int64),
    }
    node = helper.make_node("Pad", ["x", *constants], ["y"])
    [y] = computed(one_node(node, {"x": x}, constants, opset=18), {"x": x})
    np.testing.assert_array_equal(y, np.pad(x, pads, constant_values=7))


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@pytest.mark.parametrize(("start", "end", "step"), [(-2, 10, 1), (-1, -7, -2), (9, -10, -1)])
@pytest.mark.parametrize("axis", [-1, -2])
def test_slices_of_negative_axes_are_clamped_to_the_length_of_that_axis(axis, start, end, step, dtype):
    x = X.astype(dtype)
    constants = {
        name: np.array([value], np.int64) for name, value in zip("seat", (start, end, axis, step), strict=True)
    }
    [y] = computed(one_node(helper.make_node("Slice", ["x", *constants], ["y"]), {"x": x}, constants), {"x": x})
    part = slice(start, end, step)
    np.testing.assert_array_equal(y, x[..., part] if axis == -1 else x[:, part])


@pytest.mark.parametrize(("room", "wraps"), [(766, True), (767, False)])
def test_the_sum_of_inputs_that_corrects_the_weights_zero_point_counts_among_partial_sums(room, wraps):
    """Weights 255, 0, 0 are stored as 127, -128, -128, and 128 times the sum of all inputs is added: 767 in all."""
    w = np.zeros((2, 3, 1, 1), np.uint8)
    w[:, 0] = 255
    bias = [2**31 - 1 - 255 * room] * 2
    case = quantized("corrected", (1, 3, 2, 2), w.shape, U8, w=w, w_zero_point=0, x_zero_point=0, bias=bias)
    artifact = compile_graph(case.graph, Options(), "corrected", "corrected.onnx")
    [call] = artifact.plan.calls
    assert not accumulator_interval(call.op).wraps
    assert ("corrected_to_int32(" in artifact.files["corrected.c"]) == wraps


@pytest.mark.parametrize("axes", [(-2, -1), (2, -1), (-3, -2), (1, -2)])
def test_means_of_negative_axes_are_those_of_images_with_channels_first_or_last(axes):
    x = np.arange(120, dtype=np.float32).reshape(1, 4, 5, 6) ** 2
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)
    [y] = computed(one_node(node, {"x": x}, {"axes": np.array(axes, np.int64)}, opset=18), {"x": x})
    np.testing.assert_allclose(y, x.mean(axis=axes), rtol=1e-6)


def test_scales_of_weights_along_an_axis_from_the_end_are_those_of_that_axis():
    """Two output channels, and two input channels: a wrong axis would fit, too."""
    scales = np.array([0.01, 0.3], np.float32), np.zeros(2, np.int8)
    codes = np.arange(-4, 4, dtype=np.int8).reshape(2, 2, 2, 1)
    models = []
    for axis in (0, -4):
        chain = Chain()
        y = chain.node("Conv", [chain.through("x", A), chain.weights("w", codes, scales, axis)])
        chain.through(y, B, "y")
        models.append(chain.model((1, 2, 3, 3)))
    first, last = (qcgen.compile(model, name="m") for model in models)
    assert [call.op.op_type for call in last.plan.calls if isinstance(call.op, Conv)]
    assert body(first) == body(last)


def body(artifact):
    """The C without its head, which has the hash of the model."""
    text = artifact.files["m.c"]
    return text[text.index("M_CONST_ATTR") :]
