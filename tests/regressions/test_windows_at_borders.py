"""Windows at and beyond the borders of images."""

import re
from itertools import product

import numpy as np
import pytest
from batch import assert_right, build, require, unit
from cases import S8, U8, Case, integer, quantized, real
from computed import computed, element, one_node
from marks import some_at_first
from models import graph_model, node_model, qlinear_conv
from onnx import helper
from qdq import Chain
from wide_recorded import Wide

import qcgen
from qcgen import ModelRejected
from qcgen.geometry import Window
from qcgen.kernels.scalar.conv import MAX_RUNS
from qcgen.reference import evaluate_operator
from qcgen.verification import verify

# Kernels of one column on padded images of many channels read the first column at the upper and lower border.
COLUMN = quantized("column_of_taps", (1, 16, 9, 11), (9, 16, 3, 1), S8, pads=[1, 0, 1, 0])


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_borders_of_a_column_of_taps_are_those_of_its_own_pixel(optimize, tmp_path):
    require("gcc")
    each = unit(COLUMN, "nhwc", optimize, "cortex-m4")
    assert each.artifact.plan.calls[0].kernel == "arm_dsp/conv"
    build(tmp_path, [each], "gcc", ("-O1",)).assert_equals_reference()


# Depthwise windows wholly above or below the image, where none is cut on the other side, are the bias and padding.
BESIDE = {"a_row_above": ((1, 9), 1, 0), "a_row_below": ((1, 9), 0, 1), "two_rows_above": ((2, 9), 2, 0)}
ABOVE_AND_BELOW = [
    quantized(f"windows_{name}", (1, 3, 5, 15), (3, 1, *kernel), S8, group=3, pads=[above, 0, below, 0])
    for name, (kernel, above, below) in BESIDE.items()
]


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_windows_without_a_tap_on_the_image_are_right(optimize, tmp_path):
    require("gcc")
    units = [unit(case, "nhwc", optimize, "cortex-m4") for case in ABOVE_AND_BELOW]
    assert {each.artifact.plan.calls[0].kernel for each in units} == {"arm_dsp/depthwise_rows"}
    build(tmp_path, units, "gcc", ("-O1",)).assert_equals_reference()


# A mean with ceil_mode and count_include_pad had one window more where that would start in the padding.
LAST_WINDOWS = {
    # label: input, pads, ends of the output as onnxruntime 1.32.0 gives it
    "one window": ((2, 2), [1, 1, 1, 1], [[10 / 9]]),
    "the last window reaches out": ((2, 3), [1, 0, 1, 1], [[7 / 3]]),
    "one axis of two": ((2, 4), [1, 1, 1, 1], [[14 / 9, 22 / 9]]),
}


@pytest.mark.parametrize("name", LAST_WINDOWS)
def test_a_window_that_would_start_in_the_padding_is_none(name):
    require("gcc")
    shape, pads, wanted = LAST_WINDOWS[name]
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 3], pads=pads, ceil_mode=1, count_include_pad=1
    )
    model = graph_model([node], {"x": ("float", (1, 1, *shape))}, {"y": None}, opset=19)
    image = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(1, 1, *shape)
    [y] = qcgen.compile(model, name="pool").load().run(None, {"x": image})
    np.testing.assert_allclose(y, np.float32([[wanted]]), rtol=1e-6)


# Dilated float poolings whose window has no tap on the image give 0 and the lowest number, as in onnxruntime.
ATTRIBUTES = {"kernel_shape": [2, 1], "dilations": [2, 1], "pads": [1, 0, 1, 0]}
LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("op_type", "more", "expected"),
    [("AveragePool", {}, 0), ("AveragePool", {"count_include_pad": 1}, 0), ("MaxPool", {}, LOWEST)],
)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_window_of_padding_alone(op_type, more, expected, layout):
    require("gcc")
    x = np.float32([[[[1, 2, 3]]]])
    model = node_model(op_type, {"x": ("float", x.shape)}, opset=19, **ATTRIBUTES, **more)
    artifact = qcgen.compile(model, name="pool", layout=layout)
    [op] = artifact.program.operators
    [y] = artifact.load().run(None, {"x": x if layout == "nchw" else np.moveaxis(x, 1, -1)})
    assert y.size == 3
    assert (y == expected).all()
    assert (evaluate_operator(op, x) == expected).all()


# Float means added up in another order, or divided by padding that a window does not see.
def is_right(model):
    require("gcc")
    return verify(qcgen.compile(model), cases=4, flags=("-O0",)).is_right


@pytest.mark.parametrize("opset", [10, 19])
@pytest.mark.parametrize(
    ("auto_pad", "kernel", "strides"),
    [("VALID", [1, 2], [2, 3]), ("SAME_UPPER", [2, 2], [1, 1]), ("SAME_LOWER", [2, 2], [1, 1])],
)
def test_a_last_window_that_counts_padding_counts_what_is_there(auto_pad, kernel, strides, opset):
    chain = Chain()
    flags = {"ceil_mode": 1, "count_include_pad": 1}
    chain.node("AveragePool", ["x"], "y", kernel_shape=kernel, strides=strides, auto_pad=auto_pad, **flags)
    assert is_right(chain.model((1, 3, 4, 4), opset=opset))


@pytest.mark.parametrize("strides", [[1, 1], [2, 1], [3, 2], [1, 3]])
def test_a_window_that_is_the_whole_image_is_added_up_by_its_strides(strides):
    chain = Chain()
    chain.node("AveragePool", ["x"], "y", kernel_shape=[6, 9], strides=strides)
    assert is_right(chain.model((1, 1, 6, 9), opset=13))


# Pads and strides far beyond the image: the reference padded it, kernels walked through it, C overflowed.
def test_verify_needs_no_padded_image():
    weights = np.ones((8, 8, 3, 3), np.int8)
    far = 1 << 15
    model = qlinear_conv((1, 8, 5, 7), weights, pads=[2**9, far, 2**9, far], strides=[2**9, far])
    artifact = qcgen.compile(model, name="far")
    assert artifact.program.outputs[0].shape == (1, 8, 3, 3)
    assert verify(artifact, cases=1).is_right


def test_pads_beyond_32768_are_refused():
    far = 2**15 + 1
    model = qlinear_conv((1, 1, 5, 7), np.ones((1, 1, 3, 3), np.int8), pads=[far, 1, 0, 1])
    with pytest.raises(ModelRejected, match="spatial axis 0 is padded by 32769 and 0, more than 32768"):
        qcgen.compile(model)


@pytest.mark.parametrize("target", ["portable", "cortex-m4", "cortex-m23"])
def test_the_stride_of_a_single_window_does_not_overflow(target):
    options = {"group": 8, "auto_pad": "SAME_UPPER", "strides": [2**31 - 1, 2]}
    artifact = qcgen.compile(qlinear_conv((1, 8, 10, 10), np.ones((8, 1, 3, 3), np.int8), **options), target=target)
    assert verify(artifact, cases=1, sums=False).is_right


# SAME_UPPER and SAME_LOWER with a stride beyond the kernel: onnxruntime leaves out elements in front, qcgen did not.
#
# Windows of one tap show where they begin. Convolutions and poolings differ in how many elements they leave out; the
# outputs are recorded from onnxruntime 1.32.0.
ONE = {"scale": np.float32(1), "zero": np.uint8(0)}
RECORDED = [  # elements, stride, first elements by SAME_UPPER and by SAME_LOWER: of convolutions, of poolings
    (9, 3, (0, 0), (1, 0)),
    (8, 4, (1, 0), (1, 1)),
    (10, 5, (1, 1), (2, 1)),
    (12, 6, (2, 1), (2, 2)),
]
STRIDES_BEYOND = [
    (size, stride, auto_pad, convolution[which], pooling[which])
    for size, stride, convolution, pooling in RECORDED
    for which, auto_pad in enumerate(("SAME_UPPER", "SAME_LOWER"))
]


@pytest.mark.parametrize(("size", "stride", "auto_pad", "of_convolution", "of_pooling"), STRIDES_BEYOND)
def test_windows_begin_where_onnxruntime_s_do(size, stride, auto_pad, of_convolution, of_pooling):
    x = np.arange(size, dtype=np.uint8).reshape(1, 1, size)
    attributes = {"auto_pad": auto_pad, "strides": [stride], "kernel_shape": [1]}
    operands = ["x", "scale", "zero", "w", "scale", "zero", "scale", "zero"]
    convolution = helper.make_node("QLinearConv", operands, ["y"], **attributes)
    model = one_node(convolution, {"x": x}, {**ONE, "w": np.ones((1, 1, 1), np.uint8)})
    assert computed(model, {"x": x})[0].reshape(-1).tolist() == list(range(of_convolution, size, stride))
    operands = ["x", "scale", "zero", "scale", "zero"]
    pooling = helper.make_node("QLinearAveragePool", operands, ["y"], domain="com.microsoft", **attributes)
    [y] = computed(one_node(pooling, {"x": x}, ONE), {"x": x})
    assert y.reshape(-1).tolist() == list(range(of_pooling, size, stride))


# Pointers to the rows or taps of four windows, 1 936 bytes for an 11x11 kernel, filled the stack of small cores.
LARGE = quantized("eleven_by_eleven", (1, 16, 6, 7), (3, 16, 11, 11), S8, pads=[5, 5, 5, 5])
DILATED = quantized("seven_by_seven_dilated", (1, 3, 9, 9), (2, 3, 7, 7), S8, pads=[6, 6, 6, 6], dilations=[2, 2])
CORES = ("cortex-m0", "cortex-m3", "rv32imc")


def kernel_of(each):
    [call] = each.artifact.plan.calls
    return call.kernel


@pytest.mark.parametrize("core", CORES)
def test_rows_of_a_large_window_are_few_and_are_computed_right(core, tmp_path):
    require("gcc")
    each = unit(LARGE, "nhwc", "size", core)
    assert kernel_of(each) == "scalar/conv"
    text = "".join(each.artifact.files.values())
    assert {int(count) for count in re.findall(r"RUNS = (\d+)", text)} == {11}
    assert "runs[2 * RUNS]" in text
    build(tmp_path, [each], "gcc", ("-O1",)).assert_equals_reference("guarded", 255)


@pytest.mark.parametrize("core", CORES)
def test_taps_that_lie_apart_are_left_to_another_kernel_where_they_are_too_many(core):
    each = unit(DILATED, "nhwc", "size", core)
    assert kernel_of(each) == "portable/conv"
    [reason] = [other.reason for other in each.artifact.plan.calls[0].rejected if other.kernel == "scalar/conv"]
    assert reason == f"a window is 49 pieces of the image, more than {MAX_RUNS}"


# A 1x1 convolution whose stride leaves one column of several read the columns beside it.
# The stride of a single window decides nothing, so it became 1. But kernels conclude from strides of 1 that
# neighbouring outputs are computed from neighbouring inputs, which holds only where an axis has as many windows as
# places for them.
TARGETS = ("portable", "cortex-m4", "host", "cortex-m0", "cortex-m3", "cortex-m55", "rv32imc")
IMAGES = {  # image, strides, kernel
    "column": ((5, 3), (1, 3), (1, 1)),
    "row": ((3, 5), (4, 1), (1, 1)),
    "volume": ((2, 3, 4), (1, 5, 2), (1, 1, 1)),
    "two_taps": ((5, 4), (1, 4), (2, 1)),
}
KINDS = {"dense": (6, 5, 1), "groups": (8, 6, 2), "depthwise": (5, 5, 5)}  # channels in, channels out, groups


def single_windows() -> list[Case]:
    found = []
    for (label, (image, strides, kernel)), (kind, (channels, out, group)) in product(IMAGES.items(), KINDS.items()):
        x, w, name = (1, channels, *image), (out, channels // group, *kernel), f"{label}_{kind}"
        found += [
            quantized(f"single_{name}", x, w, U8, strides=strides, group=group),
            integer(f"single_integer_{name}", x, w, ("uint8", "int8"), strides=strides, group=group),
            real(f"single_float_{name}", x, w, strides=strides, group=group),
        ]
    return found


@pytest.mark.parametrize("target", some_at_first(TARGETS, "cortex-m4"))
def test_convolutions_of_every_family_read_what_the_windows_are_on(target, tmp_path):
    require("gcc")
    units = [unit(case, layout, "speed", target) for case in single_windows() for layout in ("nhwc", "nchw")]
    assert_right(units, build(tmp_path, units, "gcc", ("-O0",)).run())


def pooling(op_type, x):
    return node_model(op_type, {"x": (element(x), x.shape)}, kernel_shape=[1, 1], strides=[1, 4])


def wide(x):
    c = Wide("int16")
    return c.finished(c.node("Conv", [c.x, c.matrix((6, 4, 1, 1), 0)], strides=[1, 4]), x.shape)


@pytest.mark.parametrize("of", ["MaxPool", "AveragePool", "16 bits"])
def test_an_image_has_the_outputs_of_its_first_column(of):
    """The columns that no window is on have no effect: an image without them has the same outputs."""
    x = np.random.default_rng(3).integers(-128, 128, (1, 4, 5, 3))
    x = x.astype({"MaxPool": np.int8, "AveragePool": np.float32, "16 bits": np.int16}[of])
    first = np.ascontiguousarray(x[..., :1])
    whole, part = (wide(each) if of == "16 bits" else pooling(of, each) for each in (x, first))
    assert np.array_equal(computed(whole, {"x": x}), computed(part, {"x": first}))


@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
def test_the_sizes_and_the_stride_give_the_number_of_windows(auto_pad):
    pads_of = (0, 1) if auto_pad == "NOTSET" else (0,)
    for size, kernel, stride, dilation, pad in product(range(1, 9), range(1, 4), (1, 2, 3, 9), (1, 2), pads_of):
        extent, pads = (kernel - 1) * dilation + 1, (pad,)
        axis = Window((kernel,), (stride,), (dilation,), pads, pads, auto_pad).axis(0, size)
        padded = size - axis.crop + axis.pad_begin + axis.pad_end
        if padded >= extent:
            assert axis.output == (padded - extent) // axis.stride + 1
            assert axis.stride == stride or axis.output == 1
            assert 1 <= axis.stride <= max(padded, stride)
