"""A 1x1 convolution whose stride leaves one column of several read the columns beside it.

The stride of a single window decides nothing, so it became 1. But kernels conclude from strides of 1 that neighbouring
outputs are computed from neighbouring inputs, which holds only where an axis has as many windows as places for them.
"""

from itertools import product

import numpy as np
import pytest
from batch import assert_right, build, require, unit
from cases import U8, Case, integer, quantized, real
from computed import computed, element
from marks import some_at_first
from models import node_model
from wide_recorded import Wide

from qcgen.geometry import Window

TARGETS = ("portable", "cortex-m4", "host", "cortex-m0", "cortex-m3", "cortex-m55", "rv32imc")
IMAGES = {  # image, strides, kernel
    "column": ((5, 3), (1, 3), (1, 1)),
    "row": ((3, 5), (4, 1), (1, 1)),
    "volume": ((2, 3, 4), (1, 5, 2), (1, 1, 1)),
    "two_taps": ((5, 4), (1, 4), (2, 1)),
}
KINDS = {"dense": (6, 5, 1), "groups": (8, 6, 2), "depthwise": (5, 5, 5)}  # channels in, channels out, groups


def cases() -> list[Case]:
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
    units = [unit(case, layout, "speed", target) for case in cases() for layout in ("nhwc", "nchw")]
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
