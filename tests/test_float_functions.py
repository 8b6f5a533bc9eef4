"""Functions between float numbers stay float: the C against onnxruntime's numbers, and at the ends of float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from batch import require
from functions_recorded import FUNCTIONS, WITH_NUMBERS, alone
from models import node_model, problems

import qcgen
from qcgen.arithmetic import ONNXRUNTIME
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.verification import verify

RECORDED = Path(__file__).parent / "data" / "onnxruntime" / "functions.npz"
IMAGE = (2, 3, 4)


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_function_gives_what_onnxruntime_gave_but_for_rounding(name):
    """As in qcgen verify: 1e-5 of the number, at least of 1, and as much again for onnxruntime's own rounding."""
    require("gcc")
    with np.load(RECORDED) as recorded:
        assert str(recorded["version"]) == ONNXRUNTIME
        x, wanted = recorded["x"], recorded[f"float.{name}"]
    artifact = qcgen.compile(alone(name, x.shape), name="function")
    [y] = artifact.load().run(None, {"x": x})
    allowed = tolerances(artifact.program, evaluate_all(artifact.program, {"x": x}))[artifact.program.outputs[0].name]
    is_number = np.isfinite(wanted) & np.isfinite(y)
    assert np.count_nonzero(is_number) > 300  # Log has no value below 0
    assert (np.abs(y[is_number] - wanted[is_number].astype(np.float64)) <= 2 * allowed[is_number]).all()
    # Next to the largest float32 number a result may be infinite in one of the two.
    beyond = np.isfinite(y) != np.isfinite(wanted)
    assert (np.abs(np.where(np.isfinite(y), y, wanted)[beyond]) > 1e38).all()


@pytest.mark.parametrize(
    "op_type", ["Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "HardSwish", "HardSigmoid", "Softsign", "GlobalAveragePool"]
)
def test_onnxruntimes_own_functions_are_judged_in_every_bit_by_onnxruntime_alone(op_type):
    """Others compute them by other approximations, which is not wrong."""
    require("gcc")
    artifact = qcgen.compile(node_model(op_type, {"x": ("float", (1, 5, 3, 7))}, opset=20), name="function")
    by_runtime, by_onnx = (verify(artifact, cases=3, oracle=oracle) for oracle in ("auto", "onnx"))
    assert by_runtime.is_right
    assert by_runtime.judge.criterion == "bit for bit"
    assert by_onnx.is_right
    assert "within twice the tolerance" in by_onnx.judge.criterion


NUMBERS = np.array([-np.inf, -3.0, -0.7, -0.0, 0.0, 0.5, 1.5, 2.5, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if len(FUNCTIONS[name]) == 1])
def test_a_function_of_special_numbers_is_the_references(name):
    require("gcc")
    artifact = qcgen.compile(alone(name, NUMBERS.shape), name="function")
    [y] = artifact.load().run(None, {"x": NUMBERS})
    wanted = evaluate_all(artifact.program, {"x": NUMBERS})[artifact.program.outputs[0].name]
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("op_type", "of"), [("Max", np.maximum), ("Min", np.minimum)])
def test_the_largest_of_several_tensors_is_exact_and_nan_wins(op_type, of):
    require("gcc")
    draw = np.random.RandomState(0)
    a, c = (draw.normal(0, 1, IMAGE).astype(np.float32) for _ in range(2))
    a[0, 0, 0], c[1, 0, 0] = np.nan, np.nan
    b = draw.normal(0, 1, (3, 1)).astype(np.float32)
    model = node_model(op_type, {"a": ("float", IMAGE), "b": b, "c": ("float", IMAGE)})
    [y] = qcgen.compile(model, name="choice").load().run(None, {"a": a, "c": c})
    np.testing.assert_array_equal(y, of(of(a, b), c))


def test_the_largest_of_one_tensor_is_the_tensor():
    require("gcc")
    x = np.arange(6, dtype=np.float32)
    [y] = qcgen.compile(node_model("Max", {"x": ("float", (6,))}), name="one").load().run(None, {"x": x})
    np.testing.assert_array_equal(y, x)


def test_a_slope_below_zero_is_that_of_the_channel():
    require("gcc")
    x, slope = np.linspace(-2, 2, 24, dtype=np.float32).reshape(IMAGE), np.float32([[0.1], [-3], [0]])
    model = node_model("PRelu", {"x": ("float", IMAGE), "slope": slope})
    [y] = qcgen.compile(model, name="prelu").load().run(None, {"x": x})
    np.testing.assert_array_equal(y, np.where(x < 0, slope * x, x))


def test_a_power_may_have_computed_exponents():
    require("gcc")
    x, exponents = np.linspace(0.1, 3, 24, dtype=np.float32).reshape(IMAGE), np.linspace(-2, 2, 4, dtype=np.float32)
    model = node_model("Pow", {"x": ("float", IMAGE), "e": ("float", (4,))}, {"y": None})
    [y] = qcgen.compile(model, name="power").load().run(None, {"x": x, "e": exponents})
    np.testing.assert_allclose(y, x**exponents, rtol=1e-6)


REFUSED = {
    "a slope that is larger": (
        node_model("PRelu", {"x": ("float", (3, 1)), "slope": np.ones((3, 4), np.float32)}),
        "its slope of shape (3, 4) cannot be broadcast to (3, 1)",
    ),
    "a slope of more dimensions": (
        node_model("PRelu", {"x": ("float", (3,)), "slope": np.ones((1, 3), np.float32)}),
        "its slope of shape (1, 3) cannot be broadcast to (3,)",
    ),
    "shapes that do not agree": (
        node_model("Max", {"a": ("float", (3,)), "b": ("float", (4,))}),
        "the shapes (3,) and (4,) cannot be broadcast",
    ),
    "exponents that do not agree": (
        node_model("Pow", {"x": ("float", (3,)), "e": np.ones(4, np.float32)}),
        "the shapes (3,) and (4,) cannot be broadcast",
    ),
    "an infinite slope": (
        node_model("Elu", {"x": ("float", (3,))}, alpha=float("inf")),
        "alpha is not finite",
    ),
    "a newer operator": (
        node_model("Mish", {"x": ("float", (3,))}),
        "Mish needs opset 18 of ai.onnx; the model imports 13",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name):
    model, what = REFUSED[name]
    assert [problem.what for problem in problems(qcgen.compile, model)] == [what]
