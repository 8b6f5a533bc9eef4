"""Tables of Tanh were made with numpy's tanh, which differs from onnxruntime's rational function in many numbers.

Quantizers give Tanh the scale 2/255, where its ends, -1 and 1, are ties: one float32 next to 1 decides on a code.
"""

import numpy as np
from functions_recorded import between_codes

import qcgen

RECORDED = {-30: -127, -29: -127, -28: -127, -27: -128, -26: -127, -25: -127}
"""What onnxruntime 1.32.0 gives for some codes of x: its tanh does not always rise. By numpy's, -27 gives -127."""


def test_a_table_of_tanh_is_onnxruntime_s_where_it_saturates():
    model = between_codes("Tanh", np.float32(0.08397741), np.int8(80), np.float32(2 / 255), np.int8(0))
    [op] = qcgen.compile(model).program.operators
    assert {code: int(op.table[code + 128]) for code in RECORDED} == RECORDED
