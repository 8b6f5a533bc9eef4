"""qcgen quantize: a float network becomes one of integers that compiles, end to end."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import graph_model, node_model
from onnx import helper
from tools import require_modules

import qcgen
from qcgen.cli import main
from qcgen.errors import ModelRejected

IMAGE = (2, 8, 8)


def network(batch="unk__44", opset=17, last=()):
    """Convolutions with normalizations as PyTorch leaves them and as Keras does, behind a Transpose."""
    draw = np.random.RandomState(7)
    constants = {
        "w1": draw.normal(0, 0.3, (6, 2, 3, 3)),
        "gamma": draw.uniform(0.5, 2, 6),
        "beta": draw.normal(0, 0.2, 6),
        "mean": draw.normal(0, 0.2, 6),
        "variance": draw.uniform(0.2, 1, 6),
        "w2": draw.normal(0, 0.3, (6, 1, 3, 3)),
        "b2": draw.normal(0, 0.2, 6),
        "mean2": draw.normal(0, 0.2, (1, 1, 1, 6)),
        "gamma2": draw.uniform(0.5, 2, (1, 1, 1, 6)),
        "beta2": draw.normal(0, 0.2, 6),
        "w3": draw.normal(0, 1, (6, 4)),
        "b3": draw.normal(0, 0.2, 4),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "w1"], ["conv1"], "conv1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["conv1", "gamma", "beta", "mean", "variance"], ["norm1"], "norm1"),
        node("Relu", ["norm1"], ["relu1"], "relu1"),
        node("Conv", ["relu1", "w2", "b2"], ["conv2"], "conv2", group=6, strides=[2, 2]),
        node("Transpose", ["conv2"], ["turned"], "turned", perm=[0, 2, 3, 1]),
        node("Sub", ["turned", "mean2"], ["less"], "less"),
        node("Mul", ["gamma2", "less"], ["more"], "more"),
        node("Add", ["more", "beta2"], ["norm2"], "norm2"),
        node("Relu", ["norm2"], ["relu2"], "relu2"),
        node("Transpose", ["relu2"], ["back"], "back", perm=[0, 3, 1, 2]),
        node("GlobalAveragePool", ["back"], ["means"], "means"),
        node("Flatten", ["means"], ["flat"], "flat"),
        node("Gemm", ["flat", "w3", "b3"], ["logits"], "logits"),
        *last,
    ]
    held = {name: each.astype(np.float32) for name, each in constants.items()}
    inputs, outputs = {"image": ("float", (batch, *IMAGE))}, {"logits": ("float", (batch, 4))}
    return graph_model(nodes, inputs, outputs, held, opset=opset)


def images(count=60):
    return np.random.RandomState(3).normal(0, 1, (count, *IMAGE)).astype(np.float32)


def right_answers(model, given):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return np.array([evaluator.run(None, {"image": each[None]})[0].argmax() for each in given])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    require_modules("onnxruntime")
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "float.onnx")
    np.savez("data.npz", image=images(), labels=right_answers(network(), images()))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_float_network_is_quantized_compiled_and_verified(capsys):
    assert main(["quantize", "float.onnx", "--data", "data.npz", "--calibrate", "40", "-o", "network.onnx"]) == 0
    first, second, third, last = capsys.readouterr().out.splitlines()
    assert first.endswith("QDQ; ranges of 40 examples, 4 normalizations folded")
    assert second.startswith("right answers: float 100.0%, int8 ")
    assert second.endswith(", of 20 examples that gave no ranges")
    assert third.startswith("error of the first output by quantization: ")
    assert last == "C equals onnxruntime: 80 of 80 outputs"
    assert main(["compile", "network.onnx", "--io", "quantized", "--strict"]) == 0
    assert main(["verify", "network.onnx", "--cases", "3", "--no-sums"]) == 0
    assert "float" not in {each.kind for each in qcgen.compile("network.onnx").report.fallbacks}


@pytest.mark.usefixtures("folder")
def test_the_weights_have_a_scale_for_each_channel():
    assert main(["quantize", "float.onnx", "--data", "data.npz", "-o", "network.onnx"]) == 0
    kernels = [node.op_type for node in onnx.load("network.onnx").graph.node if "Quantize" not in node.op_type]
    assert {"BatchNormalization", "Sub", "Mul", "Add"}.isdisjoint(kernels)
    plan = qcgen.compile("network.onnx", simplify=False).plan  # no channel is removed
    scales = [call.op.epilogue.scale for call in plan.calls if call.op.op_type == "Conv"]
    assert [len(set(each.tolist())) for each in scales] == [6, 6]


def test_folding_changes_no_output():
    require_modules("onnxruntime")
    from qcgen.quantize import fold_normalizations
    from qcgen.verification.judge.engines import OnnxRuntime

    before, after = network(1), network(1)
    assert fold_normalizations(after) == 4
    for image in images(5):
        one, other = (OnnxRuntime(model).run({"image": image[None]})["logits"] for model in (before, after))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_sum_that_others_read_too_is_not_folded():
    require_modules("onnxruntime")
    from qcgen.quantize import fold_normalizations

    model = network(1)
    model.graph.output.append(helper.make_tensor_value_info("conv1", 1, None))
    assert fold_normalizations(model) == 3
    assert "BatchNormalization" in [node.op_type for node in model.graph.node]


def test_without_data_dynamic_quantization_is_named(folder, capsys):
    assert main(["quantize", "float.onnx", "-o", "network.onnx"]) == 2
    text = capsys.readouterr().err
    assert "--data FILE.npz" in text
    assert "dynamic quantization" in text
    assert not folder.joinpath("network.onnx").exists()


def broken(value, *examples):
    given = images().astype(np.float64)
    given[list(examples), 1, 2, 3] = value
    return {"image": given}


DATA = {
    "no numbers": (broken(np.nan, 7), "wrong.npz: example 7 of 'image' has NaN: leave it out"),
    "infinities": (
        broken(-np.inf, 0, 9, 50),
        "example 0 of 'image' has infinity, like 2 more examples: leave them out",
    ),
    "numbers beyond float32": (broken(1e39, 59), "example 59 of 'image' has infinity in float32: leave it out"),
    "other names": ({"a": images(), "b": images()}, "it has no array 'image'; it has a, b"),
    "other shape": ({"image": images().transpose(0, 2, 3, 1)}, "an example of 'image' is 8x8x2, the model takes 2x8x8"),
    "other count": ({"image": images(), "labels": np.zeros(3)}, "different numbers of examples: [3, 60]"),
    "one-hot labels": (
        {"image": images(), "labels": np.eye(60, 4)},
        "its labels are 60x4: give one number for each example, that of its class",
    ),
    "one label": ({"image": images(), "labels": 3}, "different numbers of examples: [1, 60]"),
    "no examples": ({"image": images(0)}, "it has no examples"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_that_does_not_fit_is_refused(name, folder, capsys):
    arrays, what = DATA[name]
    np.savez("wrong.npz", **arrays)
    assert main(["quantize", "float.onnx", "--data", "wrong.npz", "-o", "network.onnx"]) == 1
    assert what in capsys.readouterr().err
    assert not folder.joinpath("network.onnx").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_the_error_is_a_number_whatever_the_size_of_the_data(factor):
    from qcgen.quantize import quantize

    operands = {"image": ("float", (1, *IMAGE)), "w": np.ones((3, 2, 3, 3), np.float32)}
    onnx.save(node_model("Conv", operands, {"y": ("float", None)}, opset=17), "line.onnx")
    np.savez("scaled.npz", image=images(4) * np.float32(factor))
    assert 1e-4 < quantize(Path("line.onnx"), Path("scaled.npz")).error < 0.1


def test_an_example_whose_output_overflows_is_refused(folder, capsys):
    given = images(8)
    given[6] *= np.float32(1e38)
    np.savez("wrong.npz", image=given)
    assert main(["quantize", "float.onnx", "--data", "wrong.npz", "--calibrate", "5", "-o", "network.onnx"]) == 1
    assert (
        "wrong.npz: example 6: the first output of the float model is not finite: leave it out"
        in capsys.readouterr().err
    )
    assert not folder.joinpath("network.onnx").exists()


@pytest.mark.usefixtures("folder")
def test_a_single_array_needs_no_name_and_labels_are_not_needed(capsys):
    np.savez("plain.npz", images(5))
    assert main(["quantize", "float.onnx", "--data", "plain.npz", "-o", "network.onnx", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["calibrated"], found["judged"], found["are_new"], found["accuracy"]) == (5, 5, False, None)
    assert (found["differing"], found["outputs"]) == (0, 20)


def test_an_output_is_overwritten_by_force_alone(folder, capsys):
    folder.joinpath("network.onnx").write_text("mine")
    command = ["quantize", "float.onnx", "--data", "data.npz", "--calibrate", "3", "-o", "network.onnx"]
    assert main(command) == 1
    assert "network.onnx exists" in capsys.readouterr().err
    assert folder.joinpath("network.onnx").read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert folder.joinpath("network.onnx").read_bytes()[:1] == b"\x08"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.mark.usefixtures("folder")
def test_models_that_cannot_be_quantized_are_refused():
    from pathlib import Path

    from qcgen.quantize import quantize

    def problem(model):
        onnx.save(model, "m.onnx")
        with pytest.raises(ModelRejected) as rejection:
            quantize(Path("m.onnx"), Path("data.npz"))
        return rejection.value.problems[0].what

    quantized = network(1, last=[helper.make_node("DynamicQuantizeLinear", ["logits"], ["q", "s", "z"])])
    assert problem(quantized) == "it is quantized already"
    assert problem(network(3)) == "its shape is (3, 2, 8, 8)"


def words(dtype="int64"):
    """Words, each a number, become vectors, whose mean is classified; a mask leaves out those that are 0."""
    draw = np.random.RandomState(4)
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "words"], ["vectors"], "gather"),
        node("Equal", ["words", "none"], ["is_none"], "same"),
        node("Unsqueeze", ["is_none", "axes"], ["wide"], "wide"),
        node("Where", ["wide", "zero", "vectors"], ["kept"], "mask"),
        node("ReduceMean", ["kept"], ["mean"], "mean", axes=[1], keepdims=0),
        node("Gemm", ["mean", "w", "b"], ["y"], "gemm"),
    ]
    none = np.zeros((), dtype)
    floats = {
        "table": draw.normal(0, 1, (20, 8)),
        "w": draw.normal(0, 1, (8, 3)),
        "b": np.zeros(3),
        "zero": np.zeros(()),
    }
    constants = {name: value.astype(np.float32) for name, value in floats.items()}
    constants |= {"none": none, "axes": np.int64([2])}
    words, y = {"words": (dtype, ("batch", 6))}, {"y": ("float", ("batch", 3))}
    return graph_model(nodes, words, y, constants, opset=16)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_words_are_calibrated_as_they_are(dtype, capsys):
    onnx.save(words(dtype), "words.onnx")
    np.savez("words.npz", np.random.RandomState(5).randint(0, 20, (30, 6)))
    assert main(["quantize", "words.onnx", "--data", "words.npz", "--calibrate", "20", "-o", "network.onnx"]) == 0
    assert "C equals onnxruntime: 30 of 30 outputs" in capsys.readouterr().out
    assert main(["verify", "network.onnx", "--cases", "3"]) == 0


@pytest.mark.usefixtures("folder")
def test_numbers_between_integers_are_refused_as_words(capsys):
    onnx.save(words(), "words.onnx")
    np.savez("words.npz", np.full((3, 6), [0, 1, 2, 3, 4, 5.5]))
    assert main(["quantize", "words.onnx", "--data", "words.npz", "-o", "network.onnx"]) == 1
    text = "words.npz: example 0 of 'words' has a number that is not an int64, like 2 more examples: leave them out"
    assert text in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_opset_12_becomes_13(capsys):
    onnx.save(network(1, opset=12), "old.onnx")
    assert main(["quantize", "old.onnx", "--data", "data.npz", "--calibrate", "5", "-o", "network.onnx"]) == 0
    assert "C equals onnxruntime: 220 of 220 outputs" in capsys.readouterr().out
