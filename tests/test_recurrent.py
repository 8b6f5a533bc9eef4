"""LSTM and GRU: the C against what onnxruntime computed, weights that stay codes, states from call to call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged import assert_judged, judge
from marks import some_at_first
from models import graph_model, node_model, problems
from onnx import ModelProto, numpy_helper
from qdq import Chain
from recurrent_recorded import CASES, GATES, LATE, OUTPUTS, feeds, model

import qcgen
from qcgen.arithmetic import ONNXRUNTIME
from qcgen.ir.program import Recurrent
from qcgen.reference import evaluate, evaluate_all
from qcgen.reference.tolerance import NETWORK, tolerances
from qcgen.verification import verify

DATA = Path(__file__).parent / "data" / "recurrent"
RECORDED = np.load(DATA / "recorded.npz")


@pytest.mark.parametrize(
    "flags", some_at_first([("-O3", "-march=native", "-ffp-contract=fast"), ("-O0",)]), ids=lambda f: f[0]
)
@pytest.mark.parametrize("name", CASES)
def test_the_c_computes_what_onnxruntime_computed(name, flags):
    """With float weights in every bit, with codes closer than what verify allows, since sums have another order."""
    artifact = qcgen.compile(model(name), name="layer")
    given = feeds(name)
    allowed = tolerances(artifact.program, evaluate_all(artifact.program, given))
    outputs = OUTPUTS[CASES[name].op_type]
    reference = evaluate(artifact.program, given)
    for y, found in zip(outputs, artifact.load(flags).run(None, given), strict=True):
        wanted = RECORDED[f"{name}.{y}"]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        for numbers in (found, reference[y]):
            assert (np.abs(numbers.astype(np.float64) - wanted) <= allowed[y] / 4).all(), y


def test_the_recordings_are_of_the_version_that_is_followed():
    assert str(RECORDED["version"]) == ONNXRUNTIME


@pytest.mark.parametrize("name", ["wake_word_qdq", "wake_word_qop"])
def test_a_quantized_network_gives_the_codes_that_onnxruntime_gave(name):
    artifact = qcgen.compile(DATA / f"{name}.onnx", name="wake_word")
    run = artifact.load().run
    found = np.stack([run(None, {"x": x})[0] for x in RECORDED["x"]])
    np.testing.assert_array_equal(found, RECORDED[name])
    assert verify(artifact, sums=False).is_right


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("lstm", {"float"}),
        ("lstm int8", {"int8_t"}),
        ("lstm int8 rows", {"int8_t"}),
        ("lstm uint8", {"uint8_t"}),
        ("lstm uint8 directions", {"int16_t"}),
        ("gru late int8 rows", {"int8_t"}),
    ],
)
def test_quantized_weights_stay_codes(name, types):
    """Codes less a zero point, where that fits int8; else as they are, or int16 where zero points differ."""
    [call] = [call for call in qcgen.compile(model(name)).plan.calls if isinstance(call.op, Recurrent)]
    tables = {table.role: table for table in call.tables}
    assert {tables[f"{role}_weights"].c_type for role in ("input", "state")} == types


def streamed(op_type: str, frames: int) -> ModelProto:
    """A layer with its states as inputs and outputs, over some frames; the weights are the same for any number."""
    draw, chain, names = np.random.RandomState(3), Chain(), OUTPUTS[op_type]
    gates = GATES[op_type]
    sizes = {"w": (1, gates * 5, 4), "r": (1, gates * 5, 5), "b": (1, gates * 10)}
    weights = [chain.constant(name, draw.normal(0, 0.4, size).astype(np.float32)) for name, size in sizes.items()]
    states = ["h", "c"][: len(names) - 1]
    chain.node(op_type, ["x", *weights, "", *states], "y", hidden_size=5)
    chain.nodes[-1].output.extend(names[1:])
    given = {"x": ("float", (frames, 1, 4)), **dict.fromkeys(states, ("float", (1, 1, 5)))}
    return graph_model(chain.nodes, given, dict.fromkeys(names), chain.constants, opset=14)


OF_BLOCKS = [(255, 5), (256, 5), (257, 5), (600, 5), (3, 257)]


@pytest.mark.parametrize("sizes", some_at_first(OF_BLOCKS, (257, 5), (3, 257)), ids=str)
@pytest.mark.parametrize("name", some_at_first(["LSTM", "GRU", "GRU late", "GRU without a bias"], "GRU late"))
def test_products_of_many_terms_are_added_in_blocks_as_in_onnxruntime(name, sizes):
    inputs, units = sizes
    op_type, *kind = name.split(maxsplit=1)
    draw, rows = np.random.RandomState(inputs), GATES[op_type] * units
    sizes = {"w": (1, rows, inputs), "r": (1, rows, units)}
    sizes |= {} if kind == ["without a bias"] else {"b": (1, 2 * rows)}
    weights = {name: draw.normal(0, 0.1, size).astype(np.float32) for name, size in sizes.items()}
    attributes = {**(LATE if kind == ["late"] else {}), "hidden_size": units, "clip": 1.2}
    layer = node_model(op_type, {"x": ("float", (3, 2, inputs)), **weights}, opset=14, **attributes)
    given = {"x": draw.normal(0, 1, (3, 2, inputs)).astype(np.float32)}
    artifact = assert_judged(layer, given, named=None, exact=True)
    [reference] = evaluate(artifact.program, given).values()
    np.testing.assert_array_equal(reference, judge(layer, given)[0])


@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_frame_by_frame_is_the_whole_sequence(op_type):
    """The same operations in the same order: equal bit for bit."""
    x = np.random.RandomState(4).normal(0, 1, (12, 1, 4)).astype(np.float32)
    frame, whole = (qcgen.compile(streamed(op_type, count), name="stream").load(("-O0",)) for count in (1, 12))
    start = {name: np.zeros((1, 1, 5), np.float32) for name in ("h", "c")[: len(OUTPUTS[op_type]) - 1]}
    states, outputs = dict(start), []
    for one in x:
        y, *after = frame.run(None, {"x": one[None], **states})
        outputs.append(y[0])
        states = dict(zip(states, after, strict=True))
    y, *after = whole.run(None, {"x": x, **start})
    np.testing.assert_array_equal(np.stack(outputs), y)
    for state, last in zip(states.values(), after, strict=True):
        np.testing.assert_array_equal(state, last)


@pytest.mark.parametrize("name", ["lstm one step", "gru late one step"])
def test_what_is_not_a_number_stays_none(name):
    given = feeds(name)
    given["x"][:] = np.nan
    for y in qcgen.compile(model(name), name="layer").load(("-O0",)).run(None, given):
        assert np.isnan(y).all()


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("lstm", "return p * value / q;", "return p * value / q * 1.0002f;"),
        ("gru", "sums[RESET] + bias[RESET]", "(sums[RESET] + 1e-7f) + bias[RESET]"),
        (
            "gru late",
            "p = layer_rounded(p * square) + 4.8935",
            "p = layer_fused(p, square, 4.89352455891786e-03f) + 0 * 4.8",
        ),
    ],
)
def test_a_wrong_gate_is_found(name, right, wrong):
    artifact = qcgen.compile(model(name), name="layer")
    assert verify(artifact).is_right
    text = artifact.files["layer.c"]
    wrong = text.replace(right, wrong)
    assert wrong != text
    assert not verify(replace(artifact, files={**artifact.files, "layer.c": wrong})).is_right


def test_the_tolerance_grows_with_what_gates_sum_up():
    artifact = qcgen.compile(model("gru int8"), name="layer")
    small = tolerances(artifact.program, evaluate_all(artifact.program, feeds("gru int8")))["y"]
    large = tolerances(
        artifact.program, evaluate_all(artifact.program, {**feeds("gru int8"), "x": 100 * feeds("gru int8")["x"]})
    )
    assert NETWORK <= small.max() < large["y"].max() / 10


def with_inputs(name: str, **constants: np.ndarray) -> ModelProto:
    """A recorded model with constants in place of absent inputs, by their numbers."""
    found = model(name)
    node = found.graph.node[-1]
    for key, values in constants.items():
        index = int(key.removeprefix("input"))
        node.input.extend([""] * (index + 1 - len(node.input)))
        node.input[index] = key
        found.graph.initializer.append(numpy_helper.from_array(values, key))
    return found


def refusal(found: ModelProto) -> tuple[str, str]:
    [problem] = problems(qcgen.compile, found)
    return problem.what, problem.hint


def test_lengths_that_are_those_of_x_change_nothing():
    found = with_inputs("lstm back", input4=np.array([6, 6], np.int32))
    given = feeds("lstm back")
    y, *_ = qcgen.compile(found, name="layer").load(("-O0",)).run(None, given)
    assert np.abs(y - RECORDED["lstm back.y"]).max() < 1e-6


def test_sequences_of_other_lengths_are_refused():
    what, hint = refusal(with_inputs("lstm", input4=np.array([6, 5], np.int32)))
    assert what == "sequence_lens differs from the 6 steps of X"
    assert hint == "leave sequence_lens out, and give sequences of the model's length"


def test_peepholes_are_refused():
    what, _ = refusal(with_inputs("lstm", input7=np.ones((1, 12), np.float32)))
    assert what == "it has peephole weights (P), which are not supported"


def test_a_state_that_starts_beyond_all_numbers_is_refused():
    what, _ = refusal(with_inputs("lstm back", input6=np.full((1, 2, 4), np.inf, np.float32)))
    assert what == "8 elements of initial_c are not finite"


def test_other_activations_are_refused():
    found = model("gru")
    found.graph.node[-1].attribute.extend(node_model("GRU", {}, activations=["Affine", "Tanh"]).graph.node[0].attribute)
    what, _ = refusal(found)
    assert what == "its activations are Affine, Tanh, but only Sigmoid, Tanh are supported"


def test_weights_of_another_size_are_refused():
    found = model("gru")
    weights = next(each for each in found.graph.initializer if each.name == "w")
    weights.CopyFrom(numpy_helper.from_array(np.zeros((1, 12, 6), np.float32), "w"))
    what, _ = refusal(found)
    assert what == "W has shape (1, 12, 6), but must have (1, 12, 5)"


def test_time_behind_the_batch_is_turned():
    """Layout 1, which onnxruntime 1.32.0 does not have: the same numbers with the first axes exchanged."""
    first, given = model("lstm both"), feeds("lstm both")
    turned = model("lstm both")
    turned.graph.node[-1].attribute.extend(node_model("LSTM", {}, layout=1).graph.node[0].attribute)
    for value in turned.graph.input:
        dims = value.type.tensor_type.shape.dim
        dims[0].dim_value, dims[1].dim_value = dims[1].dim_value, dims[0].dim_value
    wanted = qcgen.compile(first, name="layer").load(("-O0",)).run(None, given)
    exchanged = {name: values.swapaxes(0, 1).copy() for name, values in given.items()}
    found = qcgen.compile(turned, name="layer").load(("-O0",)).run(None, exchanged)
    np.testing.assert_array_equal(found[0], wanted[0].transpose(2, 0, 1, 3))
    for one, other in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(one, other.swapaxes(0, 1))
