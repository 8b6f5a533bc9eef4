"""Functions of a float32 number, and the tables that are made with them, against recordings of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from functions_recorded import FUNCTIONS, between_codes

import qcgen
from qcgen import functions
from qcgen.arithmetic import ONNXRUNTIME
from qcgen.ir.program import Lookup

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "functions.npz")
COMPUTED = {
    "Elu": lambda x: functions.elu(x, 1.7),
    "Exp": functions.exponential,
    "HardSigmoid": lambda x: functions.hard_sigmoid(x, 0.37, 0.1),
    "HardSwish": functions.hard_swish,
    "LeakyRelu": lambda x: functions.leaky_relu(x, -0.3),
    "Sigmoid": functions.logistic,
    "Softplus": functions.softplus,
    "Tanh": functions.tanh,
}


def test_the_recordings_are_of_the_onnxruntime_that_is_meant():
    assert str(RECORDED["version"]) == ONNXRUNTIME
    assert COMPUTED.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_onnxruntime_s_numbers_bit_for_bit(name):
    with np.errstate(over="ignore", under="ignore"):
        found = COMPUTED[name](RECORDED["x"])
    assert found.dtype == np.float32
    assert np.array_equal(found, RECORDED[f"float.{name}"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_table_has_onnxruntime_s_codes(name):
    meanings = zip(*(RECORDED[key] for key in ("x_scale", "x_zero_point", "y_scale", "y_zero_point")), strict=True)
    for meaning, codes in zip(meanings, RECORDED[f"table.{name}"], strict=True):
        [op] = qcgen.compile(between_codes(name, *meaning)).program.operators
        assert isinstance(op, Lookup)
        assert np.array_equal(op.table, codes), meaning
