"""Functions of a float32 number, and the tables that are made with them, against recordings of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from functions_recorded import FUNCTIONS, OF_CHANNELS, WITH_NUMBERS, alone, between_codes
from marks import share_at_first
from tools import require_modules

import qcgen
from qcgen import functions
from qcgen.arithmetic import ONNXRUNTIME
from qcgen.ir.program import ChannelLookup, Lookup
from qcgen.lower.elementwise import FUNCTIONS as LOWERED

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "functions.npz")
COMPUTED = {
    "Celu": lambda x: functions.celu(x, 0.7),
    "Elu": lambda x: functions.elu(x, 1.7),
    "Erf": functions.erf,
    "Exp": functions.exponential,
    "Gelu": functions.gelu,
    "Gelu by tanh": functions.gelu_tanh,
    "HardSigmoid": lambda x: functions.hard_sigmoid(x, 0.37, 0.1),
    "HardSwish": functions.hard_swish,
    "LeakyRelu": lambda x: functions.leaky_relu(x, -0.3),
    "Log": functions.logarithm,
    "Selu": lambda x: functions.selu(x, 1.67326319217681884765625, 1.05070102214813232421875),
    "Sigmoid": functions.logistic,
    "Softplus": functions.softplus,
    "Softsign": functions.softsign,
    "Tanh": functions.tanh,
    "x^2": lambda x: functions.power(x, np.asarray(2, np.float32)),
    "x^3": lambda x: functions.power(x, np.asarray(3, np.float32)),
}
"""Functions of their own, all of whose numbers are recorded, too."""


def test_the_recordings_are_of_the_onnxruntime_that_is_meant():
    assert str(RECORDED["version"]) == ONNXRUNTIME
    assert set(COMPUTED) == set(WITH_NUMBERS)


def test_every_operator_that_tables_are_made_of_is_recorded():
    recorded = {
        (rest[0].get("domain", "") if rest else "", op_type)
        for steps in FUNCTIONS.values()
        for op_type, _, *rest in steps
    }
    others = "Add Div Max Min Mul PRelu Pow Sub".split()
    of_one = {key for key in LOWERED if key != ("", "Relu")}  # which changes no number
    assert {*of_one, *(("", op_type) for op_type in others)} <= recorded


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_function_gives_onnxruntime_s_numbers_bit_for_bit(name):
    with np.errstate(all="ignore"):
        found = COMPUTED[name](RECORDED["x"])
    assert found.dtype == np.float32
    assert np.array_equal(found, RECORDED[f"float.{name}"], equal_nan=True)


@pytest.mark.parametrize("name", share_at_first(list(FUNCTIONS)))
def test_a_table_has_onnxruntime_s_codes(name):
    meanings = zip(*(RECORDED[key] for key in ("x_scale", "x_zero_point", "y_scale", "y_zero_point")), strict=True)
    for meaning, codes in zip(meanings, RECORDED[f"table.{name}"], strict=True):
        [op] = qcgen.compile(between_codes(name, *meaning)).program.operators
        assert isinstance(op, Lookup)
        assert np.array_equal(op.table, codes), meaning


@pytest.mark.parametrize("name", OF_CHANNELS)
def test_the_tables_of_channels_have_onnxruntime_s_codes(name):
    meanings = zip(*(RECORDED[key] for key in ("x_scale", "x_zero_point", "y_scale", "y_zero_point")), strict=True)
    for meaning, codes in zip(meanings, RECORDED[f"tables.{name}"], strict=True):
        [op] = qcgen.compile(between_codes(name, *meaning)).program.operators
        # Where all channels have the same codes, they have one table.
        assert isinstance(op, ChannelLookup) == bool((codes != codes[0]).any())
        tables = op.tables if isinstance(op, ChannelLookup) else op.table[None]
        assert np.array_equal(np.broadcast_to(tables, codes.shape), codes), meaning


def test_lines_and_tables_of_channels_are_both_met():
    row = [RECORDED[key][5] for key in ("x_scale", "x_zero_point", "y_scale", "y_zero_point")]
    forms = {}
    for name in OF_CHANNELS:
        [call] = qcgen.compile(between_codes(name, *row)).plan.calls
        forms[name] = len(call.tables)
        assert (call.certificate.requantize is None) == (forms[name] == 1)
    assert set(forms.values()) == {1, 2, 4}


PLACES = 37
"""Numbers of a tensor: whole vectors of every length, and a rest."""


def is_unsteady(name: str) -> bool:
    """Whether onnxruntime gives another number where the same one stands elsewhere in its tensor."""
    import onnxruntime

    session = onnxruntime.InferenceSession(alone(name, (PLACES,)), providers=["CPUExecutionProvider"])
    for numbers in np.random.RandomState(0).uniform(-4, 4, (16, PLACES)).astype(np.float32):
        turned = (np.roll(session.run(None, {"x": np.roll(numbers, by)})[0], -by) for by in range(PLACES))
        if len({row.tobytes() for row in turned}) > 1:
            return True
    return False


@pytest.mark.parametrize("name", [name for name, steps in FUNCTIONS.items() if len(steps) == 1])
def test_a_function_that_depends_on_the_place_of_its_number_is_named(name):
    require_modules("onnxruntime")
    assert FUNCTIONS[name][0][0] in functions.UNSTEADY or not is_unsteady(name)


def test_functions_that_depend_on_the_place_are_found(monkeypatch):
    require_modules("onnxruntime")
    assert is_unsteady("Sin")
    monkeypatch.setitem(FUNCTIONS, "Atan", [("Atan", "x")])
    assert is_unsteady("Atan")
