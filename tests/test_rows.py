"""Layers row by row: the same outputs in less memory, in an order in which every row is there when it is read."""

import ctypes
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from batch import call, require
from bench.whole import MLPERF
from interpreter import Interpreter
from marks import share_at_first, some_at_first
from row_networks import DIGITS, NETWORKS, residual

import qcgen
from qcgen import ModelRejected
from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.cli import main
from qcgen.ir.plan import InArena, Stream
from qcgen.plan import stream as streams
from qcgen.verification import verify

TARGETS = ("portable", "cortex-m0", "cortex-m4", "cortex-m55")


@cache
def artifact(network: str, target: str, arena: int | str | None, aim: str = "size") -> Artifact:
    name = f"{network}_{target.replace('-', '_')}_{aim}_{arena}"
    return qcgen.compile(
        NETWORKS[network](), name=name, target=target, layout="nhwc", io="quantized", optimize=aim, arena=arena
    )


def variants(network: str, target: str, aim: str) -> list[Artifact]:
    """The network whole, in the least arena, and in one between."""
    whole, least = artifact(network, target, None, aim), artifact(network, target, "least", aim)
    between = (whole.plan.arena_bytes + least.plan.arena_bytes) // 2
    return [whole, least, artifact(network, target, between, aim)]


AIMS = [(network, target, "size") for network in ("residual", "separable") for target in TARGETS]
AIMS += [(network, "cortex-m4", "speed") for network in ("residual", "separable")]
AIMS += [("wandering", target, "size") for target in ("portable", "cortex-m4")]
AIMS += [("digits", target, "size") for target in ("portable", "cortex-m4")]
AIMS += [(network, target, "size") for network in ("expanding", "pooled", "batch") for target in TARGETS]
AIMS_AT_FIRST = [
    ("residual", "cortex-m4", "size"),
    ("separable", "cortex-m4", "speed"),
    ("wandering", "portable", "size"),
    ("expanding", "portable", "size"),
    ("pooled", "portable", "size"),
    ("batch", "cortex-m4", "size"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory, everything):
    """One shared library of all variants."""
    require("gcc")
    folder = tmp_path_factory.mktemp("rows")
    artifacts = {each.plan.prefix: each for aim in (AIMS if everything else AIMS_AT_FIRST) for each in variants(*aim)}
    for each in artifacts.values():
        each.write(folder)
    (folder / "all.c").write_text("".join(f'#include "{name}.c"\n' for name in artifacts))
    flags = ["-O0", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
    call(["gcc", *STRICT_FLAGS, *flags, "-o", "all.so", "all.c"], folder)
    return ctypes.CDLL(str(folder / "all.so"))


def run(library, each: Artifact, inputs: list[np.ndarray]) -> list[bytes]:
    """The outputs, computed in an arena of garbage between guard bytes."""
    [x_port], [y_port] = each.plan.inputs, each.plan.outputs
    outputs = []
    for x in inputs:
        arena = np.full(each.plan.arena_bytes + 32, 0xA5, np.uint8)
        offset = 16 + -(arena.ctypes.data + 16) % 8
        y = np.zeros(y_port.tensor.size, y_port.tensor.dtype.numpy)
        places = (x.ctypes.data, y.ctypes.data, arena.ctypes.data + offset)
        getattr(library, f"{each.plan.prefix}_run")(*map(ctypes.c_void_p, places))
        end = offset + each.plan.arena_bytes
        assert (arena[:offset] == 0xA5).all()
        assert (arena[end:] == 0xA5).all()
        assert x.size == x_port.tensor.size
        outputs.append(y.tobytes())
    return outputs


@pytest.mark.parametrize("aim", some_at_first(AIMS, *AIMS_AT_FIRST), ids="-".join)
def test_outputs_do_not_depend_on_the_arena(aim, library):
    whole, *smaller = variants(*aim)
    [port] = whole.plan.inputs
    rng = np.random.default_rng(3)
    low, high, size = port.tensor.dtype.low, port.tensor.dtype.high, port.tensor.size
    images = [rng.integers(low, high + 1, size), rng.choice([low, high], size), np.full(size, low), np.full(size, high)]
    inputs = [image.astype(port.tensor.dtype.numpy) for image in images]
    expected = run(library, whole, inputs)
    assert all(run(library, each, inputs) == expected for each in smaller)


@pytest.mark.parametrize("aim", some_at_first(AIMS, *AIMS_AT_FIRST), ids="-".join)
def test_every_byte_is_there_when_it_is_read(aim):
    for each in variants(*aim):
        Interpreter(each.plan).run()


@pytest.mark.parametrize("target", some_at_first(TARGETS, "cortex-m4"))
@pytest.mark.parametrize("network", share_at_first(list(NETWORKS)))
def test_it_is_there_at_three_budgets_in_between(network, target):
    interpret_at_budgets(*(artifact(network, target, arena) for arena in (None, "least")), NETWORKS[network]())


@pytest.mark.all
@pytest.mark.parametrize("target", ["portable", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("network", MLPERF, ids=lambda network: network.title)
def test_it_is_there_in_networks_of_mlperf_tiny(network, target):
    if not network.path.is_file():
        pytest.skip("the real models are not there: no directory shared/models beside the repository")
    options = {"target": target, "layout": "nhwc", "io": "quantized"}
    whole, least = (qcgen.compile(network.path, arena=arena, **options) for arena in (None, "least"))
    interpret_at_budgets(whole, least, network.path)


def interpret_at_budgets(whole: Artifact, least: Artifact, model) -> None:
    """Follows the plans of both, and those of three budgets in between."""
    span = whole.plan.arena_bytes - least.plan.arena_bytes
    budgets = [least.plan.arena_bytes + span * part // 4 for part in (1, 2, 3)] if span else []
    options = {"target": whole.plan.options.target, "layout": "nhwc", "io": "quantized"}
    for each in (whole, least, *(qcgen.compile(model, arena=budget, **options) for budget in budgets)):
        Interpreter(each.plan).run()


@pytest.mark.parametrize("network", ["residual", "separable"])
@pytest.mark.parametrize("target", some_at_first(TARGETS, "cortex-m4"))
def test_rows_take_less_memory(network, target):
    whole, least, between = variants(network, target, "size")
    assert least.plan.arena_bytes < 0.9 * whole.plan.arena_bytes
    assert least.plan.streams
    assert between.plan.arena_bytes <= (whole.plan.arena_bytes + least.plan.arena_bytes) // 2


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
def test_a_tensor_that_is_moved_takes_less_memory(target):
    whole, moved, *_ = variants("wandering", target, "size")
    assert moved.plan.moves
    assert not moved.plan.streams
    assert moved.plan.arena_bytes < whole.plan.arena_bytes


def test_memory_is_listed_by_its_kind():
    pushed = qcgen.compile(NETWORKS["separable"](), name="pushed", layout="nhwc", io="quantized", input="rows")
    kinds = {buffer.kind: buffer.name for buffer in pushed.plan.buffers}
    assert kinds.keys() == {"tensor", "rows", "scratch", "turn"}
    assert (kinds["scratch"], kinds["turn"]) == ("", "")
    assert kinds["rows"]
    moved = artifact("wandering", "cortex-m4", "least").plan
    assert {buffer.kind for buffer in moved.buffers} <= {"tensor", "rows", "scratch"}
    assert all(buffer.name.isprintable() for plan in (pushed.plan, moved) for buffer in plan.buffers)


def test_a_tensor_that_moves_to_another_place_is_missed():
    plan = artifact("wandering", "portable", "least").plan
    [move, *_] = plan.moves
    object.__setattr__(move, "place", InArena(move.place.offset - 4))
    try:
        with pytest.raises(AssertionError, match=r"reads|holds"):
            Interpreter(plan).run()
    finally:
        artifact.cache_clear()


def test_a_budget_moves_no_more_tensors_than_it_must():
    whole, least, between = variants("wandering", "portable", "size")
    assert not whole.plan.moves
    assert 0 < len(between.plan.moves) < len(least.plan.moves)


def test_a_byte_that_moved_away_is_missed():
    plan = artifact("residual", "cortex-m4", "least").plan
    stream = next(step for step in plan.steps if isinstance(step, Stream))
    values = stream.order.values.copy()
    values[[len(values) // 2, len(values) // 2 + 1]] = values[[len(values) // 2 + 1, len(values) // 2]]
    stream.order.values[:] = values
    try:
        with pytest.raises(AssertionError, match=r"reads|holds"):
            Interpreter(plan).run()
    finally:
        artifact.cache_clear()


@pytest.mark.all
@pytest.mark.parametrize("network", ["residual", "separable", "wandering"])
def test_more_bytes_never_cost_more_instructions(network, monkeypatch):
    extras, cheapest = [], streams._cheapest

    def recorded(*arguments):
        found = cheapest(*arguments)
        extras.append(np.inf if found is None else found[0].extra)
        return found

    monkeypatch.setattr(streams, "_cheapest", recorded)
    whole, least = (artifact(network, "cortex-m4", arena).plan.arena_bytes for arena in (None, "least"))
    options = {"target": "cortex-m4", "layout": "nhwc", "io": "quantized"}
    budgets = range(least, whole, max(4, (whole - least) // 12))
    plans = [qcgen.compile(NETWORKS[network](), arena=budget, **options).plan for budget in budgets]
    assert all(plan.arena_bytes <= budget for plan, budget in zip(plans, budgets, strict=True))
    assert len(extras) == len(budgets)
    assert extras == sorted(extras, reverse=True)


def test_an_arena_that_is_too_small_is_refused_with_the_least():
    least = artifact("residual", "portable", "least").plan.arena_bytes
    with pytest.raises(ModelRejected, match=f"the least that was reached is {least} bytes"):
        artifact("residual", "portable", 100)


@pytest.mark.all
def test_verify_measures_the_sums_of_layers_that_run_row_by_row_too(capsys):
    assert main(["verify", str(DIGITS), "--arena", "least", "--cases", "1"]) == 0
    assert "sums of 7 layers: 0 wrong; measured " in capsys.readouterr().out


@pytest.mark.parametrize("network", ["two_inputs", "unread_input", "with_a_view", "batch", "enlarged"])
def test_networks_that_are_no_chain_are_right_in_the_least_arena(network):
    whole, least = artifact(network, "portable", None), artifact(network, "portable", "least")
    assert least.plan.arena_bytes <= whole.plan.arena_bytes
    Interpreter(least.plan).run()
    assert verify(least, cases=2, sums=False, flags=("-O0",)).is_right


def test_batches_run_row_by_row_but_their_rows_are_not_pushed():
    whole, least = artifact("batch", "portable", None).plan, artifact("batch", "portable", "least").plan
    assert least.streams
    assert least.arena_bytes < whole.arena_bytes / 2
    with pytest.raises(ModelRejected, match="rows are those of one image"):
        qcgen.compile(NETWORKS["batch"](), layout="nhwc", io="quantized", input="rows")


@pytest.mark.parametrize("arena", [0, -1, "most", "0", "-1", "1.5", "", "k", "4 k", "4kB", "1000M", "٤k", 1.5, True])
def test_the_python_interface_refuses_an_arena_that_is_no_number_of_bytes(arena):
    with pytest.raises(
        ValueError,
        match="arena must be a number of bytes above 0, 'least', two of them such as '6",
    ):
        qcgen.compile(DIGITS, arena=arena)


@pytest.mark.parametrize(("text", "size"), [("4k", 4096), ("4KiB", 4096), ("4096", 4096), ("3k+20k", "3072+20480")])
def test_the_python_interface_takes_the_command_lines_texts(text, size):
    assert qcgen.compile(DIGITS, arena=text).plan.options == qcgen.compile(DIGITS, arena=size).plan.options


@pytest.mark.parametrize("text", ["0", "-1", "most", "1.5", "", "k", "4 k", "4kB", "1000M", "٤k"])
def test_the_command_refuses_an_arena_that_is_no_number_of_bytes(text, capsys):
    assert main(["compile", str(DIGITS), f"--arena={text}"]) == 2
    assert "neither a number of bytes from 1 to 999999999, as 4096, 4k or 4KiB, nor 'least'" in capsys.readouterr().err


def test_a_single_node_runs_whole_in_the_least_arena():
    node = qcgen.compile(DIGITS, node="conv4_quant", layout="nhwc", arena="least")
    assert not node.plan.streams
    assert verify(node, cases=1, sums=False).is_right


def test_a_budget_that_cannot_be_met_writes_nothing(tmp_path, capsys):
    assert main(["compile", str(DIGITS), "--arena", "100", "-o", str(tmp_path)]) == 1
    assert "it does not fit an arena of 100 bytes" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_arena_that_is_large_enough_changes_nothing():
    whole = artifact("separable", "portable", None)
    same = artifact("separable", "portable", whole.plan.arena_bytes)
    assert not same.plan.streams
    assert same.plan.arena_bytes == whole.plan.arena_bytes


def test_a_sum_is_written_over_a_row_that_nothing_else_reads():
    plan = artifact("residual", "portable", "least").plan
    turns = [turn for stream in plan.streams for turn in stream.turns if turn.call is not None]
    sums = [turn for turn in turns if turn.call.op.op_type == "QLinearAdd"]
    assert len(sums) == 2
    assert all(turn.rows[-1] in turn.rows[:-1] for turn in sums)


def test_a_mean_ends_a_chain_and_adds_up_rows_in_memory_of_its_own():
    plan = artifact("residual", "cortex-m4", "least").plan
    [call] = [call for call in plan.calls if "Average" in call.op.op_type]
    assert call.kernel == "portable/mean_of_rows"
    assert call is plan.streams[-1].calls[-1]


def test_sums_of_a_mean_that_something_else_writes_over_are_missed():
    plan = artifact("residual", "cortex-m4", "least").plan
    [stream] = plan.streams
    turn = stream.turns[-1]
    inner = next(each.rows[-1].place for each in stream.turns if each.call and each.call.op.op_type == "QLinearConv")
    object.__setattr__(turn.call, "arguments", (*turn.call.arguments[:-1], inner))
    try:
        with pytest.raises(AssertionError, match="sums"):
            Interpreter(plan).run()
    finally:
        artifact.cache_clear()


def test_an_output_lies_over_the_rows_of_its_input_that_go_next():
    plan = artifact("separable", "portable", "least").plan
    [turn] = [turn for stream in plan.streams for turn in stream.turns if turn.call and turn.call.overlap][:1]
    assert turn.call.overlap.distance >= turn.call.overlap.least
    source, out = turn.rows[0].place, turn.rows[-1].place
    assert source.offset - out.offset == turn.call.overlap.distance
    assert "lies over it: each byte is read before it is written" in "".join(
        artifact("separable", "portable", "least").files.values()
    ).replace("\n *                 ", " ")


def test_an_output_too_near_to_the_rows_of_its_input_is_missed():
    plan = artifact("separable", "portable", "least").plan
    [turn] = [turn for stream in plan.streams for turn in stream.turns if turn.call and turn.call.overlap][:1]
    out = turn.rows[-1]
    near = turn.rows[0].place.offset - turn.call.overlap.least + 8
    object.__setattr__(turn, "rows", (*turn.rows[:-1], replace(out, place=InArena(near))))
    try:
        with pytest.raises(AssertionError, match="reads on behind step"):
            Interpreter(plan).run()
    finally:
        artifact.cache_clear()


def test_the_output_of_a_chain_lies_over_an_input_in_the_arena():
    options = {"layout": "nhwc", "io": "quantized", "arena": "least"}
    outside = qcgen.compile(residual(averages=False), **options).report
    inside = qcgen.compile(residual(averages=False), io_memory="arena", **options).report
    assert inside.ram_bytes < outside.ram_bytes - outside.input_bytes // 2
