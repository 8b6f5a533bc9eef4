"""Which kernel is chosen: the first in the list that serves."""

import pytest

from qcgen.cores import TARGETS
from qcgen.ir.program import Lookup, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels import select
from qcgen.kernels.kernel import Kernel, Setting

SETTING = Setting(Layout.CHANNELS_LAST, Layout.CHANNELS_LAST, "size", TARGETS["cortex-m4"])
X = Tensor("x", DType.INT8, (4,))
OP = Lookup("lookup", "Sigmoid", X, X, None)


def kernel(name, reason=None, needs=()):
    def prepare(*_):
        raise AssertionError("choosing packs nothing")

    return Kernel(name, "", frozenset(needs), lambda *_: reason, prepare)


def chosen(*kernels):
    return select(OP, SETTING, kernels)


def test_the_first_kernel_that_serves_is_chosen_and_those_before_it_are_rejected():
    found = chosen(kernel("unable", "it cannot"), kernel("first"), kernel("second"))
    assert found.kernel.name == "first"
    assert [(passed.kernel, passed.reason) for passed in found.rejected] == [("unable", "it cannot")]


def test_a_kernel_behind_the_chosen_one_is_not_asked():
    def asked(*_):
        raise AssertionError("asked")

    assert chosen(kernel("first"), Kernel("second", "", frozenset(), asked, asked)).kernel.name == "first"


def test_kernels_for_other_targets_are_not_mentioned():
    found = chosen(kernel("vectors", needs=["mve"]), kernel("able"))
    assert found.kernel.name == "able"
    assert found.rejected == ()


def test_an_operator_that_no_kernel_serves_is_an_error_of_ours():
    with pytest.raises(AssertionError, match="no kernel accepts lookup"):
        chosen(kernel("unable", "no"))
