"""Which kernel is chosen: by cost where it is known, else by its place in the list."""

import pytest

from qcgen.ir.program import Lookup, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels.cost import Estimate, by_core
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.plan.select import select
from qcgen.targets import TARGETS

SETTING = Setting(Layout.CHANNELS_LAST, Layout.CHANNELS_LAST, "size", TARGETS["cortex-m4"])
X = Tensor("x", DType.INT8, (4,))
OP = Lookup("lookup", "Sigmoid", X, X, None)


def kernel(name, cost=None, reason=None, needs=()):
    def prepare(*_):
        raise AssertionError("choosing packs nothing")

    return Kernel(name, "", frozenset(needs), lambda *_: reason, prepare, lambda *_: cost)


def chosen(*kernels):
    return select(OP, SETTING, kernels)


def test_the_kernel_of_the_fewest_instructions_is_chosen():
    found = chosen(kernel("slow", 300.0), kernel("fast", 100.4), kernel("medium", 200.0))
    assert (found.kernel.name, found.cost) == ("fast", 100)


def test_of_equal_kernels_the_first_is_chosen():
    assert chosen(kernel("first", 100.0), kernel("second", 100.0)).kernel.name == "first"


def test_the_list_decides_where_the_first_kernel_that_serves_has_no_figures():
    found = chosen(kernel("unable", 1.0, "no"), kernel("first", None), kernel("second", 1.0))
    assert (found.kernel.name, found.cost) == ("first", None)
    assert [passed.kernel for passed in found.passed_over] == ["unable"]


def test_a_kernel_without_figures_behind_one_with_figures_is_not_compared():
    found = chosen(kernel("first", 300.0), kernel("unknown", None), kernel("fast", 100.0))
    assert found.kernel.name == "fast"
    assert [passed.kernel for passed in found.passed_over] == ["first"]


def test_slower_kernels_are_passed_over_with_both_counts():
    found = chosen(kernel("slow", 1234567.0), kernel("fast", 1000000.0))
    [passed] = found.passed_over
    assert (passed.kernel, passed.reason) == ("slow", "about 1 234 567 instructions, the chosen one about 1 000 000")


def test_slower_kernels_behind_the_chosen_one_are_told_too():
    found = chosen(kernel("fast", 10.0), kernel("slow", 20.0), kernel("unable", 1.0, "it cannot"))
    assert [passed.kernel for passed in found.passed_over] == ["slow"]


def test_a_kernel_that_does_not_serve_is_never_asked_for_its_cost():
    def cost(*_):
        raise AssertionError("asked")

    unable = Kernel("unable", "", frozenset(), lambda *_: "it cannot", None, cost)
    found = chosen(unable, kernel("able", 5.0))
    assert found.kernel.name == "able"
    assert [(p.kernel, p.reason) for p in found.passed_over] == [("unable", "it cannot")]


def test_kernels_for_other_targets_are_not_mentioned():
    found = chosen(kernel("vectors", 1.0, needs=["mve"]), kernel("able", 5.0))
    assert found.kernel.name == "able"
    assert found.passed_over == ()


def test_an_operator_that_no_kernel_serves_is_an_error_of_ours():
    with pytest.raises(AssertionError, match="no kernel accepts lookup"):
        chosen(kernel("unable", 1.0, "no"))


def estimate(counts, rows):
    prepared = Prepared((), {}, (), (), None)
    return Estimate(lambda *_: prepared, lambda *_: counts, by_core(("cortex-m3", "cortex-m4"), rows))


def test_an_estimate_adds_up_work_times_figures_of_the_core():
    cost = estimate({"product": 10, "output": 3}, {"product": (9, 2.5), "output": (9, 4)})
    assert cost(OP, SETTING) == 37


def test_an_estimate_is_none_without_figures_for_the_core():
    cost = estimate({"product": 10}, {"product": (2.5, None)})
    assert cost(OP, SETTING) is None
    assert cost(OP, Setting(**{**vars(SETTING), "target": TARGETS["portable"]})) is None


def test_work_that_is_not_done_needs_no_figure():
    cost = estimate({"product": 10, "rest": 0}, {"product": (1, 2)})
    assert cost(OP, SETTING) == 20
    assert estimate({"product": 10, "rest": 1}, {"product": (1, 2)})(OP, SETTING) is None
