"""Whole networks, from the command line and from Python: the digits network in its four quantizations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from marks import some_at_first
from onnx import numpy_helper

import qcgen
from qcgen.build import STRICT_FLAGS, host_compiler
from qcgen.cli import main
from qcgen.verification import verify

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "tests" / "data" / "digits"
MODELS = ("digits_qop_s8", "digits_qop_u8", "digits_qdq_s8", "digits_qdq_u8")

each_model = pytest.mark.parametrize("name", MODELS)
a_model = pytest.mark.parametrize("name", some_at_first(MODELS))


@pytest.fixture(scope="module")
def tests():
    """The test images as the models take them, with what onnxruntime recorded of them."""
    with np.load(DIGITS / "digits_test.npz") as arrays:
        recorded = dict(arrays)
    images = recorded["test_images"].astype(np.float32) * recorded["pixel_scale"]
    return recorded | {"images": images}


@pytest.fixture
def outcome(capsys):
    """Runs a command line: the exit status, standard output, standard error."""

    def run(*argv):
        status = main([str(word) for word in argv])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "internal error" not in captured.err
        return status, captured.out, captured.err

    return run


def answers(artifact, images):
    """The only output for each image, one after the other."""
    model, [port] = artifact.load(), artifact.plan.inputs
    return np.concatenate([model.run(None, {port.tensor.name: image[None]})[0] for image in images])


def changed(name, change):
    """A model of the digits network that ``change`` has altered."""
    model = onnx.load(DIGITS / f"{name}.onnx")
    change(model.graph)
    return model


def set_constant(graph, name, change):
    """Alters an initializer's array in place."""
    tensor = next(tensor for tensor in graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor).copy()
    change(array)
    tensor.CopyFrom(numpy_helper.from_array(array, name))


# --- what it computes


@each_model
@pytest.mark.parametrize("layout", some_at_first(["nhwc", "model"]))
def test_all_probabilities_of_all_images_are_those_of_onnxruntime(name, layout, tests):
    artifact = qcgen.compile(DIGITS / f"{name}.onnx", layout=layout)
    images = tests["images"] if layout == "model" else np.moveaxis(tests["images"], 1, -1).copy()
    got = answers(artifact, images)
    assert got.shape == (360, 10)
    np.testing.assert_array_equal(got, tests[f"probabilities.{name}"])


@a_model
def test_speed_computes_what_size_computes(name, tests):
    artifact = qcgen.compile(DIGITS / f"{name}.onnx", optimize="speed")
    np.testing.assert_array_equal(answers(artifact, tests["images"][:50]), tests[f"probabilities.{name}"][:50])


INTERLEAVED = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "one.h"
#include "two.h"

enum { IMAGES = 360, ROUNDS = 5 };

static float images[IMAGES][64], results[4][IMAGES][10];
static uint64_t arenas[4][(ONE_ARENA_BYTES > TWO_ARENA_BYTES ? ONE_ARENA_BYTES : TWO_ARENA_BYTES) / 8 + 1];

/* Thread t runs network t % 2; threads 2 and 3 take the images from the end. */
static void *work(void *argument)
{
    const int t = *(const int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < IMAGES; k++) {
            const int i = t < 2 ? k : IMAGES - 1 - k;
            (t % 2 ? two_run : one_run)(images[i], results[t][i], arenas[t]);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    FILE *file = fopen("images", "rb");
    if (!file || fread(images, sizeof images, 1, file) != 1) {
        return 1;
    }
    fclose(file);
    memset(arenas, 0xff, sizeof arenas);
    for (int t = 0; t < 4; t++) {
        if (pthread_create(&threads[t], NULL, work, &numbers[t])) {
            return 2;
        }
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(threads[t], NULL);
    }
    file = fopen("results", "wb");
    return !file || fwrite(results, sizeof results, 1, file) != 1 || fclose(file);
}
"""


@pytest.mark.all
def test_two_networks_in_one_image_run_at_the_same_time_in_four_arenas(tmp_path, tests):
    names = ("digits_qdq_s8", "digits_qop_u8")
    for name, prefix in zip(names, ("one", "two"), strict=True):
        qcgen.compile(DIGITS / f"{name}.onnx", name=prefix).write(tmp_path)
    (tmp_path / "main.c").write_text(INTERLEAVED)
    (tmp_path / "images").write_bytes(tests["images"].tobytes())
    sources = ["main.c", "one.c", "two.c"]
    command = [*host_compiler(), *STRICT_FLAGS, "-O2", "-pthread", *sources, "-lm", "-o", "together"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./together"], cwd=tmp_path, check=True)
    results = np.fromfile(tmp_path / "results", np.float32).reshape(4, 360, 10)
    for thread, got in enumerate(results):
        np.testing.assert_array_equal(got, tests[f"probabilities.{names[thread % 2]}"])


# --- options


@a_model
def test_quantized_io_takes_and_gives_the_codes(name, tests):
    artifact = qcgen.compile(DIGITS / f"{name}.onnx", io="quantized")
    [x], [y] = artifact.program.inputs, artifact.program.outputs
    assert {x.dtype.value, y.dtype.value} == {"int8" if name.endswith("s8") else "uint8"}
    codes = np.rint(tests["images"] / np.float32(x.scale)) + x.zero_point
    codes = codes.clip(x.dtype.low, x.dtype.high).astype(x.dtype.numpy)
    real = (answers(artifact, codes).astype(np.int32) - y.zero_point) * np.float32(y.scale)
    np.testing.assert_array_equal(real.astype(np.float32), tests[f"probabilities.{name}"])


@each_model
def test_quantized_io_leaves_no_floating_point_in_the_c(name):
    artifact = qcgen.compile(DIGITS / f"{name}.onnx", io="quantized", name="digits")
    code = re.sub(r"/\*.*?\*/", " ", artifact.files["digits.c"], flags=re.DOTALL)
    assert not re.search(r"\b(float|double|math\.h)\b", code)
    for port in artifact.plan.ports:
        assert f"#define DIGITS_{port.symbol.upper()}_SCALE " in artifact.files["digits.h"]
        assert f"#define DIGITS_{port.symbol.upper()}_ZERO_POINT " in artifact.files["digits.h"]


def test_quantized_io_is_verified_from_the_command_line(outcome):
    status, out, err = outcome("verify", DIGITS / "digits_qdq_u8.onnx", "--io", "quantized", "--cases", 2, "--no-sums")
    assert (status, err) == (0, "")
    assert "criterion: every output equals the reference, bit for bit\n" in out


@pytest.fixture
def redundant(tmp_path):
    """The digits network with channels of its pointwise convolution that are clamped for every image."""

    def change(graph):
        def lower(bias):
            bias[[1, 4, 5]] = -1_000_000

        set_constant(graph, "pointwise3_b_quantized", lower)

    onnx.save(changed("digits_qop_s8", change), tmp_path / "redundant.onnx")
    return tmp_path / "redundant.onnx"


@pytest.mark.all
def test_simplification_removes_work_and_changes_no_output(redundant):
    simplified, plain = qcgen.compile(redundant), qcgen.compile(redundant, simplify=False)
    assert simplified.report.macs < plain.report.macs
    assert simplified.report.unsimplified == plain.report.figures
    assert plain.report.unsimplified == plain.report.figures
    images = np.random.default_rng(0).uniform(-0.2, 1.2, (40, 1, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(answers(simplified, images), answers(plain, images))
    assert verify(simplified, cases=4, sums=False).differing == 0


def test_the_figures_stand_beside_those_without_simplification(redundant, outcome):
    costs = qcgen.compile(redundant, simplify=False).report
    wanted = f"without simplification: flash {costs.weights_bytes:,} B".replace(",", " ")
    for command in (["compile", redundant, "-o", redundant.parent], ["inspect", redundant]):
        status, out, _ = outcome(*command)
        assert status == 0
        assert wanted in out
    plain = outcome("inspect", redundant, "--no-simplify", "--json")[1]
    assert json.loads(plain)["macs"] == costs.macs


@a_model
def test_a_symbolic_batch_is_fixed_by_dim(name, tests, tmp_path, outcome):
    def free(graph):
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "N"
        del graph.value_info[:]

    onnx.save(changed(name, free), tmp_path / "m.onnx")
    status, _, err = outcome("compile", tmp_path / "m.onnx", "-o", tmp_path)
    assert (status, len(err.splitlines())) == (0, 1)
    assert "N of input 'image' is open and taken as 1" in err
    artifact = qcgen.compile(tmp_path / "m.onnx", dims={"N": 3})
    [y] = artifact.load().run(None, {"image": tests["images"][:3]})
    np.testing.assert_array_equal(y, tests[f"probabilities.{name}"][:3])
    assert outcome("verify", tmp_path / "m.onnx", "--dim", "N=2", "--cases", 2, "--no-sums")[0] == 0


# --- reports


@each_model
def test_the_report_has_every_node_and_the_sums(name, tmp_path, outcome):
    status, out, _ = outcome("compile", DIGITS / f"{name}.onnx", "-o", tmp_path, "--report", "json", "--json")
    assert status == 0
    report = json.loads(out)
    assert report == json.loads((tmp_path / f"{name}_report.json").read_text())
    assert report["macs"] == sum(node["macs"] for node in report["nodes"]) == 346_432
    assert report["weights_bytes"] == sum(node["constant_bytes"] for node in report["nodes"])
    assert report["arena_bytes"] >= report["arena_lower_bound_bytes"] >= 64 * 32 + 64 * 16
    assert set(report["unsimplified"]) == {"macs", "weights_bytes", "arena_bytes"}
    kernels = {node["op"]: node["kernel"] for node in report["nodes"]}
    assert kernels["Flatten"] == "none"
    floats = {node["op"] for node in report["nodes"] if node["arithmetic"] == "float32"}
    assert floats == {"QuantizeLinear", "DequantizeLinear"}
    assert sum(sum(node["requantize"].values()) for node in report["nodes"]) >= 138


def test_inspect_and_compile_tell_the_same(tmp_path, outcome):
    model = DIGITS / "digits_qdq_u8.onnx"
    compiled = outcome("compile", model, "-o", tmp_path)[1].splitlines()
    inspected = outcome("inspect", model)[1].splitlines()
    table = compiled[: compiled.index("")]
    assert len(table) == 1 + 13 + 1
    assert all(line in inspected for line in table)
    macs = compiled[compiled.index("") + 1].split(": ", 1)[1]
    [total] = [line for line in inspected if line.startswith("total: ")]
    assert total.endswith(f", {macs}")
    [ram] = [line for line in compiled if line.startswith("RAM: ")]
    assert ram in inspected
    assert "arena: no placement of these tensors needs less than 3 200 B" in compiled
    assert "without simplification: the same" in inspected


def test_kernels_are_passed_over_only_for_convolutions(outcome):
    found = json.loads(outcome("inspect", DIGITS / "digits_qop_s8.onnx", "--json")[1])
    assert found["whole"]
    assert {node["op"] for node in found["nodes"] if node["rejected"]} <= {"QLinearConv", "QGemm"}
    assert any(node["rejected"] for node in found["nodes"])


# --- verify


@pytest.mark.all
@pytest.mark.parametrize("name", some_at_first(MODELS))
def test_verify_takes_the_whole_network_and_its_recordings(name, outcome):
    arguments = ["--data", DIGITS / f"{name}.npz", "--cases", 2, "--json"]
    status, out, err = outcome("verify", DIGITS / f"{name}.onnx", *arguments)
    assert (status, err) == (0, "")
    found = json.loads(out)
    [whole] = found["nodes"]
    assert found["passed"]
    assert (whole["node"], whole["differing"], whole["cause"]) == (None, 0, None)
    groups = {group["group"]: group["cases"] for group in whole["outcomes"]}
    assert groups["recorded"] == 3
    assert groups["accumulator ends"] > 0
    assert whole["reached"] == {"channels": 16, "of": 16}


@pytest.mark.all
def test_several_networks_are_added_up(outcome):
    status, out, _ = outcome("verify", *(DIGITS / f"{name}.onnx" for name in MODELS), "--cases", 1, "--no-sums")
    assert status == 0
    assert out.count("  the whole network, 13 nodes  0 of ") == 4
    assert "(52 nodes, " in out


def test_a_recording_of_another_arithmetic_is_told_from_a_defect(tmp_path, outcome):
    with np.load(DIGITS / "digits_qdq_u8.npz") as arrays:
        recorded = {k.removesuffix(".noopt"): a for k, a in arrays.items() if k.startswith("in") or "noopt" in k}
    np.savez(tmp_path / "noopt.npz", **recorded)
    arguments = ["--data", tmp_path / "noopt.npz", "--cases", 1, "--no-sums"]
    status, out, _ = outcome("verify", DIGITS / "digits_qdq_u8.onnx", *arguments)
    assert status == 1
    assert "first difference: probabilities[" in out
    assert "cause: the C equals the reference: the recording was made with another model or another arithmetic" in out


# --- refusals


def unsupported(_):
    """The digits network with two operators that do not exist, and a negative scale."""

    def change(graph):
        for node in graph.node:
            if node.name in ("max", "flat"):
                node.op_type = f"My{node.op_type}"

        def negate(scale):
            scale *= -1

        set_constant(graph, "conv4_out_scale", negate)

    return changed("digits_qop_s8", change)


REFUSED = {
    "several problems": (unsupported, ["the operator MyMaxPool is not", "the operator MyFlatten is not", "positive"]),
}


@pytest.mark.parametrize(("build", "texts"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("command", ["compile", "verify"])
def test_a_network_that_cannot_be_compiled_is_refused_with_all_its_problems(build, texts, command, tmp_path, outcome):
    onnx.save(build("refused"), tmp_path / "refused.onnx")
    status, out, err = outcome(command, tmp_path / "refused.onnx", "-o", tmp_path)
    assert (status, out) == (1, "")
    assert [text for text in texts if text not in err] == []
    assert "refused.onnx cannot be compiled: " in err
    assert [path.name for path in tmp_path.iterdir()] == ["refused.onnx"]
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(tmp_path / "refused.onnx")
    assert all(f"{problem.where}: {problem.what}\n" in err for problem in rejection.value.problems)


# --- the programs around it


@pytest.mark.all
@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["tests/demo.py"], ["digits_qdq_u8  99.7 %      99.7 %       0 of 3600"]),
        (["-m", "tests.bench.networks", "tests/data/digits/digits_qop_u8.onnx"], ["integers", "everything is as it"]),
    ],
    ids=["demo", "networks"],
)
def test_the_demonstrations_succeed(arguments, texts):
    command = [sys.executable, *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert [text for text in texts if text not in result.stdout] == []
