"""Networks that keep states: the C gives, call by call, what TensorFlow Lite Micro was recorded to give."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tflite_models import Step, Told, written
from tflite_states import CALL, STREAMS, begun, frames, handle, named

import qcgen
from qcgen.reference import evaluate_frames

RECORDED = np.load(Path(__file__).parent / "data" / "tflite" / "streams.npz")
REAL = Path(__file__).parents[2] / "shared" / "models" / "tflite"
NETWORKS = ["stream_conv", "mww_v2_okay_nabu", "mww_v1_alexa"]
OPTIONS = [
    {},
    {"simplify": False},
    {"layout": "nchw", "io_memory": "arena", "optimize": "speed", "target": "cortex-m4"},
    {"arena": "least", "target": "rv32imc"},
]


@cache
def compiled(name):
    artifact = qcgen.compile(STREAMS[name], name="net")
    return artifact, artifact.load(("-O1",))


def first_of(artifact):
    return artifact.program.of_caller[1][0].name


@pytest.mark.parametrize("name", STREAMS)
def test_the_reference_gives_what_was_recorded(name):
    artifact, _ = compiled(name)
    values = evaluate_frames(artifact.program, [{"x": x} for x in frames(STREAMS[name])])
    assert np.array_equal(np.stack([each[first_of(artifact)] for each in values]), RECORDED[name])


def one(steps, once=((), ())):
    """A network of one variable of six codes."""
    tensors = [Told("x", (1, 6), 0.05, 3), handle("v"), Told("before", (1, 6), 0.05, 3), Told("y", (1, 6), 0.05, 3)]
    sum_of = Step("MAXIMUM", (2, 0), (3,))
    return written(tensors, [*steps, sum_of], (0,), (3,), once)


READ = Step("READ_VARIABLE", (1,), (2,))
BEGIN = begun("v", np.zeros((1, 6)), 0.05, 3)


def test_variables_that_cannot_be_are_refused():
    late = one([named("v", 1), READ, CALL], BEGIN)
    nameless = one([Step("READ_VARIABLE", (0,), (2,))])
    small = one([CALL, named("v", 1), READ], begun("v", np.zeros((1, 3)), 0.05, 3))
    more = Told("more", (1, 6), 0.05, 3)
    computed = [*BEGIN[0], more], [*BEGIN[1], Step("LOGISTIC", (1,), (2,))]
    others = one([CALL, named("v", 1), READ], computed)
    missing = one([CALL, named("v", 1), READ])
    for data, what in (
        (late, "it stands behind an operator that reads or assigns a variable"),
        (nameless, "its tensors are not a variable and its value"),
        (small, "variable 'v' has not the shape and type of 'before' everywhere"),
        (others, "it runs LOGISTIC_2: only constants are assigned to variables there"),
        (missing, "it runs subgraph 1 of 1 once"),
    ):
        with pytest.raises(qcgen.ModelRejected) as error:
            qcgen.compile(data)
        assert what in str(error.value)
