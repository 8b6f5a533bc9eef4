"""The kernels of pointwise operators, poolings, softmax and movements give the reference's outputs, bit for bit."""

import numpy as np
import pytest
from batch import require
from network_cases import UNITS
from network_units import Library, Unit, render

from qcgen.ir.program import Conv, OrionConv
from qcgen.ir.types import DType
from qcgen.kernels import KERNELS

COMPILERS = {"gcc": ("-O1",), "clang": ("-O1",)}
FLOAT_TOLERANCE = 1e-6  # relative; float operators are allowed 1e-5


@pytest.fixture(scope="module", params=COMPILERS)
def library(request, tmp_path_factory):
    """All units in one library."""
    require(request.param)
    return Library(tmp_path_factory.mktemp(request.param), UNITS, request.param, COMPILERS[request.param])


def assert_equal(unit: Unit, found: np.ndarray) -> None:
    expected = unit.expected
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    exact = unit.op.y.dtype is not DType.FLOAT32 or unit.name.startswith(("max", "dequantize", "transpose", "pad"))
    if exact:
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_kernel_gives_the_outputs_of_the_reference(unit, library):
    assert_equal(unit, library.run(unit.name))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_an_output_that_may_lie_over_an_input_does(unit, library):
    for number in library.built[unit.name].prepared.in_place:
        assert_equal(unit, library.run(unit.name, over=number))


def test_every_operator_is_served_by_one_kernel_and_refused_by_all_others_with_a_reason():
    for unit in UNITS:
        assert not isinstance(unit.op, Conv | OrionConv)
        reasons = [kernel.why_not(unit.op, unit.setting) for kernel in KERNELS]
        assert reasons.count(None) == 1, unit.name
        assert all(reasons[i] for i in range(len(reasons)) if reasons[i] is not None)


def test_every_form_of_sums_and_products_occurs():
    forms = {form for unit in UNITS if unit.name.startswith(("add", "mul")) for form in certified(unit)}
    assert forms >= {"line", "split line", "even window", "split even window", "exceptions", "table"}


def certified(unit: Unit) -> set[str]:
    return set(render(unit).prepared.certificate.requantize or {})
