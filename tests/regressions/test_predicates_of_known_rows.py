"""gcc 12 for Helium made {1, 1, 1, 1} of a predicate {1, 0, 0, 0}: depthwise kernels of 5 and 6 rows were wrong."""

from batch import family_unit
from cases import S8
from cases_mve_depthwise import depthwise, same
from emulated import assert_equals_reference

CASES = [
    depthwise(f"{k}_rows_of_{c}_channels", c, (11, 10), (k, w), S8, pads=same((k, w)))
    for k, w, c in ((5, 3, 10), (5, 3, 20), (6, 1, 20), (6, 3, 10))
]


def test_kernels_of_five_and_six_rows_give_the_references_outputs(tmp_path):
    units = [family_unit(case, "size", "cortex-m55", "arm_mve") for case in CASES]
    assert_equals_reference("cortex-m55", units, tmp_path, "gcc", ("-O2",))
