"""A file that is not an ONNX model is named by what it is, with the way from it to one."""

import io
import pickle
import struct
import zipfile

import numpy as np
import onnx
import pytest
from models import problems, qlinear_conv, random_weights

from qcgen.load import load


def archive(*names):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name in names:
            file.writestr(name, b"content")
    return target.getvalue()


def arrays():
    target = io.BytesIO()
    np.savez(target, x=np.zeros(3))
    return target.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
FILES = {
    "kws.tflite": (
        b"\x1c\0\0\0TFL3\x14\0\x20\0",
        "it is a TensorFlow Lite model, no ONNX model",
        "compile it as it is, quantized by its converter: qcgen compile",
    ),
    "a.keras": (
        archive("metadata.json", "config.json", "model.weights.h5"),
        "it is a Keras model",
        "model.export('model.onnx', format='onnx')",
    ),
    "a.h5": (b"\x89HDF\r\n\x1a\n\0\0", "it is an HDF5 file, as Keras wrote its models to (.h5)", "model.export("),
    "a.pt": (
        archive("a/data.pkl", "a/data/0", "a/version"),
        "it holds weights or a model of PyTorch",
        "torch.onnx.export(model, inputs, 'model.onnx')",
    ),
    "script.pt": (
        archive("a/data.pkl", "a/code/__torch__.py", "a/constants.pkl"),
        "it is a TorchScript model",
        "torch.onnx.export(model, inputs, 'model.onnx')",
    ),
    "a.pt2": (
        archive("a/archive_format", "a/models/model.json"),
        "it is a program that torch.export saved",
        "torch.export.load",
    ),
    "old.pth": (
        pickle.dumps({"a": 1}, protocol=2),
        "it is a Python pickle, as PyTorch wrote its models to",
        "torch.onnx.export(",
    ),
    "a.safetensors": (
        struct.pack("<Q", 2) + b"{}" + bytes(10),
        "it holds weights alone (safetensors), no network",
        "torch.onnx.export(",
    ),
    "a.zip": (
        archive("readme.txt", "folder/net.onnx"),
        "it is a zip file; it holds folder/net.onnx",
        "unzip {path}",
    ),
    "cut.zip": (archive("net.onnx")[:20], "it is a damaged zip file", "download it again"),
    "data.npz": (arrays(), "it holds arrays of NumPy (.npz), no model", "give the model's .onnx file"),
    "a.onnx": (POINTER, "it is a pointer of Git LFS, which stands for a file that was not downloaded", "git lfs pull"),
    "b.onnx": (b"\n<!DOCTYPE html>\n<html>", "it is a web page (HTML), no model", "download the file itself"),
    "a.ort": (b"\x1c\0\0\0ORTM\0\0", "it is a model in onnxruntime's own format (.ort)", "give the .onnx"),
    "a.onnx.gz": (b"\x1f\x8b\x08\0", "it is compressed with gzip", "gunzip"),
    "a.json": (b'{"irVersion": 8}', "it is text (JSON or XML), no ONNX model", "give the model's .onnx file"),
}


def refusal(model):
    [problem] = problems(load, model)
    return problem


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_named_by_what_it_is(name, tmp_path):
    content, what, hint = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    problem = refusal(path)
    assert (problem.where, problem.what) == (f"file {str(path)!r}", what)
    assert hint.format(path=path) in problem.hint
    assert refusal(content).what == what


def test_a_saved_model_is_a_folder(tmp_path):
    tmp_path.joinpath("saved_model.pb").write_bytes(b"")
    problem = refusal(tmp_path)
    assert problem.what == "it is a SavedModel of TensorFlow"
    assert f"--saved-model {tmp_path}" in problem.hint


def test_no_onnx_model_is_taken_for_something_else(tmp_path):
    """Whatever producer and version a model names, which are its first bytes."""
    for version in range(3, 14):
        model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)))
        model.ir_version = version
        model.producer_name = "TFL3"
        onnx.save(model, tmp_path / "m.onnx")
        assert load(tmp_path / "m.onnx").nodes
