"""Random networks against onnxruntime: a few in every run, and bugs that are planted are found."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from tools import require, require_modules

require_modules("onnxruntime")

from fuzz.__main__ import children  # noqa: E402
from fuzz_networks import judge  # noqa: E402
from fuzz_networks.__main__ import Session, command  # noqa: E402
from fuzz_networks.batches import finds  # noqa: E402
from fuzz_networks.generate import Recipe, recipe  # noqa: E402
from fuzz_networks.options import BUILDS, Options  # noqa: E402
from fuzz_networks.rare import FUNCTIONS  # noqa: E402
from fuzz_networks.trial import compiled, tried  # noqa: E402
from models import graph_model, qlinear_conv  # noqa: E402
from qdq import Chain  # noqa: E402

import qcgen.geometry  # noqa: E402
from qcgen.rewrite.quantization import code_bounds  # noqa: E402

if why := judge.unfit():
    pytest.skip(f"onnxruntime on this processor is not a judge of bits: {why}", allow_module_level=True)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What comes of networks, built by gcc alone where ``others`` is false."""

    def tried(numbers, *, seed=1, others=False):
        require("gcc")
        if not others:
            monkeypatch.setattr("fuzz_networks.options.CORES", {})
            monkeypatch.setattr("fuzz_networks.options.BUILDS", {"gcc -O0": ("gcc", "-O0")})
            monkeypatch.setattr("fuzz_networks.options.SHARES", (1,))
            monkeypatch.setitem(BUILDS, "gcc -O0", ("gcc", "-O0"))
        return Session(seed, tmp_path, "").run(numbers)

    return tried


def test_a_network_is_the_same_for_the_same_seed_and_number():
    assert recipe(3, 14, True) == recipe(3, 14, True)
    assert recipe(3, 14, True) != recipe(3, 15, True) != recipe(4, 15, True)


def test_networks_are_of_every_kind():
    made = [recipe(1, number, True) for number in range(60)]
    assert {each.source.split(",")[0] for each in made} > {"quantize_static", "opset 13", "opset 10", "opset 20"} - {""}
    assert {type(each.options.compile.get("arena")) for each in made} == {type(None), str}
    assert len({each.options.compile["target"] for each in made}) > 6
    assert {each.options.build for each in made} >= set(BUILDS) - {"gcc -O0"}


def test_rare_operators_and_spellings_are_drawn():
    models = [onnx.load_from_string(recipe(1, number, True).content) for number in range(7, 1000, 8)]
    nodes = [node for model in models for node in model.graph.node]
    assert {node.op_type for node in nodes} >= {*FUNCTIONS, "ReduceL2", "LogSoftmax"}
    attributes = {(node.op_type, each.name) for node in nodes for each in node.attribute}
    assert attributes >= {("Gemm", "alpha"), ("Gemm", "beta"), ("Gemm", "transA"), ("Split", "num_outputs")}
    assert attributes >= {("AveragePool", "ceil_mode"), ("MaxPool", "ceil_mode")}
    assert "Transpose" in {node.op_type for node in nodes if not node.attribute}
    assert {model.opset_import[0].version for model in models} >= {10, 22, 23, 24, 25}


@pytest.mark.all
def test_twenty_networks_are_right(run):
    session = run(range(20))
    assert session.kinds == {}
    assert session.counts["accepted"] >= 15


@pytest.mark.all
def test_networks_built_by_every_compiler_are_right(run):
    require("gcc", "clang")
    assert run(range(1000, 1060), others=True).kinds == {}


def test_no_float_image_is_resized_in_width_alone(run):
    """onnxruntime adds up its parts in another order between convolutions: half a code was rounded otherwise."""
    require("gcc", "clang")
    assert run([752], others=True).kinds == {}


@pytest.mark.all
def test_clamps_that_vanish_are_found(run, monkeypatch):
    """The reference cannot see this one: it starts behind the front end."""

    def every_code(wiring, node):
        bounds = code_bounds(wiring, node)
        return bounds and tuple(np.asarray(end, bounds[0].dtype) for end in _ends(bounds[0].dtype))

    monkeypatch.setattr(sys.modules["qcgen.rewrite.quantization"], "code_bounds", every_code)
    assert run(range(25)).kinds["output"] > 0


def _ends(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.all
def test_a_stride_that_a_single_window_loses_is_found(run, monkeypatch):
    monkeypatch.setattr(qcgen.geometry, "_effective", lambda stride, windows, _: stride if windows > 1 else 1)
    assert run(range(175, 200)).kinds["output"] > 0


@pytest.mark.all
def test_sums_that_are_one_too_large_are_found(run, mutate):
    mutate("library/integers.h", "((int64_t)acc * multiplier) >> 32", "((int64_t)(acc + 1) * multiplier) >> 32")
    assert run(range(20)).kinds["output"] > 0


def test_the_judge_knows_what_codes_mean():
    model = qlinear_conv((1, 1, 2, 2), np.ones((1, 1, 1, 1), np.int8), x_scale=0.5, y_scale=0.5, w_scale=1.0)
    given = np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2)
    judged = judge.Judge(model.SerializeToString())
    assert np.array_equal(judged.run({"x": given})["y"], given)
    assert {each["x"].dtype for each in judged.feeds(1, 8)} == {np.dtype(np.uint8)}


def test_codes_have_the_scale_in_the_header(tmp_path):
    """Of two pairs of QuantizeLinear and DequantizeLinear onnxruntime makes one, with the scale of the second."""
    require("gcc")
    chain = Chain()
    joined = chain.through(chain.through("x", (0.013, np.int8(-1))), (0.001, np.int8(-12)))
    chain.quantize(chain.node("Tanh", [joined]), (0.0078125, np.int8(0)), "y")
    options = Options({"io": "quantized"}, self_test=False, arena=0.0, flash=0.0, build="gcc -O1")
    made = Recipe(chain.model((1, 4, 16)).SerializeToString(), tolerance="exact", source="", options=options)
    [outcome] = children([1], lambda number, log: tried(number, made, log), tmp_path / "log")
    assert outcome.feeds
    assert list(finds([outcome], tmp_path / "built")) == []


def test_floats_that_are_no_codes_have_a_tolerance_of_their_own():
    from onnx import helper

    relu = helper.make_node("Relu", ["x"], ["y"])
    judged = judge.Judge(graph_model([relu], {"x": ("float", (3,))}, {"y": None}).SerializeToString())
    assert judged.allowed({"y": np.float32([0, 1, 2])}, "exact")["y"].max() == pytest.approx(2 * judge.FLOAT_TOLERANCE)


def test_the_command_repeats_the_options():
    assert command("m.onnx", {"target": "host", "io_memory": "arena", "simplify": False}) == (
        "qcgen compile m.onnx --target host --io-memory arena --no-simplify"
    )


@pytest.mark.parametrize("kind", ["arena", "flash"])
def test_budgets_are_what_a_network_needs_or_more(kind):
    content = qlinear_conv((1, 2, 9, 9), np.ones((4, 2, 3, 3), np.int8), x_scale=0.5, y_scale=0.5, w_scale=1.0)
    options = Options({}, False, **{"arena": 0.0, "flash": 0.0, kind: 1.0}, build="")
    artifact, dropped = compiled(content.SerializeToString(), "net", options)
    assert dropped == ""
    assert isinstance(getattr(artifact.plan.options, kind), int)
