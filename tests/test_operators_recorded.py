"""Operators that move, choose and add codes: the reference and the C, against what onnxruntime computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from operators_recorded import OPERATORS, TYPES, codes, model

import qcgen
from qcgen.ir.program import inputs_of
from qcgen.ir.types import DType

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "operators.npz")
CASES = [(name, dtype) for name in OPERATORS for dtype in TYPES]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_codes_are_those_of_onnxruntime(name, dtype):
    x, y = codes(name, dtype), RECORDED[f"{name}.{dtype}"]
    artifact = qcgen.compile(model(name, dtype), name="recorded")
    tensors = [tensor for op in artifact.program.operators for tensor in (*inputs_of(op), op.y)]
    assert all(tensor.dtype is not DType.FLOAT32 for tensor in tensors)
    np.testing.assert_array_equal(artifact.load(("-O0",)).run(None, {"x": x})[0], y)


def test_what_is_recorded_is_what_is_compared():
    assert set(RECORDED) == {"version", *(f"{name}.{dtype}" for name, dtype in CASES)}
