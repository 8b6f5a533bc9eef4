"""Normalizations, products of computed matrices and softmaxes give the codes that onnxruntime gave."""

from pathlib import Path

import numpy as np
import pytest
from rows_recorded import CASES, feeds

import qcgen
from qcgen.arithmetic import ONNXRUNTIME
from qcgen.reference import evaluate

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "rows.npz")


def test_the_recordings_are_of_the_version_that_is_meant():
    assert str(RECORDED["version"]) == ONNXRUNTIME


@pytest.mark.parametrize("name", CASES)
def test_the_reference_gives_the_recorded_codes(name):
    program = qcgen.compile(CASES[name][0]()).program
    [y] = evaluate(program, feeds(name)).values()
    assert y.dtype == RECORDED[name].dtype
    assert np.array_equal(y, RECORDED[name])


@pytest.mark.parametrize(
    "name", ["LayerNormalization 31", "InstanceNormalization 2x4x18x17", "QLinearMatMul int8 int8"]
)
def test_the_c_gives_the_recorded_codes(name):
    model = qcgen.compile(CASES[name][0]()).load()
    assert np.array_equal(model.run(None, feeds(name))[0], RECORDED[name])
