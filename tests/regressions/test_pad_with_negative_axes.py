"""A Pad whose axes are counted from the end padded others, and silently."""

import numpy as np
import pytest
from computed import computed
from models import graph_model
from onnx import helper

X = np.arange(1, 25).reshape(1, 2, 3, 4)


def pads(axes, dtype):
    lists = {"pads": np.array([1, 0, 2, 1], np.int64), "axes": np.array(axes, np.int64)}
    node = helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"])
    name = "float" if dtype == np.float32 else dtype.__name__
    return graph_model([node], {"x": (name, X.shape)}, {"y": None}, lists, opset=18)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("axes", [(-1, -2), (-2, -1), (3, -2), (-3, 2), (-1, 1)])
def test_negative_axes_are_counted_from_the_end(axes, dtype):
    [y] = computed(pads(axes, dtype), {"x": X.astype(dtype)})
    around = [(0, 0)] * 4
    around[axes[0]], around[axes[1]] = (1, 2), (0, 1)
    assert np.array_equal(y, np.pad(X, around))
