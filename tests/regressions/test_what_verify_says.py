"""What qcgen verify compares with, and what it says."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import require
from marks import some_at_first
from models import graph_model, node_model, qlinear_conv, random_weights
from onnx import helper
from qdq import Chain
from tools import require_modules

import qcgen
import qcgen.verification.judge as judges
from qcgen.cli import main
from qcgen.errors import ToolMissing
from qcgen.verification import running, verify
from qcgen.verification.judge.engines import Processor

# What qcgen verify compares with starts from the model file: a network that the front end misreads is found.
needs_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime (pip install '.[dev]')"
)
ENGINES = [pytest.param("onnxruntime", marks=needs_onnxruntime), "onnx"]
DIGITS = Path(__file__).resolve().parents[1] / "data" / "digits"
SCALE, ZERO = np.array(0.03125, np.float32), np.array(0, np.int8)


def relu(opset=10, clamps=True):
    """x is quantized, clamped where ``clamps``, and dequantized."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Relu" if clamps else "Identity", ["d"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
    ]
    return graph_model(nodes, {"x": ("float", (1, 70))}, {"y": None}, {"s": SCALE, "z": ZERO}, opset=opset)


def misread(right, wrong, **options):
    """What a front end makes of a model if it takes it for another one."""
    return replace(qcgen.compile(wrong, **options), origin=qcgen.compile(right, **options).origin)


def judged(artifact, oracle="auto", **options):
    return verify(artifact, oracle=oracle, sums=False, cases=4, flags=("-O0",), **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("io", ["model", "quantized"])
@pytest.mark.parametrize("opset", some_at_first([10, 13, 21]))
def test_a_clamp_that_the_front_end_loses_is_found(engine, io, opset):
    found = judged(misread(relu(opset), relu(opset, clamps=False), io=io), engine)
    assert not found.differing  # the C is what our own reference expects of a wrong program
    assert found.judge.oracle == engine
    assert found.judge.differing > found.judge.outputs // 4
    assert found.judge.first.expected == 0 > found.judge.first.got
    assert not found.is_right
    right = judged(qcgen.compile(relu(opset), io=io), engine)
    assert right.is_right
    assert right.judge.differing == 0
    assert right.judge.outputs == right.outputs


def clipped(high, opset=13, moved=False):
    """The sigmoid of codes, clipped, as codes: behind it onnx leaves a code more or less."""
    bounds = {"min": 0.125, "max": high}
    by_input = {name: np.float32(value) for name, value in bounds.items()}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["e"]),
        helper.make_node("Clip", ["e", *by_input], ["c"])
        if opset >= 11
        else helper.make_node("Clip", ["e"], ["c"], **bounds),
        helper.make_node("Transpose" if moved else "Identity", ["c"], ["t"]),
        helper.make_node("QuantizeLinear", ["t", "s", "z"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.03125), "z": ZERO, **(by_input if opset >= 11 else {})}
    return graph_model(nodes, {"x": ("int8", (1, 256))}, {"y": None}, constants, opset=opset)


@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("io", ["model", "quantized"])
@pytest.mark.parametrize("moved", some_at_first([False, True]))
def test_a_clip_that_is_one_code_off_is_found_where_one_code_is_allowed(io, opset, moved):
    right, wrong = clipped(0.75, opset, moved), clipped(0.75 + 0.03125, opset, moved)
    found = judged(misread(right, wrong, io=io), "onnx")
    assert found.judge.differing > found.judge.outputs // 20
    assert found.judge.first.got > found.judge.first.expected
    assert judged(qcgen.compile(right, io=io), "onnx").is_right


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", some_at_first(["digits_qop_s8", "digits_qdq_u8", "digits_qdq_s8", "digits_qop_u8"]))
def test_right_networks_pass(engine, name):
    found = judged(qcgen.compile(DIGITS / f"{name}.onnx"), engine)
    assert found.is_right
    assert (found.judge.oracle, found.judge.outputs) == (engine, found.outputs)


def test_an_engine_that_gives_outputs_of_another_shape_does_not_judge():
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 5], pads=[1, 2, 1, 2])
    model = graph_model([node], {"x": ("int8", (1, 4, 8, 5))}, {"y": None}, opset=13)
    found = judged(qcgen.compile(model), "onnx")
    assert found.is_right
    assert found.judge.oracle == "onnx" or "the shape [1, 4, 9, 4]" in found.judge.notes[0]  # until onnx mends it


def products(largest, x_type="uint8"):
    """A product of codes of x_type by int8 weights, of which two have magnitudes up to ``largest``."""
    weights = random_weights((8, 4), seed=1) // 4
    weights[:2, 0] = largest
    return node_model(
        "QLinearMatMul",
        {
            "a": (x_type, (3, 8)),
            "a_scale": SCALE,
            "a_zero_point": np.asarray(3, x_type),
            "b": weights,
            "b_scale": SCALE,
            "b_zero_point": ZERO,
            "y_scale": np.array(1, np.float32),
            "y_zero_point": np.asarray(7, x_type),
        },
    )


def on(monkeypatch, machine, *flags):
    monkeypatch.setattr(judges, "this_processor", lambda: Processor(machine, frozenset(flags)))


@needs_onnxruntime
@pytest.mark.parametrize(
    ("model", "flags", "oracle"),
    [
        (products(127), ("avx2", "fma"), "onnx"),
        (products(65), ("avx2", "fma"), "onnx"),
        (products(64), ("avx2", "fma"), "onnxruntime"),
        (products(-128, "int8"), ("avx2", "fma"), "onnxruntime"),
        (products(64), ("avx2", "fma", "avx512_vnni"), "onnxruntime"),
    ],
)
def test_where_products_may_saturate_onnxruntime_judges_with_vnni_only(monkeypatch, model, flags, oracle):
    on(monkeypatch, "x86_64", *flags)
    found = judged(qcgen.compile(model)).judge
    assert (found.oracle, found.differing) == (oracle, 0)
    assert found.outputs
    said = "AVX2 without VNNI): products of uint8 and int8 codes saturate in 16 bits, in node 'node'"
    assert [said in note for note in found.notes] == ([True] if oracle == "onnx" else [])


@needs_onnxruntime
def test_vnni_is_asked_for_and_nothing_else(monkeypatch):
    artifact = qcgen.compile(products(127))
    for flags in (("avx512_vnni",), ("avx2", "avx_vnni")):
        on(monkeypatch, "x86_64", *flags)
        assert judges.why_not_onnxruntime(artifact) == ""
    on(monkeypatch, "aarch64", "asimd")
    assert "aarch64 without SDOT" in judges.why_not_onnxruntime(artifact)
    on(monkeypatch, "aarch64", "asimd", "asimddp")
    assert judges.why_not_onnxruntime(artifact) == ""


@needs_onnxruntime
@pytest.mark.parametrize(
    ("machine", "flags", "version", "is_exact"),
    [
        ("x86_64", ("avx2", "fma"), "1.32.0", True),
        ("x86_64", ("avx2",), "1.32.0", False),
        ("aarch64", ("asimddp",), "1.32.0", False),
        ("x86_64", ("avx2", "fma"), "1.31.1", False),
        ("arm64", (), "1.32.0", False),
    ],
)
def test_other_machines_and_versions_judge_within_one_code(monkeypatch, machine, flags, version, is_exact):
    on(monkeypatch, machine, *flags)
    monkeypatch.setattr(judges, "installed", lambda: version)
    found = judged(qcgen.compile(relu())).judge
    assert found.oracle == "onnxruntime"
    assert found.criterion.startswith("bit for bit" if is_exact else "at most one code")
    assert ("not 1.32.0" in found.name) == (version != "1.32.0")


def test_without_onnxruntime_onnx_judges_and_says_so(monkeypatch):
    monkeypatch.setattr(judges, "installed", lambda: None)
    artifact = qcgen.compile(relu())
    found = judged(artifact).judge
    assert (found.oracle, found.differing) == ("onnx", 0)
    [note] = found.notes
    assert "not installed: pip install" in note
    with pytest.raises(ToolMissing, match="not installed"):
        judged(artifact, "onnxruntime")


def test_nobody_judges_in_silence():
    artifact = qcgen.compile(relu())
    assert judged(artifact, "own").judge.name == "qcgen's own reference only, nothing independent of it"
    unknown = judged(replace(artifact, origin=None)).judge
    assert (unknown.oracle, unknown.notes) == ("own", ("the model file is not known",))
    model = node_model(
        "AveragePool", {"x": ("float", (1, 4, 4, 2))}, kernel_shape=[2, 2], domain="com.ms.internal.nhwc"
    )
    found = judged(qcgen.compile(model)).judge
    assert found.oracle == "own"
    assert "onnx cannot run this" in found.notes[-1]
    assert "AveragePool" in found.notes[-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_part_that_was_compiled_is_judged(engine, tmp_path):
    """--output, --node, --dim and --constant: of the model file, what they leave of it."""
    nodes = [
        helper.make_node("Add", ["x", "c"], ["sum"], name="add"),
        helper.make_node("Abs", ["sum"], ["y"], name="abs"),
        helper.make_node("Sqrt", ["y"], ["z"], name="root"),
    ]
    model = graph_model(nodes, {"x": ("float", ("N", 3)), "c": ("float", (3,))}, {"z": None})
    given = {"dims": {"N": 2}, "constants": {"c": np.float32([1, 2, 3])}}
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    for each in (model, model.SerializeToString(), path):
        for part in ({}, {"outputs": ["y"]}, {"node": "abs"}):
            found = judged(qcgen.compile(each, **given, **part), engine)
            assert (found.judge.oracle, found.judge.differing) == (engine, 0)
            assert found.judge.outputs == found.outputs
    other = graph_model(nodes, {"x": ("float", ("N", 3)), "c": ("float", (3,))}, {"z": None})
    other.graph.node[1].op_type = "Neg"
    assert judged(misread(model, other, **given, outputs=["y"]), engine).judge.differing


@pytest.mark.parametrize("oracle", [*ENGINES, "own"])
def test_the_command_names_the_judge_and_fails_by_it(monkeypatch, oracle, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(relu(), path)
    arguments = ("verify", str(path), "--oracle", oracle, "--no-sums", "--cases", "2")
    assert main(arguments) == 0
    assert "judge: " + {"own": "qcgen's own", "onnx": "onnx.ref", "onnxruntime": "onnxruntime 1."}[oracle] in (
        capsys.readouterr().out
    )
    assert main((*arguments, "--json")) == 0
    [node] = json.loads(capsys.readouterr().out)["nodes"]
    assert (node["judge"]["oracle"], node["judge"]["differing"]) == (oracle, 0)

    real = judges.read
    monkeypatch.setattr(judges, "read", lambda origin: real(replace(origin, model=relu(clamps=False))))
    status = main(arguments)
    out = capsys.readouterr().out
    assert status == (0 if oracle == "own" else 1)
    assert (f"first difference from {oracle}: y[0, " in out) == (oracle != "own")
    status = main((*arguments, "--json"))
    assert json.loads(capsys.readouterr().out)["passed"] == (oracle == "own")


def test_nan_equals_nan():
    """Square roots of negative numbers: verify took right C for wrong."""
    found = judged(qcgen.compile(node_model("Sqrt", {"x": ("float", (1, 9))})))
    assert found.is_right
    assert found.judge.outputs


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", some_at_first(["int8", "uint8", "int16", "uint16"]))
def test_nan_that_is_quantized_becomes_the_lowest_code(engine, dtype):
    """The reference gave the zero point; the C was right."""
    nodes = [
        helper.make_node("Log", ["x"], ["log"]),
        helper.make_node("Neg", ["log"], ["minus"]),
        helper.make_node("QuantizeLinear", ["minus", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = {"s": np.array(0.01, np.float32), "z": np.array(20, dtype)}
    model = graph_model(nodes, {"x": ("float", (1, 40))}, {"y": None}, constants, opset=21, ir_version=10)
    found = judged(qcgen.compile(model), engine)
    assert found.is_right
    assert (found.judge.oracle, found.judge.outputs) == (engine, found.outputs)


def instance_norm(bias=0.5):
    """Codes of 16 bits, normalized; in a case whose codes are all equal float32 loses what is between them."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("InstanceNormalization", ["d", "scale", "bias"], ["n"], epsilon=1e-5),
        helper.make_node("QuantizeLinear", ["n", "t", "z"], ["y"]),
    ]
    constants = {"s": np.array(0.001, np.float32), "t": np.array(0.0003, np.float32), "z": np.array(32000, "uint16")}
    constants |= {"scale": np.float32([1.8, 1.2]), "bias": np.float32([bias, -bias])}
    return graph_model(nodes, {"x": ("uint16", (1, 2, 49))}, {"y": None}, constants, opset=21, ir_version=10)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_nearly_alike_is_judged_within_what_float32_loses(engine):
    artifact = qcgen.compile(instance_norm())
    assert judged(artifact, engine).is_right
    wrong = judged(replace(artifact, origin=qcgen.compile(instance_norm(0.51)).origin), engine)
    assert not wrong.differing
    assert wrong.judge.differing > wrong.judge.outputs // 2


@needs_onnxruntime
def test_an_error_of_equal_numbers_does_not_pass_for_rounding():
    """With a small epsilon the tolerance grew with 1 / sqrt(epsilon): what was 4.4 from onnxruntime passed."""

    def model(bias):
        operands = {"x": ("float", (2, 16)), "scale": np.ones(16, np.float32), "bias": np.full(16, bias, np.float32)}
        return node_model("LayerNormalization", operands, opset=17, epsilon=1e-12)

    right, wrong = qcgen.compile(model(0)), qcgen.compile(model(0.001))
    assert verify(right, sums=False, cases=0).is_right
    found = verify(replace(wrong, origin=right.origin), sums=False, cases=0, oracle="onnxruntime")
    assert found.judge.differing == found.judge.outputs


def test_the_judge_goes_on_from_codes_that_rewriting_gave_other_names():
    """Else each layer that rounds otherwise adds a code to what the next ones may be off."""
    nodes, x = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d0"])], "d0"
    for layer in "123":
        nodes += [
            helper.make_node("Conv", [x, "w"], [f"c{layer}"]),
            helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]),
            helper.make_node("QuantizeLinear", [f"r{layer}", "s", "z"], [f"q{layer}"]),
            helper.make_node("DequantizeLinear", [f"q{layer}", "s", "z"], [f"d{layer}"]),
        ]
        x = f"d{layer}"
    weights = {"wq": random_weights((2, 2, 1, 1), seed=3), "ws": SCALE, "wz": ZERO}
    nodes = [helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"]), *nodes]
    constants = {"s": SCALE, "z": np.array(0, np.uint8), **weights}
    model = graph_model(nodes, {"x": ("uint8", (1, 2, 3, 3))}, {"d3": None}, constants)
    artifact = qcgen.compile(model)
    [case] = [{"x": np.zeros((1, 2, 3, 3), np.uint8)}]
    judge = judges.judge_of(artifact, "onnx", [case])
    assert {"q1", "q2", "q3"} <= judge.bench.rules.followed.keys()
    assert judged(artifact, "onnx").is_right


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_weights_that_only_onnxruntime_quantizes_condemn_nothing(engine, op_type):
    """onnx.reference multiplies by the float weights: right codes are several apart, wrong ones further."""

    def model(factor=1.0):
        weights = np.random.default_rng(4).normal(0, 0.5, (4, 4, 2, 2)).astype(np.float32) * np.float32(factor)
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            helper.make_node(op_type, ["d", "w"], ["c"], name="product"),
            helper.make_node("QuantizeLinear", ["c", "s", "z"], ["y"]),
        ]
        return graph_model(nodes, {"x": ("int8", (1, 4, 5, 5))}, {"y": None}, {"s": SCALE, "z": ZERO, "w": weights})

    right = judged(qcgen.compile(model()), engine)
    assert right.is_right
    assert ("half a unit of each weight" in right.judge.criterion) == (engine == "onnx")
    wrong = judged(misread(model(), model(1.1)), engine)
    assert not wrong.differing
    assert wrong.judge.differing


# verify passed layers with a Relu of which onnxruntime had judged nothing: their codes may be one more or less.
#
# Behind a table of such codes the code may be as many off as the table's largest step.
def clamped_layer(between, behind=(), codes=True, bias=0):
    """A convolution between codes, and behind it operators of numbers."""
    made = Chain()
    w = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    inputs = [made.dequantize("x", (0.1, np.int8(-5)), "values"), made.weights("w", w, (0.01, np.int8(0)))]
    inputs.append(made.constant("b", np.full(4, bias, np.float32)))
    y = made.node("Conv", inputs)
    for op_type in between:
        y = made.node(op_type, [y])
    y = made.through(y, (0.05, np.int8(4)))
    for op_type in behind:
        y = made.node(op_type, [y])
    if codes:
        made.quantize(y, (0.01, np.int8(0)), "y")
    else:
        made.node("Identity", [y], "y")
    return made.model((1, 4, 3, 3), opset=13, x_type="int8")


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("behind", [[], ["Relu"], ["Sigmoid"]])
@pytest.mark.parametrize("between", [["Relu"], ["Relu", "Flatten"], ["Flatten", "Relu"]])
def test_codes_behind_a_clamp_are_judged(between, behind, codes):
    require_modules("onnxruntime")
    right = clamped_layer(between, behind, codes)
    assert judged(qcgen.compile(right, name="net")).judge.outputs
    assert not judged(qcgen.compile(right, name="net")).judge.differing
    found = judged(misread(right, clamped_layer(between, behind, codes, bias=3), name="net"))
    assert found.judge.differing > found.judge.outputs // 8
    assert not found.is_right


def test_a_network_whose_judge_compares_nothing_does_not_pass(tmp_path, capsys):
    require_modules("onnxruntime")
    path = tmp_path / "net.onnx"
    path.write_bytes(clamped_layer(["Relu"], ["Relu", "Softmax"], codes=False).SerializeToString())
    command = ["verify", str(path), "--no-sums", "--cases", "1"]
    assert main(command) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("NOT JUDGED: onnxruntime compared no output")
    assert main([*command, "--oracle", "own"]) == 0


# qcgen verify --target host was built with -O2: the instructions of its code never ran, and nothing said so.
CONV = qlinear_conv((1, 4, 6, 7), random_weights((16, 4, 3, 3), seed=5))
HAS, HAS_NOT = frozenset(("__AVX2__", "__AVXVNNI__")), frozenset(("__AVX2__",))
SAID = "the code has neither VNNI nor SDOT here: these instructions were not run, only their portable meaning"


def flags_of(monkeypatch, target, macros, **options):
    """The flags built with, and what is said of instructions that were not run."""
    require("gcc")
    monkeypatch.setattr(running, "defined", lambda _: macros)
    found = verify(qcgen.compile(CONV, target=target), sums=False, cases=0, oracle="own", **options)
    return [word for word in found.command if word.startswith(("-O", "-m"))], found.unrun


def test_code_for_the_host_is_built_for_the_host(monkeypatch):
    monkeypatch.setattr(running.platform, "machine", lambda: "x86_64")
    assert flags_of(monkeypatch, "host", HAS) == (["-O3", "-march=native"], "")
    assert running.usual_flags("cortex-m4", emulated=True) == ("-O2",)
    monkeypatch.setattr(running.platform, "machine", lambda: "aarch64")
    assert running.usual_flags("host", emulated=False) == ("-O3", "-mcpu=native")


def test_code_for_other_targets_is_built_as_before(monkeypatch):
    assert flags_of(monkeypatch, "portable", HAS_NOT) == (["-O2"], "")


@pytest.mark.parametrize("flags", [None, ("-O0",)])
def test_instructions_that_do_not_run_are_named(monkeypatch, flags):
    assert flags_of(monkeypatch, "host", HAS_NOT, flags=flags)[1].endswith(SAID)


def test_the_compiler_is_asked_for_them():
    require("gcc")
    assert "__AVXVNNI__" not in running.defined(("-O2",))
    assert "__AVXVNNI__" in running.defined(("-O2", "-D__AVXVNNI__=1"))
    assert running.defined(("--no-such-option",)) == frozenset()


def test_the_command_says_what_did_not_run(monkeypatch, tmp_path, capsys):
    require("gcc")
    monkeypatch.setattr(running, "defined", lambda _: HAS_NOT)
    path = tmp_path / "m.onnx"
    path.write_bytes(CONV.SerializeToString())
    assert main(("verify", str(path), "--target", "host", "--cflags", "-O0", "--cases", "0", "--no-sums")) == 0
    assert f"note: built with -O0 {SAID}\n" in capsys.readouterr().out


# verify with flags for instructions that the processor lacks was killed without a word.
TRAP = """
#define HOOK __attribute__((no_instrument_function, visibility("hidden"))) void
HOOK __cyg_profile_func_enter(void *function, void *caller);
HOOK __cyg_profile_func_exit(void *function, void *caller);
HOOK __cyg_profile_func_enter(void *function, void *caller) { (void)function; (void)caller; __builtin_trap(); }
HOOK __cyg_profile_func_exit(void *function, void *caller) { (void)function; (void)caller; }
"""
"""Lets every function begin with an instruction that no processor has: what one lacks differs between machines."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere no builtin of gcc is an unknown instruction")
def test_verify_says_which_flags_this_processor_lacks(tmp_path):
    model = qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3)), x_type="int8", y_type="int8")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "trap.h").write_text(TRAP)
    flags = f"--cflags=-mavx -finstrument-functions -include {tmp_path / 'trap.h'}"
    environment = {**os.environ, "PYTHONPATH": str(Path(qcgen.__file__).parents[1]), "PYTHONFAULTHANDLER": ""}
    command = [sys.executable, "-m", "qcgen", "verify", str(tmp_path / "m.onnx"), flags]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("qcgen: built with -mavx ")
    assert "has instructions that this processor lacks: leave out of --cflags what names them" in line


def test_a_self_test_that_compares_nothing_is_refused():
    """A self-test with nothing to compare would always pass; its C left a parameter and a function unused."""
    artifact = qcgen.compile(node_model("Softmax", {"x": ("float", (3, 4))}))
    with pytest.raises(qcgen.ModelRejected, match="there is nothing to compare"):
        artifact.with_self_test()
