"""Float means added up in another order, or divided by padding that a window does not see."""

import pytest
from batch import require
from qdq import Chain

import qcgen
from qcgen.verification import verify


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
