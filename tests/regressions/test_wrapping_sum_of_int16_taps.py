"""gcc warns of sign conversion where a tap narrower than int is converted to unsigned within a sum."""

import pytest
from batch import require
from models import qlinear_conv, random_weights

import qcgen


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(("kernel", "x_type"), [(3, "uint8"), (1, "int8")])
def test_sums_of_taps_that_wrap_compile_without_a_warning(kernel, x_type, layout):
    require("gcc")
    w = random_weights((3, 3, kernel, kernel), "uint8")
    model = qlinear_conv((1, 3, 4, 4), w, x_type=x_type, w_zero_point=3, bias=[2**31 - 1, 0, 1])
    artifact = qcgen.compile(model, name="net", layout=layout, optimize="speed")
    assert artifact.report.nodes[0].wraps
    artifact.load()
