"""Every kernel, built for the host, gives the reference's outputs on every case, layout and aim."""

from pathlib import Path

import numpy as np
import pytest
from batch import build, require, unit
from cases import CASES, Case

import qcgen
from qcgen.ir.plan import Options
from qcgen.kernels import KERNELS
from qcgen.render import options_text

LAYOUTS, AIMS = ("nhwc", "nchw"), ("size", "speed")
UNITS = [(case, layout, optimize) for case in CASES for layout in LAYOUTS for optimize in AIMS]
DIGITS = Path(__file__).parent / "data" / "digits"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of all units, linked into one program."""
    require("gcc")
    units = [unit(*key) for key in UNITS]
    return build(tmp_path_factory.mktemp("kernels"), units, "gcc", ("-O1",)).run()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_generated_c_equals_the_reference(case: Case, outputs):
    from batch import difference

    units = [unit(case, layout, optimize) for layout in LAYOUTS for optimize in AIMS]
    wrong = [text for each in units if (text := difference(each, outputs[each.name]))]
    assert not wrong, "\n".join(wrong)
