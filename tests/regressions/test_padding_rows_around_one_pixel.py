"""Rows of padding beside an image of one pixel, which lies in any order of axes: beside other rows it has one."""

import pytest
from batch import require
from bench.compiling import Network
from onnx import helper

import qcgen
from qcgen.verification import verify


def network():
    """The mean of an image, which padding spreads to an image of three rows."""
    n = Network((1, 16, 5, 5))
    model = n.model(n.mean(n.conv(n.depthwise(n.mean("x")), 2)))
    spread = model.graph.node[1]
    [given] = [each for each in spread.attribute if each.name == "pads"]
    given.CopyFrom(helper.make_attribute("pads", [2, 2, 2, 2]))
    return model


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_convolution_of_one_pixel_in_rows(layout, target):
    require("gcc")
    artifact = qcgen.compile(network(), layout=layout, arena="least", target=target)
    assert artifact.plan.streams
    assert verify(artifact, cases=4, flags=("-O1",), oracle="own", sums=False).is_right
