"""The kernels of pointwise operators, poolings, softmax and movements give the reference's outputs, bit for bit."""

from dataclasses import replace

import pytest
from batch import require
from marks import share_at_first, some_at_first
from network_cases import UNITS
from network_units import Library, Unit, difference, render

from qcgen.cores import TARGETS
from qcgen.ir.program import Conv, MatMul, MaxPool, OrionConv
from qcgen.kernels import KERNELS
from qcgen.kernels.arm_mve.other_operators import MATMUL as MVE_MATMUL
from qcgen.kernels.pooling import prepare_max

DSP_OPERATORS = {
    "arm_dsp/quantized_binary": ("QLinearAdd", "QLinearMul"),
    "arm_dsp/global_average_pool": ("GlobalAveragePool",),
    "arm_dsp/matmul": ("QLinearMatMul",),
}

WITH_BRANCHES = {"cortex-m0", "cortex-m23", "rv32imc", "scalar32"}
"""Cores that choose the larger one of two numbers by a branch, without vectors of bytes."""


@pytest.fixture(scope="module", params=some_at_first(["gcc", "clang"]))
def library(request, tmp_path_factory, level, selected):
    """All units in one library."""
    require(request.param)
    return Library(tmp_path_factory.mktemp(request.param), selected(UNITS), request.param, (level,))


@pytest.mark.parametrize("unit", share_at_first(UNITS, 4), ids=lambda unit: unit.name)
def test_a_kernel_gives_the_outputs_of_the_reference(unit, library):
    assert not difference(unit, library.run(unit.name))


@pytest.mark.parametrize("unit", share_at_first(UNITS, 4), ids=lambda unit: unit.name)
def test_an_output_that_may_lie_over_an_input_does(unit, library):
    for number in library.built[unit.name].prepared.in_place:
        assert not difference(unit, library.run(unit.name, over=number))


def test_every_operator_is_served_by_one_portable_kernel_and_refused_by_all_others_with_a_reason():
    portable = [kernel for kernel in KERNELS if not kernel.needs]
    for unit in UNITS:
        assert not isinstance(unit.op, Conv | OrionConv)
        reasons = {kernel.name: kernel.why_not(unit.op, unit.setting) for kernel in portable}
        serving = [name for name, reason in reasons.items() if reason is None]
        assert len(serving) == 1, f"{unit.name} is served by {serving}"
        assert "" not in reasons.values()


@pytest.mark.parametrize("kernel", DSP_OPERATORS)
def test_the_dsp_extension_serves_what_lies_side_by_side_and_leaves_the_rest_to_portable_kernels(kernel):
    own = [unit for unit in UNITS if unit.target == "cortex-m4" and unit.op.op_type in DSP_OPERATORS[kernel]]
    served = {unit.kernel.name for unit in own}
    assert served == {kernel, kernel.replace("arm_dsp", "portable")}


def test_helium_serves_products_with_four_columns_whose_terms_lie_side_by_side():
    own = [unit for unit in UNITS if unit.target == "cortex-m55" and isinstance(unit.op, MatMul)]
    served = {unit.kernel.name for unit in own}
    assert served == {"arm_mve/matmul", "arm_dsp/matmul", "portable/matmul"}
    for unit in own:
        assert (unit.kernel.name == "arm_mve/matmul") == (not MVE_MATMUL.why_not(unit.op, unit.setting))


def test_helium_serves_poolings_of_whole_vectors_of_channels():
    own = [unit for unit in UNITS if unit.target == "cortex-m55" and isinstance(unit.op, MaxPool)]
    served = {unit.kernel.name for unit in own}
    assert served == {"arm_mve/max_pool", "portable/max_pool"}


def test_bytes_are_compared_as_words_where_a_choice_is_a_branch():
    [unit] = [unit for unit in UNITS if unit.name == "max_square_s8_last_last"]
    chosen = {}
    for target in TARGETS:
        setting = replace(unit, target=target).setting
        chosen[target] = prepare_max(unit.op, setting).context.inner
    assert {target for target, inner in chosen.items() if inner == "largest_word"} == WITH_BRANCHES
    assert {*chosen.values()} == {"largest_word", "largest"}


def test_every_form_of_sums_and_products_occurs():
    every = {"line", "split line", "even window", "split even window", "exceptions", "table"}
    for names in (("add", "mul"), ("dsp_add", "dsp_mul")):
        assert {form for unit in UNITS if unit.name.startswith(names) for form in certified(unit)} >= every


def certified(unit: Unit) -> set[str]:
    return set(render(unit).prepared.certificate.requantize or {})
