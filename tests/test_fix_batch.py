"""The batch that a model leaves open: 1, which is said, or what the user wants."""

import json

import numpy as np
import pytest
from models import graph_model, node_model
from onnx import helper
from qdq import A, Chain

import qcgen
from qcgen.cli import main

NOTE = "batch: the leading dimension unk__44 of input 'x' is open and taken as 1; batch=N takes another"


def model(batch="unk__44", output_batch="unk__45"):
    """As tf2onnx and Keras write it: input and output have names of their own for the batch."""
    n = Chain()
    flat = n.node("Flatten", [n.through(n.node("Relu", [n.through("x", A)]), A)])
    n.node("Identity", [flat], "y")
    inputs = {"x": ("float", (batch, 2, 3))}
    return graph_model(n.nodes, inputs, {"y": ("float", (output_batch, 6))}, n.constants, opset=13)


@pytest.mark.parametrize("batch", ["unk__44", None, -1])
def test_an_open_batch_becomes_1(batch):
    artifact = qcgen.compile(model(batch, batch and "unk__45"))
    assert artifact.report.inputs[0].shape == (1, 2, 3)
    assert artifact.report.outputs[0].shape == (1, 6)
    [note] = artifact.report.notes
    assert note == (NOTE if batch == "unk__44" else NOTE.replace("unk__44 ", ""))


def test_a_batch_that_is_given_is_taken_without_a_word():
    artifact = qcgen.compile(model(), batch=3)
    assert (artifact.report.inputs[0].shape, artifact.report.notes) == ((3, 2, 3), ())
    x = np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 2, 3)
    [three] = artifact.load().run(None, {"x": x})
    one = qcgen.compile(model()).load()
    np.testing.assert_array_equal(three, np.concatenate([one.run(None, {"x": x[i : i + 1]})[0] for i in range(3)]))


def test_dim_goes_before_what_is_assumed():
    report = qcgen.compile(model(), dims={"unk__44": 2}).report
    assert (report.inputs[0].shape, report.notes) == ((2, 2, 3), ())


def test_a_batch_that_is_fixed_stays():
    assert qcgen.compile(model(2, 2), batch=2).report.notes == ()
    with pytest.raises(qcgen.ModelRejected, match="input 'x': its first dimension is 2, not 1 as batch says"):
        qcgen.compile(model(2, 2), batch=1)
    with pytest.raises(qcgen.ModelRejected, match="batch: it is set to 0"):
        qcgen.compile(model(), batch=0)


def test_an_input_whose_leading_dimension_is_fixed_is_no_batch_beside_an_open_one():
    inputs = {"x": ("float", ("B", 3)), "w": ("float", (3, "B"))}
    report = qcgen.compile(
        graph_model([helper.make_node("MatMul", [*inputs], ["y"])], inputs, {"y": None}), batch=2
    ).report
    assert [each.shape for each in (*report.inputs, *report.outputs)] == [(2, 3), (3, 2), (2, 2)]


def test_only_a_leading_dimension_is_the_batch_and_a_vector_has_none():
    for shape in (("N",), (1, "N")):
        with pytest.raises(qcgen.ModelRejected, match="every dimension must be a known number"):
            qcgen.compile(node_model("Relu", {"x": ("float", shape)}))


@pytest.mark.parametrize("command", ["compile", "inspect", "verify"])
def test_the_command_line_says_it_in_one_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("m.onnx").write_bytes(model().SerializeToString())
    assert main([command, "m.onnx"]) == 0
    assert capsys.readouterr().err.splitlines() == ["qcgen: " + NOTE.replace("batch=N", "--batch N")]
    assert main([command, "m.onnx", "--batch", "2"]) == 0
    assert capsys.readouterr().err == ""


def test_the_json_report_has_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("m.onnx").write_bytes(model().SerializeToString())
    assert main(["compile", "m.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [NOTE.replace("batch=N", "--batch N")]
    assert main(["compile", "m.onnx", "--batch", "0"]) == 2
