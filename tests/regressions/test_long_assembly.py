"""Of assembly compilers know the lines alone: constants behind .irp were out of reach of a Thumb-1 function."""

import pytest
from batch import unit
from cases_scalar import SHAPES
from emulated import require_core, wrong_outputs
from subjects import of_unit


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_function_of_long_assembly_loads_no_constants(compiler, tmp_path):
    require_core("cortex-m0", compiler, counting=False)
    [case] = [case for case in SHAPES if case.name == "scalar_6_channels_in_7_out"]
    each = of_unit(unit(case, "nhwc", "speed", "cortex-m0"))
    assert not wrong_outputs("cortex-m0", [each], tmp_path, compiler, ("-O2",))
