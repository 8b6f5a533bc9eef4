"""Inputs that the user makes constants."""

import numpy as np
import onnx
import pytest
from models import qlinear_conv, random_weights

import qcgen
from qcgen.cli import main


def stored():
    """A convolution whose weights are stored in the model."""
    return qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3), seed=1), x_type="int8", y_type="int8")


def fed():
    """The same whose weights are an input; the name of that input, and its elements."""
    model = stored()
    [node] = [node for node in model.graph.node if node.op_type == "QLinearConv"]
    [weights] = [each for each in model.graph.initializer if each.name == node.input[3]]
    array = onnx.numpy_helper.to_array(weights)
    model.graph.initializer.remove(weights)
    model.graph.input.append(onnx.helper.make_tensor_value_info(weights.name, weights.data_type, array.shape))
    return model, weights.name, array


def tables(artifact):
    return [(table.role, table.values.tolist()) for call in artifact.plan.calls for table in call.tables]


def test_an_input_becomes_a_constant_as_if_the_model_stored_it():
    model, name, array = fed()
    artifact = qcgen.compile(model, name="net", constants={name: array})
    assert [port.tensor.name for port in artifact.plan.inputs] == ["x"]
    assert tables(artifact) == tables(qcgen.compile(stored(), name="net"))


def test_other_elements_give_another_sha256():
    model, name, array = fed()
    hashes = {qcgen.compile(model, constants={name: values}).report.sha256 for values in (array, -array - 1, array)}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda _name, array: {"no such": array}, "it is to be a constant, but is not an input"),
        (lambda name, array: {name: array.astype(np.int32)}, "but the constant is int32"),
        (lambda name, array: {name: array[:1]}, "its shape is [4, 2, 3, 3], that of the constant [1, 2, 3, 3]"),
    ],
)
def test_an_array_that_no_input_takes_is_a_problem(change, what):
    model, name, array = fed()
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model, constants=change(name, array))
    assert what in str(rejection.value)


def test_the_command_line_takes_files(tmp_path, capsys):
    model, name, array = fed()
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "w.npy", array)
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path), "--constant"]
    assert main([*command, f"{name}={tmp_path / 'w.npy'}"]) == 0
    capsys.readouterr()
    assert main([*command, f"{name}={tmp_path / 'none.npy'}"]) == 2
    assert "it cannot be read" in capsys.readouterr().err
    assert main([*command, name]) == 2
    assert "is not NAME=FILE.npy" in capsys.readouterr().err


def test_the_command_line_takes_several_arrays_from_one_file(tmp_path, capsys):
    model, name, array = fed()
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "w.npz", **{name: array})
    np.save(tmp_path / "w.npy", array)
    command = ["compile", str(tmp_path / "net.onnx"), "--data", str(tmp_path / "w.npz")]
    assert main([*command, "--bake", "-o", str(tmp_path / "baked")]) == 0
    assert main([*command[:2], "--constant", f"{name}={tmp_path / 'w.npy'}", "-o", str(tmp_path / "given")]) == 0
    baked, given = ((tmp_path / folder / "net.c").read_text() for folder in ("baked", "given"))
    assert baked == given
    capsys.readouterr()
    assert main(command) == 2
    assert "with --bake the constants" in capsys.readouterr().err
    assert main([*command[:2], "--bake"]) == 2
    assert "give the constants as --data FILE.npz" in capsys.readouterr().err
    np.savez(tmp_path / "w.npz", other=array)
    assert main([*command, "--bake", "-o", str(tmp_path / "none")]) == 1
    assert "it is to be a constant, but is not an input" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
