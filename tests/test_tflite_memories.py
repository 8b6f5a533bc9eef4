"""SVDF and LSTM of .tflite files that do not fit, or have what TensorFlow Lite Micro does not compute."""

from dataclasses import replace

import numpy as np
import pytest
from models import problems
from tflite_models import Field, Step, Told, bias, weights, written
from tflite_states import STREAMS, filters, frames, gates

import qcgen


def refused(data):
    [problem] = problems(qcgen.compile, data)
    return f"{problem.where}: {problem.what}"


def svdf(**changed):
    told = {
        "x": Told("x", (1, 6), 0.05, 3),
        "w": Told("w", (10, 6), 0.02, 0, weights(1, 10, 6)),
        "time": Told("time", (10, 4), 0.01, 0, weights(2, 10, 4)),
        "b": Told("b", (5,), 0.0006, 0, bias(3, 5), "int32"),
        "memory": Told("memory", (1, 40), 0.06, -4, is_variable=True),
        "y": Told("y", (1, 5), 0.07, -128),
    }
    told |= {name: replace(told[name], **fields) for name, fields in changed.items()}
    step = Step("SVDF", (0, 1, 2, 3, 4), (5,), {0: Field("i", 2), 1: Field("b", 1)})
    return written(tuple(told.values()), [step], (0,), (5,))


def test_a_small_one_compiles():
    assert qcgen.compile(svdf()).program.states[0].initial.shape == (1, 4, 10)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"memory": {"shape": (1, 41)}}, "do not fit its input, memory and output"),
        ({"y": {"shape": (1, 10)}}, "do not fit its input, memory and output"),
        ({"x": {"shape": (1, 2, 3)}}, "do not fit its input, memory and output"),
        ({"w": {"scale": [0.02] * 10}}, "its weights have several scales"),
        ({"memory": {"is_variable": False}}, "it reads 'memory', which nothing computes before it"),
        ({"memory": {"dtype": "int16"}}, "its weights are int8"),
        (
            {
                "time": {"shape": (10, 1), "data": weights(2, 10, 1)},
                "memory": {"shape": (1, 10)},
            },
            "its memory holds one call",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed, what):
    assert what in refused(svdf(**changed))


def test_a_variable_of_two_operators_is_refused():
    tensors = [
        Told("x", (1, 6), 0.05, 3),
        Told("w", (5, 6), 0.02, 0, weights(1, 5, 6)),
        Told("time", (5, 4), 0.01, 0, weights(2, 5, 4)),
        Told("b", (5,), 0.0006, 0, bias(3, 5), "int32"),
        Told("memory", (1, 20), 0.06, 0, is_variable=True),
        Told("y", (1, 5), 0.07, -128),
        Told("z", (1, 5), 0.07, -128),
    ]
    options = {0: Field("i", 1), 1: Field("b", 0)}
    steps = [Step("SVDF", (0, 1, 2, 3, 4), (y,), options) for y in (5, 6)]
    assert (
        refused(written(tensors, steps, (0,), (5, 6)))
        == "node 'SVDF_1': the variable 'memory' that it keeps is not its own"
    )


def lstm_with(data, place, value):
    """The file with another tensor as an input of its LSTM."""
    given = np.array([0, *range(1, 9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14, -1, -1, -1, -1], "<i4").tobytes()
    at = data.index(given) + 4 * place
    return data[:at] + np.int32(value).tobytes() + data[at + 4 :]


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (10, 9, "it has peepholes"),
        (16, 1, "it has a projection"),
        (21, 9, "it has layer normalization"),
        (1, -1, "its weights are computed, not constant"),
        (1, 5, "its weights do not fit its input"),
        (12, -1, ""),
    ],
)
def test_an_lstm_that_is_not_computed_is_refused(place, value, what):
    data = lstm_with(gates(1), place, value)
    if what:
        assert what in refused(data)
    else:
        qcgen.compile(data)


def test_a_cell_whose_scale_is_not_a_power_of_two_is_refused():
    assert "its cell has not int16 codes whose scale is a power of 2" in refused(gates(1, scale=0.0005))


def test_states_go_on_from_call_to_call():
    artifact = qcgen.compile(STREAMS["gates"], name="net")
    model, given = artifact.load(("-O1",)), frames(gates(1))
    first = [model.run(None, {"x": x})[0].copy() for x in given]
    again = model.run(None, {"x": given[0]})[0].copy()
    model.reset()
    assert np.array_equal(model.run(None, {"x": given[0]})[0], first[0])
    assert not np.array_equal(again, first[0])


def test_the_bytes_of_a_memory_are_those_of_the_file():
    states = qcgen.compile(filters(2, -40)).program.states
    assert {int(state.initial.flat[0]) for state in states} == {-40, -5}
