"""A QGemm with y_zero_point and no y_scale wrote floats into a tensor that its readers took for codes."""

import numpy as np
import pytest
from models import MICROSOFT, graph_model
from onnx import helper

import qcgen
from qcgen.errors import ModelRejected

CONSTANTS = {
    "s": np.float32(0.02),
    "z": np.uint8(3),
    "w": np.arange(-10, 10, dtype=np.int8).reshape(5, 4),
    "wz": np.int8(0),
}


@pytest.mark.parametrize(("output", "lacks"), [(["", "z"], "y_zero_point, but no y_scale"), (["s"], "y_scale, but no")])
def test_half_of_what_quantizes_the_output_is_refused(output, lacks):
    node = helper.make_node("QGemm", ["x", "s", "z", "w", "s", "wz", "", *output], ["y"], name="node", domain=MICROSOFT)
    model = graph_model(
        [node], {"x": ("uint8", (2, 5))}, {"y": ("uint8", (2, 4))}, CONSTANTS, opset=13, opsets={MICROSOFT: 1}
    )
    with pytest.raises(ModelRejected, match=f"it has {lacks}"):
        qcgen.compile(model)
