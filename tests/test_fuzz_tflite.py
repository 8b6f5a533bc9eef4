"""Random .tflite files against TensorFlow Lite Micro: a few in every run, and bugs that are planted are found."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_models import Field, Step, Told, weights, written
from tools import require, require_modules

require_modules("onnxruntime", "tflite_micro")

from fuzz_networks.__main__ import Session, tflite_file  # noqa: E402
from fuzz_networks.options import BUILDS  # noqa: E402
from fuzz_networks.tflm import TfliteJudge  # noqa: E402

import qcgen  # noqa: E402
from qcgen.reference import evaluate  # noqa: E402
from qcgen.tflite import fixed_point  # noqa: E402


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What comes of files, built by gcc alone."""

    def tried(numbers):
        require("gcc")
        monkeypatch.setattr("fuzz_networks.options.CORES", {})
        monkeypatch.setattr("fuzz_networks.options.BUILDS", {"gcc -O0": ("gcc", "-O0")})
        monkeypatch.setattr("fuzz_networks.options.SHARES", (1,))
        monkeypatch.setitem(BUILDS, "gcc -O0", ("gcc", "-O0"))
        return Session(1, tmp_path, "", tflite_file).run(numbers)

    return tried


def test_files_are_the_same_for_the_same_seed_and_number():
    assert tflite_file(3, 14) == tflite_file(3, 14) != tflite_file(3, 15)


@pytest.mark.all
def test_twenty_files_are_right(run):
    session = run(range(20))
    assert session.kinds == {}
    assert session.counts["accepted"] > 15


@pytest.mark.all
def test_multipliers_that_are_a_little_too_large_are_found(run, monkeypatch):
    def larger(scale):
        multiplier, exponent = right(scale)
        return multiplier + (1 << 16), exponent

    right = fixed_point.multiplier_of
    monkeypatch.setattr(fixed_point, "multiplier_of", larger)
    assert run(range(20)).kinds["output"] > 0


BY = (0.05, 3)
CONSTANTS = {
    "PACK": ([Told("c", (1, 4), *BY, weights(1, 1, 4))], Step("PACK", (0, 2), (1,), {0: Field("i", 2)}), (2, 1, 4)),
    "BATCH_MATMUL": (
        [Told("c", (3, 4), *BY, weights(2, 3, 4))],
        Step("BATCH_MATMUL", (0, 2), (1,), {1: Field("b", 1)}),
        (1, 3),
    ),
    "MAXIMUM": ([Told("c", (1, 4), *BY, weights(3, 1, 4))], Step("MAXIMUM", (2, 0), (1,), {}), (1, 4)),
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_constants_that_are_moved_are_computed_here(kind):
    """The first ended in a traceback, the second was refused."""
    tensors, step, y_shape = CONSTANTS[kind]
    y = Told("output0", y_shape, *((0.4, -9) if kind == "BATCH_MATMUL" else BY))
    content = written([Told("input0", (1, 4), *BY), y, *tensors], [step], (0,), (1,))
    judge, program = TfliteJudge(content), qcgen.compile(content).program
    for feeds in judge.feeds(1, 8):
        np.testing.assert_array_equal(evaluate(program, feeds)["output0"], judge.run(feeds)["output0"])


def test_outputs_that_nothing_computes_are_refused():
    tensors = [Told("x", (1, 4), *BY), Told("y", (1, 4), *BY)]
    content = written(tensors, [Step("RELU", (0,), (1,))], (0,), (1, 0))
    with pytest.raises(qcgen.ModelRejected, match="output 'x': it does not depend on an input, or is one"):
        qcgen.compile(content)


def test_a_sum_of_constants_is_refused():
    tensors = [Told("x", (1, 4), *BY), Told("y", (1, 4), *BY), Told("c", (1, 4), *BY, weights(1, 1, 4))]
    tensors.append(Told("twice", (1, 4), *BY))
    steps = [Step("ADD", (2, 2), (3,), {0: Field("b", 0)}), Step("ADD", (0, 3), (1,), {0: Field("b", 0)})]
    with pytest.raises(qcgen.ModelRejected, match="all its inputs are constant"):
        qcgen.compile(written(tensors, steps, (0,), (1,)))
