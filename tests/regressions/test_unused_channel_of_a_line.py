"""Depthwise layers with guard bands, but one multiplier and offset for all channels, gave an unused parameter."""

import pytest
from batch import require
from models import qlinear_conv, random_weights

import qcgen


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_a_line_that_all_channels_share_takes_no_channel(layout):
    require("gcc")
    scales = {"x_scale": 1.0, "w_scale": 2.0**-7, "y_scale": 1.0}
    model = qlinear_conv((1, 3, 5, 6), random_weights((3, 1, 2, 2)), group=3, **scales)
    artifact = qcgen.compile(model, name="net", layout=layout)
    assert "guard band" in artifact.report.nodes[0].requantize
    assert "_line(int32_t acc)" in artifact.files["net.c"]
    artifact.load()
