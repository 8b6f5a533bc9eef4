"""Sums and products with a constant that equals its zero point, or code 0, divided by zero when they were compiled.

The term of the constant is 0 then for every pair of codes, so no slope of it can be searched for.
"""

import numpy as np
import pytest
from computed import computed, one_node
from onnx import helper
from qdq import Chain

ALL = np.arange(-128, 128).astype(np.int8)
ROLES = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")


@pytest.mark.parametrize("zero_point", [0, 7, -128])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_the_other_operand_alone_decides(op_type, zero_point):
    by = {"scale": np.float32(0.5), "zero_point": np.int8(zero_point)}
    constants = {f"{role}_{key}": value for role in "ABC" for key, value in by.items()}
    constants["B"] = np.full(256, zero_point, np.int8)
    model = one_node(helper.make_node(op_type, ROLES, ["y"], domain="com.microsoft"), {"A": ALL}, constants)
    [y] = computed(model, {"A": ALL})
    assert np.array_equal(y, ALL if op_type == "QLinearAdd" else np.full(256, zero_point))


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_so_it_does_between_dequantize_and_quantize(op_type):
    chain, by = Chain(), (0.5, np.int8(3))
    constant = chain.weights("constant", np.full((1, 256), 3, np.int8), by)
    chain.quantize(chain.node(op_type, [chain.dequantize("x", by), constant]), by, "y")
    x = ALL.reshape(1, 256)
    [y] = computed(chain.model(x.shape, x_type="int8"), {"x": x})
    assert np.array_equal(y, x if op_type == "Add" else np.full_like(x, 3))


def test_two_terms_that_are_0_for_every_pair_are_a_line():
    from qcgen.requantize.of_codes import Pairs, evaluate, fit_pairs

    none = np.zeros(4, np.int64)
    pairs = Pairs(none + 5, (none, none), (0.3, 0.7), 5.0, -128, 127)
    assert np.array_equal(evaluate(fit_pairs(pairs), pairs), pairs.codes)
