"""The C of a QLinearAveragePool whose sums are subnormal or infinite gave other codes than the reference.

The adder of its windows at the border knows normal numbers; onnxruntime itself converts infinity to int32 there.
"""

import numpy as np
import pytest
from computed import computed
from models import MICROSOFT, graph_model
from onnx import helper

import qcgen
from qcgen.errors import ModelRejected

X = np.random.default_rng(0).integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)


def pool(x_scale, y_scale):
    names = {"xs": np.float32(x_scale), "xz": np.uint8(120), "ys": np.float32(y_scale), "yz": np.uint8(7)}
    node = helper.make_node(
        "QLinearAveragePool", ["x", *names], ["y"], domain=MICROSOFT, kernel_shape=[2, 3], pads=[1, 0, 0, 1]
    )
    return graph_model([node], {"x": ("uint8", X.shape)}, {"y": None}, names, opset=13, opsets={MICROSOFT: 1})


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-38, 1e-38), (1e-45, 1e-45), (1e36, 1e36), (3e38, 3e38)])
def test_scales_next_to_the_limits_are_refused(x_scale, y_scale):
    with pytest.raises(ModelRejected, match="float32 does not hold all sums of such numbers"):
        qcgen.compile(pool(x_scale, y_scale))


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e-30, 1e-30), (1e-30, 3e-31), (1e30, 1e30), (1e30, 3e38)])
def test_other_extreme_scales_give_the_references_codes(x_scale, y_scale):
    computed(pool(x_scale, y_scale), {"x": X})
