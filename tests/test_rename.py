"""--rename: inputs and outputs are called in C as the user wants."""

import re

import numpy as np
import pytest
from models import graph_model, problems
from qdq import A, Chain

import qcgen
from qcgen.cli import main

LONG = "serving_default_keras_tensor:0"
RENAME = {LONG: "image", "StatefulPartitionedCall:0": "scores"}


def model():
    n = Chain()
    n.dequantize(n.quantize(n.node("Relu", [n.through(LONG, A)]), A), A, "StatefulPartitionedCall:0")
    return graph_model(
        n.nodes, {LONG: ("float", (1, 4))}, {"StatefulPartitionedCall:0": ("float", (1, 4))}, n.constants, opset=13
    )


@pytest.mark.parametrize("io", ["model", "quantized"])
def test_the_header_has_the_names_that_were_chosen(io):
    artifact = qcgen.compile(model(), name="net", rename=RENAME, io=io)
    header = artifact.files["net.h"]
    assert re.search(r"void net_run\(const \w+ \*image, \w+ \*scores, void \*arena\);", header)
    assert "NET_IMAGE_SIZE" in header
    assert "SERVING_DEFAULT" not in header


def test_python_takes_the_names_of_the_model():
    x = np.array([[-1, 0, 1, 2]], np.float32)
    [renamed], [plain] = (
        qcgen.compile(model(), rename=rename).load().run(None, {LONG: x}) for rename in (RENAME, None)
    )
    np.testing.assert_array_equal(renamed, plain)


@pytest.mark.parametrize("new", ["a-b", "int", "9a", "arena", "x" * 200])
def test_a_name_that_c_does_not_take_is_refused(new):
    with pytest.raises(qcgen.ModelRejected, match="C cannot call it so"):
        qcgen.compile(model(), rename={LONG: new})


def test_a_name_that_two_tensors_would_have_is_refused():
    with pytest.raises(qcgen.ModelRejected, match=r"rename={.StatefulPartitionedCall:0.: .a.}: C cannot call it so"):
        qcgen.compile(model(), rename=dict.fromkeys(RENAME, "a"))


def test_a_tensor_that_is_not_there_is_told_with_those_that_are():
    [problem] = problems(qcgen.compile, model(), rename={"input": "image"})
    assert (problem.where, problem.what) == ('rename={"input": "image"}', "there is no input or output of this name")
    assert LONG in problem.hint


def test_the_command_line_renames_and_verifies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("net.onnx").write_bytes(model().SerializeToString())
    options = [f"--rename={name}={new}" for name, new in RENAME.items()]
    assert main(["compile", "net.onnx", *options]) == 0
    assert f"{LONG}=image" in tmp_path.joinpath("net.c").read_text()
    assert main(["verify", "net.onnx", *options]) == 0
    capsys.readouterr()
    assert main(["compile", "net.onnx", "--rename", f"{LONG}=a", "--rename", f"{LONG}=b"]) == 2
    assert "is renamed to a and to b" in capsys.readouterr().err
    assert main(["compile", "net.onnx", "--rename", "image"]) == 2
