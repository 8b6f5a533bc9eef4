"""The examples in the operators' documents, written out, as generated C computes them."""

import numpy as np
import pytest
from batch import require
from models import NHWC, conv_integer, float_conv, qlinear_conv

import qcgen

CONV_INTEGER_X = np.array([2, 3, 4, 5, 6, 7, 8, 9, 10], np.uint8).reshape(1, 1, 3, 3)
QLINEAR_X = [
    [255, 174, 162, 25, 203, 168, 58],
    [15, 59, 237, 95, 129, 0, 64],
    [56, 242, 153, 221, 168, 12, 166],
    [232, 178, 186, 195, 237, 162, 237],
    [188, 39, 124, 77, 80, 102, 43],
    [127, 230, 21, 83, 41, 40, 134],
    [255, 154, 92, 141, 42, 148, 247],
]
QLINEAR_Y = [
    [0, 81, 93, 230, 52, 87, 197],
    [240, 196, 18, 160, 126, 255, 191],
    [199, 13, 102, 34, 87, 243, 89],
    [23, 77, 69, 60, 18, 93, 18],
    [67, 216, 131, 178, 175, 153, 212],
    [128, 25, 234, 172, 214, 215, 121],
    [0, 101, 163, 114, 213, 107, 8],
]

# name: rows of the image, attributes, y
CONV = {
    "basic_with_padding": (
        5,
        {"pads": [1, 1, 1, 1]},
        [
            [12, 21, 27, 33, 24],
            [33, 54, 63, 72, 51],
            [63, 99, 108, 117, 81],
            [93, 144, 153, 162, 111],
            [72, 111, 117, 123, 84],
        ],
    ),
    "basic_without_padding": (5, {"pads": [0, 0, 0, 0]}, [[54, 63, 72], [99, 108, 117], [144, 153, 162]]),
    "strides_with_padding": (
        7,
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        [[12, 27, 24], [63, 108, 81], [123, 198, 141], [112, 177, 124]],
    ),
    "strides_without_padding": (7, {"pads": [0, 0, 0, 0], "strides": [2, 2]}, [[54, 72], [144, 162], [234, 252]]),
    "strides_with_asymmetric_padding": (
        7,
        {"pads": [1, 0, 1, 0], "strides": [2, 2]},
        [[21, 33], [99, 117], [189, 207], [171, 183]],
    ),
    "autopad_same": (
        5,
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        [[12, 27, 24], [63, 108, 81], [72, 117, 84]],
    ),
}


def run(model, x, **options):
    """The outputs of generated C for one input."""
    require("gcc")
    artifact = qcgen.compile(model, name="example", **options)
    [port] = artifact.plan.inputs
    [y] = artifact.load().run(None, {port.tensor.name: x})
    return y


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({}, [[12, 16], [24, 28]]),
        ({"pads": [1, 1, 1, 1]}, [[1, 3, 5, 3], [5, 12, 16, 9], [11, 24, 28, 15], [7, 15, 17, 9]]),
    ],
    ids=["without_padding", "with_padding"],
)
def test_conv_integer(attributes, wanted):
    model = conv_integer((1, 1, 3, 3), np.ones((1, 1, 2, 2), np.uint8), x_zero_point=1, **attributes)
    y = run(model, CONV_INTEGER_X)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y[0, 0], wanted)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_qlinear_conv(layout):
    model = qlinear_conv(
        (1, 1, 7, 7),
        np.zeros((1, 1, 1, 1), np.uint8),
        x_scale=0.00369204697,
        x_zero_point=132,
        w_scale=[0.00172794575],
        w_zero_point=[255],
        y_scale=0.00162681262,
        y_zero_point=123,
    )
    shape = (1, 1, 7, 7) if layout == "nchw" else (1, 7, 7, 1)
    y = run(model, np.array(QLINEAR_X, np.uint8).reshape(shape), layout=layout)
    np.testing.assert_array_equal(y, np.array(QLINEAR_Y, np.uint8).reshape(shape))


@pytest.mark.parametrize("domain", ["", NHWC])
@pytest.mark.parametrize("name", CONV)
def test_conv(name, domain):
    """All sums are small integers, so float32 is exact; W is (M, C/group, kH, kW) in both domains."""
    rows, attributes, wanted = CONV[name]
    shape = (1, rows, 5, 1) if domain else (1, 1, rows, 5)
    model = float_conv(
        shape,
        np.ones((1, 1, 3, 3), np.float32),
        domain=domain,
        opset=11,
        kernel_shape=[3, 3],
        opsets={domain: 11} if domain else None,
        **attributes,
    )
    y = run(model, np.arange(rows * 5, dtype=np.float32).reshape(shape))
    wanted = np.float32(wanted)
    np.testing.assert_array_equal(y, wanted[None, :, :, None] if domain else wanted[None, None])
