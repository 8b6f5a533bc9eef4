"""QuickGelu with a negative alpha, Shrink with a negative lambd: a sign before the sign of the number was no C."""

import re

import numpy as np
import pytest
from batch import call, require
from models import MICROSOFT, node_model

import qcgen
from qcgen import ModelRejected
from qcgen.build import STRICT_FLAGS
from qcgen.render import templates

NUMBERS = {"minus": -1.702, "zero": 0.0, "minus_zero": -0.0, "tiny": -1e-45, "large": -3.4e38, "plus": 0.75}
NOT_FINITE = {"inf": np.inf, "minus_inf": -np.inf, "nan": np.nan}
OPERATORS = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "QuickGelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("lambd", "bias"),
    "ThresholdedRelu": ("alpha",),
}


def activation(op_type, value):
    domain = MICROSOFT if op_type == "QuickGelu" else ""
    return node_model(
        op_type, {"X": ("float", (5,))}, domain=domain, opset=20, **dict.fromkeys(OPERATORS[op_type], value)
    )


def test_each_number_makes_c_that_compiles(tmp_path):
    """Numbers that are not finite may be refused."""
    require("gcc")
    found = {}
    for op_type in OPERATORS:
        for name, value in (NUMBERS | NOT_FINITE).items():
            try:
                artifact = qcgen.compile(activation(op_type, value), name=f"{op_type}_{name}".lower())
            except ModelRejected:
                assert name in NOT_FINITE
                continue
            artifact.write(tmp_path)
            found[artifact.plan.prefix] = artifact
    (tmp_path / "all.c").write_text("".join(f'#include "{name}.c"\n' for name in found))
    call(["gcc", *STRICT_FLAGS, "-c", "all.c"], tmp_path)


@pytest.mark.parametrize("op_type", ["QuickGelu", "Shrink"])
def test_a_negative_number_is_used_as_it_is(op_type):
    require("gcc")
    x = np.float32([-2.5, -1, 0, 0.5, 3])
    [y] = qcgen.compile(activation(op_type, -1.5)).load(("-O1",)).run(None, {"X": x})
    expected = {
        "QuickGelu": x / (1 + np.exp(1.5 * x.astype(np.float64))),
        "Shrink": np.where(x < 1.5, x - 1.5, x + 1.5),
    }
    assert np.allclose(y, expected[op_type], rtol=1e-6)


def test_no_template_has_a_sign_right_before_a_number():
    signed = re.compile(r"[-+]\{\{[^}]*\| *(real|int32|int64)\b")
    found = [path.name for path in templates().rglob("*.jinja") if signed.search(path.read_text())]
    assert found == []
