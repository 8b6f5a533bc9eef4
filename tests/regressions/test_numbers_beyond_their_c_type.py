"""An addend below -2^31 in a table of int32: the search admitted it where the sums that it joins were in int32."""

from dataclasses import replace

import numpy as np
import pytest
from bench.compiling import Network
from requantization_layers import stairs_of

import qcgen
from qcgen.errors import ProofFailed
from qcgen.render import render
from qcgen.render.c_text import int32, int64
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import FixedPoint, certify

LAYERS = [  # scales, lowest and highest accumulators, zero point, bits
    ((7.26865028e-08, 3.70420351e-05), (91249458, 406455081), (91249539, 406455119), -110, 2),
    ((2.51512895e-07, 1.05678293e-06), (-7109211, -14381061), (-6841477, -14370493), 26, 6),
]


@pytest.mark.parametrize(("scale", "lo", "hi", "zero_point", "bits"), LAYERS)
def test_addends_are_in_int32(scale, lo, hi, zero_point, bits):
    fixed = choose(stairs_of(np.array(scale), np.array(lo), np.array(hi), zero_point), bits=bits)
    assert np.abs(fixed.addend).max() < 2**31


def constant(addend: int, acc: int, guard: int = 0) -> None:
    """Certifies a line that is the zero point for the accumulator, which is in int32 with its addend."""
    none, zero_point, shift = np.zeros(1, np.int64), 3, 4
    fixed = FixedPoint(
        "multiply-high",
        none,
        none + addend,
        none + (zero_point << shift) + 8,
        shift,
        0,
        none + guard,
        none,
        none,
        {},
        0,
    )
    certify(replace(fixed, word=30), stairs_of(np.array([1e-30]), np.array([acc]), np.array([acc]), zero_point))


@pytest.mark.parametrize("guard", [0, 1])
def test_no_certificate_is_given_for_an_addend_beyond_int32(guard):
    constant(-(2**31), 2**28, guard)
    with pytest.raises(ProofFailed, match="C type"):
        constant(-(2**31) - 5, 2**29, guard)


def test_no_certificate_is_given_for_a_guard_band_of_sums_beyond_int32():
    constant(-(2**20), 2**29)
    with pytest.raises(ProofFailed, match="C type"):
        constant(-(2**20), 2**29, guard=1)


def one_layer() -> qcgen.Artifact:
    n = Network((1, 3, 6, 6))
    return qcgen.compile(n.model(n.conv("x", 4, 3)), name="net")


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_table_with_a_number_beyond_its_type_is_a_defect(value):
    plan = one_layer().plan
    [call] = plan.calls
    [bias] = [table for table in call.tables if table.role == "bias"]
    values = bias.values.astype(np.int64)
    values[1] = value
    tables = tuple(replace(table, values=values) if table == bias else table for table in call.tables)
    render(plan)
    with pytest.raises(AssertionError, match=rf"'qlinearconv_0' \(QLinearConv\): {bias.symbol} holds {value}"):
        render(replace(plan, steps=(replace(call, tables=tables),)))


def test_literals_beyond_their_type_are_a_defect():
    for literal, bits in ((int32, 32), (int64, 64)):
        with pytest.raises(AssertionError, match=f"is not an int{bits}_t"):
            literal(2 ** (bits - 1))
