"""A row of a pooling had loops that never ran, of which gcc -O2 said that "iteration 613566756 invokes undefined"."""

from itertools import product

import numpy as np
import pytest
from batch import call, require
from marks import some_at_first
from network_cases import NCHW, quantized
from network_units import Unit, artifact

from qcgen.build import STRICT_FLAGS
from qcgen.ir.program import AveragePool, ConvGeometry, MaxPool
from qcgen.ir.types import DType

SHAPES = {
    # label: input, kernel, strides, pads_begin, pads_end, output
    "above": ((4, 5), (2, 3), (3, 1), (1, 0), (0, 0), (2, 3)),
    "below": ((4, 5), (2, 3), (3, 1), (0, 0), (1, 0), (2, 3)),
    "before": ((4, 5), (2, 3), (2, 3), (0, 1), (0, 0), (2, 2)),
    "behind": ((4, 5), (2, 3), (2, 3), (0, 0), (0, 1), (2, 2)),
    "all around": ((6, 6), (3, 3), (2, 2), (1, 1), (1, 1), (3, 3)),
}


def pools():
    for (label, (size, kernel, strides, before, after, output)), last in product(SHAPES.items(), (False, True)):
        g = ConvGeometry(1, 7, 7, 7, size, kernel, strides, (1, 1), before, after, output)
        x = quantized("x", DType.INT8, (1, 7, *size), 0.1, 3, NCHW)
        y = quantized("y", DType.INT8, (1, 7, *output), 0.05, 3, NCHW)
        same = quantized("y", DType.INT8, (1, 7, *output), 0.1, 3, NCHW)
        zeros = np.zeros(x.shape, np.int8)
        order = (0, 2, 3, 1) if last else ()
        name = f"{label.replace(' ', '_')}_{'last' if last else 'first'}"
        yield Unit(
            f"average_{name}",
            AveragePool("pool", "AveragePool", x, y, g, True),
            (zeros,),
            (order,) if last else (),
            order,
        )
        yield Unit(f"max_{name}", MaxPool("pool", "MaxPool", x, same, g), (zeros,), (order,) if last else (), order)


@pytest.mark.parametrize("compiler", some_at_first(["gcc", "clang"]))
@pytest.mark.parametrize("level", some_at_first(["-O2", "-O3", "-Os"]))
def test_padded_pools_take_the_strict_flags(compiler, level, tmp_path):
    require(compiler)
    units = list(pools())
    for each in units:
        artifact(each).write(tmp_path)
    call([compiler, *STRICT_FLAGS, level, "-c", *(f"{each.name}.c" for each in units)], tmp_path)
