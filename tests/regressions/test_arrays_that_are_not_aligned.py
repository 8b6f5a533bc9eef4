"""Arrays that are not aligned as their type were handed to C as they were, which is undefined there."""

import numpy as np
import pytest
from batch import require
from computed import element
from models import node_model
from onnx import TensorProto

import qcgen


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_c_gets_aligned_inputs(dtype):
    require("gcc")
    x = np.frombuffer(bytearray(64 * np.dtype(dtype).itemsize + 1), dtype, 64, 1)
    x[:] = np.arange(64)
    assert not x.flags.aligned
    model = node_model("Cast", {"x": (element(x), x.shape)}, to=TensorProto.DOUBLE)
    loaded = qcgen.compile(model).load(["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"])
    np.testing.assert_array_equal(loaded.run(None, {"x": x})[0], np.arange(64.0))
