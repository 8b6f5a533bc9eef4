"""Layers that run through the same C function: which do, that their outputs stay, that a mix-up is found."""

import json
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import subjects
from batch import require
from bench.compiling import Network
from emulated import require_core, wrong_outputs
from marks import some_at_first
from onnx import numpy_helper
from row_networks import wandering

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cli.report_text import shared
from qcgen.ir.program import Conv
from qcgen.kernels.kernel import SizesPrice
from qcgen.page import page
from qcgen.plan import functions
from qcgen.verification import verify

TARGETS = ("portable", "cortex-m4", "cortex-m0", "rv32imc", "cortex-m55")


def compiled(target="portable", model=wandering, **options):
    return qcgen.compile(model(), target=target, layout="nhwc", name="net", **options)


def groups(artifact):
    """The layers of each shared function, by their numbers."""
    numbers = {call.op.name: number for number, call in enumerate(artifact.plan.calls)}
    return [tuple(numbers[name] for name in function.nodes) for function in artifact.plan.shared]


def dense():
    """Four layers of one size, two of which differ from the others in the type of their scale."""
    n = Network((1, 16, 1, 1))
    x = "x"
    for _ in range(4):
        x = n.conv(x, 16)
    return n.model(x)


def tall():
    """Six convolutions of one size on an image of many rows."""
    n = Network((1, 4, 48, 8))
    x = n.conv("x", 8, 3)
    for _ in range(6):
        x = n.conv(x, 8, 3)
    return n.model(n.conv(x, 4, 3, 2))


def bottleneck(width=64):
    """Products of matrices of several sizes, one of which does not fill words."""
    n = Network((1, 2 * width, 1, 1))
    x = "x"
    for channels in (2 * width, 3 * width, 2 * width + 3, width, 2 * width):
        x = n.conv(x, channels)
    return n.model(x)


def small_bottleneck():
    """The same, of a quarter of the products."""
    return bottleneck(32)


def separable(kernel=3, columns=16):
    """Depthwise layers of several sizes, with strides of one and of two, behind pointwise ones."""
    n = Network((1, 9, 18, columns))
    x = n.depthwise(n.depthwise("x", kernel), kernel, 2)
    for channels in (14, 21):
        x = n.depthwise(n.depthwise(n.conv(x, channels), kernel), kernel, 2)
    return n.model(x)


def roomy():
    """The same behind a wide layer, whose tensor leaves room in the arena when they run."""
    n = Network((1, 9, 8, 8))
    x = n.conv(n.conv("x", 40), 9)
    for channels in (14, 21):
        x = n.depthwise(n.depthwise(n.conv(x, channels), 3), 3, 2)
    return n.model(x)


def windowed():
    """Convolutions of 3x3 and several sizes: strides, odd numbers of pixels, channels that blocks of four leave."""
    n = Network((1, 4, 15, 11))
    x = n.conv("x", 12, 3)
    for channels, stride in ((12, 1), (8, 2), (4, 1), (7, 2)):
        x = n.conv(x, channels, 3, stride)
    return n.model(x)


def narrow():
    """The same for channels so few that two of them share words of weights."""
    n = Network((1, 4, 15, 11), 2)
    x = "x"
    for channels, stride in ((4, 1), (8, 2), (4, 1), (7, 1)):
        x = n.conv(x, channels, 3, stride)
    return n.model(x)


def at_borders():
    """Windows of which hardly one lies on the image, of one number of channels and one kernel."""
    n = Network((1, 8, 6, 3))
    x = n.conv("x", 8, 5)
    return n.model(n.conv(n.conv(x, 8, 5, 2), 8, 5))


@pytest.mark.parametrize("target", TARGETS)
def test_layers_of_one_size_run_through_one_function(target):
    found = groups(compiled(target))
    assert found
    assert all(len(members) in (2, 3) for members in found)


def test_a_layer_of_another_size_keeps_its_own_function():
    artifact = compiled()
    assert {number for members in groups(artifact) for number in members}.isdisjoint({0, 7})
    assert artifact.plan.calls[0].shared is None


def test_layers_of_several_sizes_run_through_one_function_that_reads_them():
    artifact = compiled("cortex-m4", bottleneck)
    [function] = artifact.plan.shared
    sizes = [call.numbers["elements"] for call in artifact.plan.calls if call.shared == function]
    assert len(set(sizes)) > 1
    assert "layer->elements" in artifact.files["net.c"]


def planes(artifact):
    """The functions that depthwise layers of several sizes share, each with its layers' numbers."""
    found = [(f, [c.numbers for c in artifact.plan.calls if c.shared == f]) for f in artifact.plan.shared]
    return [(function, numbers) for function, numbers in found if "depthwise" in function.symbol]


@pytest.mark.parametrize(
    ("kernel", "columns", "found"),
    [(3, 16, [(3, 4), (3, 2)]), (3, 12, [(3, 3), (3, 1)])],
)
def test_depthwise_layers_of_several_sizes_copy_their_channels_to_a_plane(kernel, columns, found, level):
    """``found``: of each function how many layers it serves, and how many outputs it sums at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled("cortex-m4", lambda: separable(kernel, columns))
    shown = {call.shared.symbol: call.context for call in artifact.plan.calls if call.shared}
    counts = [(len(each.nodes), shown[each.symbol].layer.numbers["together"]) for each, _ in planes(artifact)]
    assert sorted(counts, reverse=True) == found
    for _, numbers in planes(artifact):
        assert all(len({each[name] for each in numbers}) > 1 for name in ("channels", "rows", "out_columns"))
    assert verify(artifact, cases=4, flags=(level,)).is_right


@pytest.mark.parametrize(
    ("model", "arena", "found"),
    [
        (separable, None, {(False, False)}),
        (separable, "least", {(True, False), (True, True)}),
        (roomy, None, {(True, True)}),
        (roomy, "least", {(False, True)}),
    ],
)
def test_planes_lie_in_the_arena_where_it_has_room(model, arena, found, level):
    """``found``: whether a function's planes lie there, and whether they are two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled("cortex-m4", model, arena=arena)
    calls = [call for call in artifact.plan.calls if call.shared in [function for function, _ in planes(artifact)]]
    copied = [(call, call.context.copied.numbers) for call in calls]
    assert {(call.context.on_stack == 0, numbers["together"] == 2) for call, numbers in copied} == found
    for call, numbers in copied:
        elements = numbers["together"] * numbers["elements"]
        assert (call.scratch_bytes, call.context.on_stack) in ((2 * elements, 0), (0, elements))
    assert_apart(artifact.plan)
    assert verify(artifact, cases=4, flags=(level,)).is_right


def assert_apart(plan):
    """Fails if a scratch buffer lies in what is alive at its node."""
    for scratch in (buffer for buffer in plan.buffers if buffer.kind == "scratch"):
        for other in plan.buffers:
            if other != scratch and other.first <= scratch.last and scratch.first <= other.last:
                assert scratch.offset + scratch.bytes <= other.offset or other.offset + other.bytes <= scratch.offset
        assert scratch.offset + scratch.bytes <= plan.arena_bytes


@pytest.mark.parametrize("model", some_at_first([narrow, windowed, at_borders]))
def test_convolutions_of_several_sizes_read_them(model, level):
    layers = 3 if model is at_borders else 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled("cortex-m4", model)
    [function] = artifact.plan.shared
    assert len(function.nodes) == layers
    assert "&layer->dsp_windows" in artifact.files["net.c"]
    assert verify(artifact, cases=6, flags=(level,)).is_right


def in_4_bits(model):
    """A model with the upper halves of its weights, as codes of 4 bits."""
    proto = model()
    for constant in proto.graph.initializer:
        values = numpy_helper.to_array(constant)
        if values.dtype == np.int8 and values.ndim > 1:
            constant.CopyFrom(numpy_helper.from_array(values >> 4, constant.name))
    return proto


@pytest.mark.parametrize("model", some_at_first([windowed, bottleneck, narrow, at_borders]))
def test_layers_of_several_sizes_share_a_function_that_unpacks_weights_of_4_bits(model, level):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled("cortex-m4", lambda: in_4_bits(model))
    [function] = artifact.plan.shared
    packed = [call for call in artifact.plan.calls if call.shared == function and call.tables[0].packed_bits]
    assert len(packed) == len(function.nodes) > 2
    assert verify(artifact, cases=6, flags=(level,)).is_right


def test_depthwise_layers_whose_planes_the_stack_has_no_room_for_keep_their_own_functions():
    n = Network((1, 8, 24, 24))
    model = n.model(n.depthwise(n.depthwise("x"), 3, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        assert not compiled("cortex-m4", lambda: model).plan.shared


def test_a_hot_layer_does_not_read_its_sizes():
    n = Network((1, 16, 24, 24))
    model = n.model(n.conv(n.conv("x", 32), 16))
    assert not compiled("cortex-m4", lambda: model).plan.shared


def test_what_reading_sizes_costs_counts_for_each_row(monkeypatch):
    price = SizesPrice(bytes=lambda _: 100, instructions=lambda *_: 1)
    layers = [work for work in compiled("cortex-m4", bottleneck).plan.calls if isinstance(work.op, Conv)]
    geometries = [layer.op.geometry for layer in layers[:2]]
    assert functions._merged(dict.fromkeys(geometries, 1), price, total=10_000) == [tuple(geometries)]
    assert functions._merged(dict.fromkeys(geometries, 50), price, total=10_000) == []
    nothing_saved = replace(price, bytes=lambda part: 100 * len(part))
    assert functions._merged(dict.fromkeys(geometries, 1), nothing_saved, total=10_000) == []

    seen = []
    monkeypatch.setattr("qcgen.plan.share", lambda works, *_: seen.extend(works) or list(works))
    [stream] = compiled("cortex-m4", tall, arena="least").plan.streams
    calls = {work.op.name: work.calls for work in seen}
    assert all(calls[call.op.name] >= 24 for call in stream.calls)


def test_speed_gives_each_layer_its_own():
    assert not compiled(optimize="speed").plan.shared


SHARING = [(target, wandering) for target in TARGETS]
SHARING += [(target, dense) for target in ("portable", "cortex-m4", "cortex-m55")]
SHARING += [("cortex-m4", model) for model in (small_bottleneck, separable, windowed)]


@pytest.mark.parametrize(("target", "model"), SHARING)
def test_outputs_are_those_of_the_reference(target, model, level, everything):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled(target, model)
    assert artifact.plan.shared
    assert verify(artifact, cases=4, flags=(level,), sums=everything).is_right


@pytest.mark.all
def test_layers_that_run_row_by_row_share_functions(level):
    artifact = compiled("cortex-m4", tall, arena="least")
    assert any(call.shared for stream in artifact.plan.streams for call in stream.calls)
    assert verify(artifact, cases=2, flags=(level,)).is_right


@pytest.mark.all
def test_rows_of_layers_of_several_sizes_share_functions(level):
    n = Network((1, 4, 48, 8))
    x = "x"
    for channels in (8, 12, 8, 12, 4):
        x = n.conv(x, channels, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0.01)
        artifact = compiled("cortex-m4", lambda: n.model(x), arena="least")
    [stream] = artifact.plan.streams
    assert any("dsp_windows.channels" in call.numbers for call in stream.calls)
    assert verify(artifact, cases=2, flags=(level,)).is_right


@pytest.mark.all
def test_the_struct_of_another_layer_is_found_by_verify_which_names_the_layer():
    artifact = compiled("cortex-m4")
    first, second = artifact.plan.shared[0].nodes[:2]
    symbols = {call.op.name: call.symbol for call in artifact.plan.calls}
    source = artifact.files["net.c"]
    table = artifact.plan.shared[0].fields[0].name
    right = f".{table} = {symbols[second]}_{table},"
    assert source.count(right) == 1
    wrong = source.replace(right, f".{table} = {symbols[first]}_{table},")
    unused = f"static const int8_t {symbols[second]}_{table}["
    wrong = wrong.replace(unused, f"__attribute__((unused)) {unused}")
    result = verify(replace(artifact, files={**artifact.files, "net.c": wrong}), cases=2)
    assert not result.is_right
    assert second in str(result.sums.wrong)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0"])
def test_the_shift_is_one_number_for_all_layers_and_each_is_certified(target):
    artifact = compiled(target)
    steps = {node["node"]: node for node in json.loads(artifact.certificate)["nodes"]}
    for function in artifact.plan.shared:
        assert len({steps[name]["shift"] for name in function.nodes}) == 1
    calls = [call for call in artifact.plan.calls if call.shared is not None]
    assert all(call.certificate.comparisons for call in calls)


@pytest.mark.parametrize("compiler", some_at_first(["gcc", "clang"]))
@pytest.mark.parametrize("level", some_at_first(["-Os", "-O2", "-O3"]))
def test_the_functions_compile_without_a_warning(compiler, level, tmp_path):
    require(compiler)
    for target in ("portable", "cortex-m4"):
        artifact = compiled(target)
        artifact.write(tmp_path, force=True)
        subprocess.run([compiler, *STRICT_FLAGS, level, "-c", "net.c", "-o", "net.o"], cwd=tmp_path, check=True)


@pytest.mark.all
@pytest.mark.parametrize("core", some_at_first(["cortex-m4", "cortex-m0"]))
def test_the_core_computes_what_the_reference_does(core, tmp_path):
    require_core(core, counting=False)
    found = [subjects.compiled(model.__name__, model(), core) for model in (wandering, bottleneck, separable, windowed)]
    assert not wrong_outputs(core, found, tmp_path, flags=("-Os",))


def strided():
    """Pixels two apart, beside a matrix that is met by a single vector."""
    n = Network((1, 64, 6, 6))
    x = n.conv(n.conv("x", 75, stride=2), 64)
    return n.model(n.conv(n.mean(x), 35))


@pytest.mark.all
def test_vectors_that_lie_strides_apart_share_with_those_that_follow_each_other():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qcgen.plan.functions.PRICE", 0)
        artifact = compiled("cortex-m4", strided)
    [function] = artifact.plan.shared
    assert len(function.nodes) == 3
    assert "layer->more" in artifact.files["net.c"]  # elements from one row of vectors to the next
    assert verify(artifact, cases=4).is_right


def test_reports_name_the_function_that_layers_run_through():
    artifact = compiled()
    nodes = artifact.report.nodes
    for function in artifact.plan.shared:
        assert tuple(node.name for node in nodes if node.shared_function == function.symbol) == function.nodes
        assert f"{function.symbol} serves {', '.join(function.nodes)}" in shared(nodes)
        assert page(artifact.report).count(f"through {function.symbol}") == len(function.nodes)
    assert {node.name for node in nodes if node.shared_function is None}
    assert shared([node for node in nodes if node.shared_function is None]) == ""
