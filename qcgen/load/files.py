"""Files around a model: those that people have in its place, and those beside it that hold its tensors' data."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path


@dataclass(frozen=True)
class OtherFormat:
    """``what`` a file is, in words that follow its name, and the ``hint`` what to do with it."""

    what: str
    hint: str


_DOWNLOAD = "download the file itself"
_QUANTIZE = "then quantize it: qcgen quantize, docs/quantizing.md"
_TORCH = f"load it in PyTorch and export it: torch.onnx.export(model, inputs, 'model.onnx'); {_QUANTIZE}"
_KERAS = f"load it in Keras and export it: model.export('model.onnx', format='onnx'); {_QUANTIZE}"

_HTML = OtherFormat("it is a web page (HTML), no model", f"{_DOWNLOAD}, not the page that shows it")
_POINTER = OtherFormat(
    "it is a pointer of Git LFS, which stands for a file that was not downloaded", "run: git lfs pull"
)
_KERAS_FILE = OtherFormat("it is a Keras model", _KERAS)
_TORCH_FILE = OtherFormat("it holds weights or a model of PyTorch", _TORCH)
_TORCH_SCRIPT = OtherFormat(
    "it is a TorchScript model", f"export the PyTorch model that it was made of: {_TORCH.split(': ', 1)[1]}"
)
_TENSORFLOW_LITE = OtherFormat(
    "it is a TensorFlow Lite model, no ONNX model", "compile it as it is, quantized by its converter: qcgen compile"
)
_EXPORTED = OtherFormat(
    "it is a program that torch.export saved",
    f"load it with torch.export.load and export it: torch.onnx.export(program).save('model.onnx'); {_QUANTIZE}",
)


def other_format(content: bytes, name: str) -> OtherFormat | None:
    """What a file called ``name`` is, by its first bytes; None if no format that is known here begins so."""
    start = content[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return _HTML
    if content.startswith(b"version https://git-lfs.github.com/spec/"):
        return _POINTER
    if content[4:8] == b"TFL3":
        return _TENSORFLOW_LITE
    if content[4:8] == b"ORTM":
        return OtherFormat("it is a model in onnxruntime's own format (.ort)", "give the .onnx that it was made of")
    if content.startswith(b"\x89HDF\r\n\x1a\n"):
        return OtherFormat("it is an HDF5 file, as Keras wrote its models to (.h5)", _KERAS)
    if content.startswith(b"PK\x03\x04"):
        return _zip(content, name)
    if content.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return OtherFormat("it is a Python pickle, as PyTorch wrote its models to", _TORCH)
    return _packed_or_text(content)


def _packed_or_text(content: bytes) -> OtherFormat | None:
    if content.startswith(b"\x1f\x8b"):
        return OtherFormat("it is compressed with gzip", "unpack it: gunzip, or tar -xzf")
    if content.startswith(b"\x93NUMPY"):
        return OtherFormat("it is an array of NumPy (.npy), no model", "give the model's .onnx file")
    if content.startswith(b"GGUF"):
        return OtherFormat("it is a GGUF file of llama.cpp", "qcgen compiles ONNX models only")
    if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < len(content):
        return OtherFormat("it holds weights alone (safetensors), no network", _TORCH)
    if content.lstrip().startswith((b"{", b"<?xml")):
        return OtherFormat("it is text (JSON or XML), no ONNX model", "give the model's .onnx file")
    return None


def _zip(content: bytes, name: str) -> OtherFormat:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return OtherFormat("it is a damaged zip file", "download it again")
    inside = {Path(each).name for each in names}
    if {"config.json", "model.weights.h5"} <= inside:
        return _KERAS_FILE
    if any(each.startswith("serialized_exported_program") or each == "archive_format" for each in inside):
        return _EXPORTED
    if "constants.pkl" in inside:
        return _TORCH_SCRIPT
    if "data.pkl" in inside:
        return _TORCH_FILE
    if inside and all(each.endswith(".npy") for each in inside):
        return OtherFormat("it holds arrays of NumPy (.npz), no model", "give the model's .onnx file")
    models = [each for each in names if each.endswith((".onnx", ".tflite"))]
    has = f"; it holds {models[0]}" if models else ""
    return OtherFormat(f"it is a zip file{has}", f"unpack it and give the model in it: unzip {name}")


def other_folder(folder: Path) -> OtherFormat | None:
    """What a folder is, None if it is none of TensorFlow's."""
    if not folder.joinpath("saved_model.pb").is_file():
        return None
    command = f"python -m tf2onnx.convert --opset 13 --saved-model {folder} --output model.onnx"
    return OtherFormat("it is a SavedModel of TensorFlow", f"pip install tf2onnx, then: {command}; {_QUANTIZE}")


# Tensor data that a model keeps in files beside it, read without leaving the model's folder.


class UnreadableError(Exception):
    """External data cannot be read; the arguments are what is wrong, what to do, and the file that is to blame."""

    def __init__(self, what: str, hint: str, location: str) -> None:
        super().__init__(what, hint)
        self.what, self.hint, self.location = what, hint, location


def external_bytes(entries: Mapping[str, str], folder: Path | None) -> bytes:
    """The bytes that a tensor's external_data entries (location, offset, length) point to, in the model's ``folder``.

    Raises UnreadableError for files that are absent, too short or, symbolic links resolved, outside the folder.
    """
    location = entries.get("location", "")
    if folder is None:
        raise UnreadableError(
            f"its data is in the file {location!r}, but a model given as bytes or protobuf has no folder",
            "give the path of the model, or store the data inside the model",
            location,
        )
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "-1"))
        root = folder.resolve()
        path = (root / location).resolve()
        if not location or Path(location).is_absolute() or not path.is_relative_to(root):
            raise UnreadableError(
                f"its data is in the file {location!r}, which is outside the model's folder",
                "put the data beside the model and name it by a relative path",
                location,
            )
        if not path.is_file():
            what = f"its data is in the file {location!r}, which does not exist"
            raise UnreadableError(what, "put that file beside the model", location)
        return _read(path, location, offset, length)
    except (OSError, ValueError, RuntimeError) as error:
        what = f"its data in the file {location!r} cannot be read: {error}"
        raise UnreadableError(what, "export the model again", location) from None


def _read(path: Path, location: str, offset: int, length: int) -> bytes:
    size = path.stat().st_size
    end = size if length < 0 else offset + length
    if not 0 <= offset <= end <= size:
        what = f"its data is bytes {offset} to {end} of the file {location!r}, which has {size}"
        raise UnreadableError(what, "export the model again, or download the whole file", location)
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(end - offset)
