"""Networks that keep states: the C gives, call by call, what TensorFlow Lite Micro was recorded to give."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from emulated import require_core
from marks import some_at_first
from served import bridged, build
from test_self_test import result_on_host
from test_vectors import numbers
from tflite_models import Step, Told, written
from tflite_states import CALL, STREAMS, begun, frames, handle, named
from tools import require_modules

import qcgen
from qcgen.cli import main
from qcgen.reference import evaluate_frames
from qcgen.verification import verify

RECORDED = np.load(Path(__file__).parent / "data" / "tflite" / "streams.npz")
REAL = Path(__file__).parents[2] / "shared" / "models" / "tflite"
NETWORKS = ["stream_conv", "mww_v2_okay_nabu", "mww_v1_alexa", "lstm", "dtln_noise_suppression"]
OPTIONS = [
    {},
    {"simplify": False},
    {"layout": "nchw", "io_memory": "arena", "optimize": "speed", "target": "cortex-m4"},
    {"arena": "least", "target": "rv32imc"},
    {"state": "caller", "target": "cortex-m4"},
]


@cache
def compiled(name):
    artifact = qcgen.compile(STREAMS[name], name="net")
    return artifact, artifact.load(("-O1",))


@cache
def apart(name):
    """The same with memory of its own for states."""
    artifact = qcgen.compile(STREAMS[name], name="net", state="caller")
    return artifact, artifact.load(("-O1",))


def first_of(artifact):
    return artifact.program.of_caller[1][0].name


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("made", some_at_first([compiled, apart]))
def test_calls_give_what_was_recorded_and_reset_begins_anew(name, made):
    artifact, model = made(name)
    for _ in range(2):
        model.reset()
        found = [model.run(first_of(artifact), {"x": x})[0] for x in frames(STREAMS[name])]
        assert np.array_equal(np.stack(found), RECORDED[name])


@pytest.mark.parametrize("name", STREAMS)
def test_the_reference_gives_what_was_recorded(name):
    artifact, _ = compiled(name)
    values = evaluate_frames(artifact.program, [{"x": x} for x in frames(STREAMS[name])])
    assert np.array_equal(np.stack([each[first_of(artifact)] for each in values]), RECORDED[name])


def real(name):
    if not REAL.is_dir():
        pytest.skip("the real models are not there: no directory shared/models/tflite beside the repository")
    return REAL / f"{name}.tflite", REAL / f"{name}.npz"


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("options", [OPTIONS[0], *(pytest.param(each, marks=pytest.mark.all) for each in OPTIONS[1:])])
def test_real_networks_give_what_was_recorded(name, options):
    path, data = real(name)
    model, recorded = qcgen.compile(path, name="model", **options).load("-O1"), np.load(data)
    [x], [y] = model.get_inputs(), model.get_outputs()
    for call in range(20):
        [got] = model.run(None, {x.name: recorded[f"in{call}.{x.name}"].reshape(x.shape)})
        assert np.array_equal(got.reshape(-1), recorded[f"out{call}.{y.name}"].reshape(-1))


@pytest.mark.all
@pytest.mark.parametrize("core", ["cortex-m4", "rv32imc"])
@pytest.mark.parametrize("name", ["mww_v2_okay_nabu", "lstm", "svdf_int16_state"])
def test_what_keeps_a_state_gives_what_was_recorded_on_an_emulated_core(name, core):
    path, data = real(name)
    require_core(core, counting=False)
    found = verify(qcgen.compile(path, target=core), cases=1, data=data, sums=False, emulated=True)
    assert found.is_right
    assert found.outcomes[-1].cases == 20


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "total"])
def test_tensorflow_lite_micro_judges_each_call_from_any_state(name):
    require_modules("tflite_micro")
    judge = qcgen.verify(compiled(name)[0], cases=1, flags="-O0", sums=False, oracle="tflm").judge
    assert (judge.oracle, judge.differing) == ("tflm", 0)
    assert judge.outputs > 0


@pytest.mark.parametrize("name", STREAMS)
def test_nothing_else_lies_where_a_state_does(name):
    plan = qcgen.compile(STREAMS[name], name="net", io_memory="arena").plan
    taken = {byte for state in plan.states for byte in range(state.offset, state.offset + state.before.bytes)}
    others = [buffer for buffer in plan.buffers if buffer.kind != "state"]
    assert len(taken) == sum(state.before.bytes for state in plan.states)
    assert all(taken.isdisjoint(range(each.offset, each.offset + each.bytes)) for each in others)


def test_what_is_kept_is_computed_in_its_place_where_it_is_read_before():
    assert not compiled("stream")[0].plan.state_moves
    assert [move.tensor.name for move in compiled("delay")[0].plan.state_moves] == ["x.kept"]
    head = " ".join(compiled("delay")[0].files["net.c"].replace("*", "").split())
    assert "state 12 B that stay from call to call: a, b; moved there at the end: x.kept, 6 B" in head


@pytest.mark.parametrize("made", [compiled, apart])
def test_the_self_test_begins_by_reset(made, tmp_path):
    artifact = made("stream_that_begins")[0].with_self_test()
    assert result_on_host(tmp_path, artifact) == 0
    [first] = re.findall(r"net_reset_0\[.*?\] = \{\n +(-?\d+),", artifact.files["net.c"])
    head, tail = artifact.files["net.c"].split("net_reset_0[", 1)
    spoiled = f"{head}net_reset_0[{tail.replace(first, str(int(first) ^ 64), 1)}"
    assert result_on_host(tmp_path, artifact, (artifact.files["net.c"], spoiled)) > 0


def test_vectors_are_calls_one_after_the_other():
    artifact, _ = compiled("stream")
    header = artifact.with_vectors([{"x": x} for x in frames(STREAMS["stream"])]).files["net_vectors.h"]
    assert np.array_equal(numbers(header, "y"), RECORDED["stream"].reshape(6, -1))
    assert "calls one after the other, behind net_reset" in header


def test_recordings_are_calls_one_after_the_other(tmp_path, capsys):
    (tmp_path / "net.tflite").write_bytes(STREAMS["delay"])
    given = {f"in{call}.x": x for call, x in enumerate(frames(STREAMS["delay"]))}
    given |= {f"out{call}.y": y for call, y in enumerate(RECORDED["delay"])}
    np.savez(tmp_path / "net.npz", **given)
    command = ["verify", str(tmp_path / "net.tflite"), "--cases", "1", "--no-sums", "--data", str(tmp_path / "net.npz")]
    assert main(command) == 0
    assert re.search(r"recorded +6  0 of ", capsys.readouterr().out)


@pytest.mark.parametrize("place", ["arena", "caller"])
def test_a_board_gets_the_state_with_the_inputs(place, tmp_path, capsys):
    (tmp_path / "net.tflite").write_bytes(STREAMS["delay"])
    artifact = qcgen.compile(tmp_path / "net.tflite", state=place)
    with bridged(build(tmp_path / "program", artifact)) as board:
        assert main(["verify", "--serial", board.port, str(tmp_path / "net.tflite"), "--cases", "2"]) == 0
    assert "hashes: none differs" in capsys.readouterr().out


def test_the_header_says_that_the_arena_must_live():
    header = " ".join(compiled("stream")[0].files["net.h"].replace("*", "").split())
    assert "8 bytes of it are the network's state, so it must be left alone between calls, too" in header
    assert "keeps nothing between calls" not in header
    assert "not for unions" in header


def test_states_of_the_caller_leave_the_arena_free_between_calls():
    artifact, _ = apart("stream")
    header = " ".join(artifact.files["net.h"].replace("*", "").split())
    assert "for unions with the arenas of other models" in header
    assert "Memory for all states: int32 [2]; it stays from call to call" in header
    assert "void net_reset(int32_t state);" in header
    assert not [buffer for buffer in artifact.plan.buffers if buffer.kind == "state"]
    assert artifact.report.ram_bytes == compiled("stream")[0].report.ram_bytes


@pytest.mark.all
def test_states_of_the_caller_on_an_emulated_core():
    require_core("cortex-m4", counting=False)
    artifact = qcgen.compile(STREAMS["stream"], target="cortex-m4", state="caller")
    assert verify(artifact, cases=2, sums=False, emulated=True).is_right


def test_inspect_tells_states_from_inputs(tmp_path, capsys):
    (tmp_path / "net.tflite").write_bytes(STREAMS["stream"])
    assert main(["inspect", str(tmp_path / "net.tflite")]) == 0
    assert re.findall(r"^(input|state|output) +(\w+)", capsys.readouterr().out, re.MULTILINE) == [
        ("input", "x"),
        ("state", "before"),
        ("output", "y"),
    ]


def test_rows_are_not_pushed_where_states_are_kept():
    with pytest.raises(qcgen.ModelRejected, match="keeps states from call to call"):
        qcgen.compile(STREAMS["stream"], input="rows")


def test_the_report_has_the_bytes_of_states():
    report = json.loads(compiled("delay")[0].report.to_json())
    assert report["state_bytes"] == 12


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
