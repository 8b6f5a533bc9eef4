"""A model's file, bytes or protobuf becomes a Graph."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import NEWEST, Attribute, Dim, Graph, Node, Origin, Value, element_type, fresh
from qcgen.ir.types import Array, DType
from qcgen.load.nodes import (
    DUPLICATE,
    IN_BYTES,
    in_bytes,
    order_problems,
    sorted_nodes,
    spelling_problems,
    unique_names,
)
from qcgen.schemas import OLDEST

# Files around a model: those that people have in its place, and those beside it that hold its tensors' data.


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


Model = str | os.PathLike[str] | bytes | ModelProto

AGAIN = "export the model again"


def load(model: Model, *, dims: Mapping[str, int] | None = None) -> Graph:
    """The graph of a model given as a path, as bytes or as a ModelProto; ``dims`` fixes symbolic dimensions.

    Raises ModelRejected with every reason why it is not a well-formed model.
    """
    proto, digest, folder = _parsed(model)
    if _has_broken_text(proto):
        what = "a name in it is not UTF-8 text, so it is not an ONNX model, or a damaged one"
        raise ModelRejected([Problem("model", what, AGAIN)])
    proto = _without_functions(proto)
    problems = list(_model_problems(proto))
    if not proto.HasField("graph"):
        raise ModelRejected([*problems, Problem("model", "it has no graph", AGAIN)])
    reader = _GraphReader(_with_branches(proto.graph), folder, dims or {}, _opsets(proto))
    graph = reader.graph(digest)
    if problems or reader.problems:
        raise ModelRejected([*problems, *reader.problems])
    return replace(graph, origin=Origin(model))


def parsed(model: Model) -> ModelProto:
    """The protobuf of a model with what lies in other files; raises ModelRejected."""
    proto, _, folder = _parsed(model)
    if folder is not None:
        onnx.load_external_data_for_model(proto, str(folder))
    return proto


def _parsed(model: Model) -> tuple[ModelProto, str, Path | None]:
    """The protobuf, the sha256 of its bytes and the folder that its external data is in."""
    if isinstance(model, ModelProto):
        return model, hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest(), None
    if isinstance(model, bytes):
        return _decoded(model, "model"), hashlib.sha256(model).hexdigest(), None
    where = f"file {os.fspath(model)!r}"
    if (other := other_folder(Path(model))) is not None:
        raise ModelRejected([Problem(where, other.what, other.hint)])
    try:
        content = Path(model).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem(where, f"it cannot be read: {reason}", "give the path of a .onnx or .tflite file")
        raise ModelRejected([problem]) from None
    proto = _decoded(content, where, os.fspath(model))
    return proto, hashlib.sha256(content).hexdigest(), Path(model).parent


def _decoded(content: bytes, where: str, name: str = "model") -> ModelProto:
    if not content:
        raise ModelRejected([Problem(where, "it is empty", "give an ONNX model")])
    proto = ModelProto()
    found = None
    try:
        proto.ParseFromString(content)
    except DecodeError:
        found = OtherFormat("it is not an ONNX model, or only a part of one", "export or download the model again")
    if found is not None or not proto.HasField("graph"):
        found = other_format(content, name) or found
    if found is not None:
        raise ModelRejected([Problem(where, found.what, found.hint)])
    return proto


def _has_broken_text(message: Message) -> bool:
    """Whether some string in a message is not UTF-8; protobuf hands out such strings as bytes."""
    for field, value in message.ListFields():
        items = [value] if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_STRING and any(isinstance(item, bytes) for item in items):
            return True
        if field.type == field.TYPE_MESSAGE and any(_has_broken_text(item) for item in items):
            return True
    return False


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opsets(proto: ModelProto) -> dict[str, int]:
    if not proto.opset_import and proto.ir_version < 3:
        return {"": 1}  # models of that age import nothing
    return {_domain(entry.domain): entry.version for entry in proto.opset_import}


def _model_problems(proto: ModelProto) -> Iterator[Problem]:
    """What is wrong with the model around its graph."""
    if proto.ir_version < 1:
        yield Problem("model", "it states no IR version, so it is not an ONNX model", AGAIN)
    if proto.ir_version > onnx.IR_VERSION:
        what = f"its IR version is {proto.ir_version}; the newest that is known is {onnx.IR_VERSION}"
        yield Problem("model", what, "update the onnx package, or export the model with an older IR version")
    if not _opsets(proto):
        yield Problem("model", "it imports no opset, so it is not an ONNX model, or only a part of one", AGAIN)
        return
    newest = onnx.defs.onnx_opset_version()
    imported = _opsets(proto).get("", OLDEST)
    if not OLDEST <= imported <= newest and any(_domain(node.domain) == "" for node in proto.graph.node):
        what = f"it imports opset {imported} of ai.onnx; opsets {OLDEST} to {newest} are known"
        convert = "convert it first: onnx.version_converter.convert_version(model, 13)"
        is_old = 1 <= imported < OLDEST
        hint = "export the model with one of these opsets, or "
        yield Problem("model", what, hint + (convert if is_old else "update the onnx package"))
    functions = {(_domain(function.domain), function.name) for function in proto.functions}
    for node in proto.graph.node:
        if (_domain(node.domain), node.op_type) in functions:
            yield Problem(
                f"node {node.name!r} ({node.op_type})",
                "it calls a function that the model itself defines, and which onnx.inliner cannot write out",
                "export the model with the functions' nodes in its graph",
            )


class _GraphReader:
    """Reads a GraphProto and keeps every problem met on the way."""

    def __init__(
        self, proto: GraphProto, folder: Path | None, dims: Mapping[str, int], opsets: Mapping[str, int]
    ) -> None:
        self.proto = proto
        self.folder = folder
        self.dims = dims
        self.opsets = opsets
        self.symbols: set[str] = set()
        self.problems: list[Problem] = []
        self.unreadable: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def graph(self, digest: str) -> Graph:
        """The graph; only to be used if there are no problems."""
        declared = tuple(info.name for info in self.proto.input)
        outputs = tuple(info.name for info in self.proto.output)
        infos = (*self.proto.input, *self.proto.value_info, *self.proto.output)
        types = {info.name: info.type.tensor_type.elem_type for info in infos}
        codes = in_bytes(self._nodes(), self._constants(), types)
        nodes, constants = codes.nodes, codes.constants
        values = self._values(constants)
        self._check_dims()
        self._check_files()
        self.problems += order_problems(nodes, declared, outputs, constants)
        for node in nodes:
            self.problems += spelling_problems(node)
        return Graph(
            name=self.proto.name,
            nodes=sorted_nodes(nodes, {*declared, *constants}),
            inputs=tuple(name for name in declared if name not in constants),
            outputs=outputs,
            values=values,
            constants=constants,
            opsets=self.opsets,
            sha256=digest,
            fixed_dims=self.dims,
            narrow=codes.narrow,
        )

    def _problem(self, where: str, what: str, hint: str = AGAIN) -> None:
        self.problems.append(Problem(where, what, hint))

    def _constants(self) -> dict[str, Array]:
        constants: dict[str, Array] = {}
        for tensor in self.proto.initializer:
            where = f"tensor {tensor.name!r}"
            if tensor.name in constants:
                self._problem(where, "two initializers have this name", DUPLICATE)
            constants[tensor.name] = self._array(tensor, where)
        for sparse in self.proto.sparse_initializer:
            name = sparse.values.name
            self._problem(f"tensor {name!r}", "it is a sparse initializer", "store the tensor densely")
            constants[name] = np.zeros(0, np.float32)
        return constants

    def _array(self, tensor: TensorProto, where: str) -> Array:
        """The elements of a tensor; an empty array, and a problem, if they cannot be read."""
        try:
            if tensor.data_location == TensorProto.EXTERNAL:
                data = external_bytes({entry.key: entry.value for entry in tensor.external_data}, self.folder)
                tensor = TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=data)
            if any(dim < 0 for dim in tensor.dims):
                raise ValueError("negative dimension")
            array: Array = numpy_helper.to_array(tensor)
            return array
        except UnreadableError as error:
            self.unreadable.setdefault((error.location, error.hint), []).append((where, error.what))
        except (ArithmeticError, LookupError, MemoryError, NotImplementedError, TypeError, ValueError):
            shape = tuple(tensor.dims)
            self._problem(where, f"its data cannot be read as {_type_name(tensor.data_type)} of shape {shape}")
        return np.zeros(0, np.float32)

    def _values(self, constants: Mapping[str, Array]) -> dict[str, Value]:
        infos = [*self.proto.value_info, *self.proto.output]
        values = {info.name: self._value(info) for info in infos}
        values |= {info.name: self._input(info, constants) for info in self.proto.input}
        for name, array in constants.items():
            # Up to IR version 3 initializers are declared as inputs, too.
            declared = values[name].fixed_shape if name in values else None
            if declared is not None and declared != array.shape and not self.unreadable:
                what = f"it is declared with shape {declared}, but its initializer has shape {array.shape}"
                self._problem(f"tensor {name!r}", what)
            values[name] = Value(name, DType.of(array), tuple(array.shape))
        return values

    def _value(self, info: ValueInfoProto) -> Value:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            return Value(info.name, None if kind is None else DType.OTHER, None)
        tensor = info.type.tensor_type
        shape = tuple(self._dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
        return Value(info.name, IN_BYTES.get(tensor.elem_type) or element_type(tensor.elem_type), shape)

    def _input(self, info: ValueInfoProto, constants: Mapping[str, Array]) -> Value:
        """An input; what has no name of its dimensions gets one, such as image.2, but for a leading one, the batch."""
        value = self._value(info)
        if value.shape is None or info.name in constants:
            return value
        first = 1 if len(value.shape) > 1 else 0
        shape = [
            self._named(f"{info.name}.{axis}") if axis >= first and dim is None else dim
            for axis, dim in enumerate(value.shape)
        ]
        return replace(value, shape=tuple(shape))

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        if dim.HasField("dim_value"):
            return int(dim.dim_value) if dim.dim_value >= 0 else None  # as onnxruntime takes it
        return self._named(dim.dim_param) if dim.dim_param else None

    def _named(self, symbol: str) -> Dim:
        self.symbols.add(symbol)
        return self.dims.get(symbol, symbol)

    def _check_dims(self) -> None:
        for name, size in self.dims.items():
            if name not in self.symbols:
                have = ", ".join(repr(symbol) for symbol in sorted(self.symbols)) or "none"
                what = f"the model has no symbolic dimension of this name (it has: {have})"
                self._problem(f"dimension {name!r}", what, "name one of the model's symbolic dimensions")
            if size < 1:
                self._problem(f"dimension {name!r}", f"it is set to {size}", "set it to a positive number")

    def _check_files(self) -> None:
        """One problem for all tensors whose data in a file cannot be read for one reason."""
        for (_, hint), ((where, what), *others) in self.unreadable.items():
            more = f" ({len(others)} more tensor{'s have' if others[1:] else ' has'} this problem)" if others else ""
            self._problem(where, what + more, hint)

    def _nodes(self) -> tuple[Node, ...]:
        names = unique_names([(proto.name, proto.op_type) for proto in self.proto.node])
        return tuple(self._node(proto, name) for proto, name in zip(self.proto.node, names, strict=True))

    def _node(self, proto: NodeProto, name: str) -> Node:
        attributes: dict[str, Attribute] = {}
        where = f"node {name!r} ({proto.op_type})"
        for attribute in proto.attribute:
            if attribute.name in attributes:
                self._problem(where, f"attribute {attribute.name} is given twice", "give it once")
            attributes[attribute.name] = self._attribute(attribute, f"{where}, attribute {attribute.name}")
        domain = _domain(proto.domain)
        version = self.opsets.get(domain, NEWEST)  # what is not imported is refused
        return Node(name, proto.op_type, domain, tuple(proto.input), tuple(proto.output), attributes, version)

    def _attribute(self, attribute: AttributeProto, where: str) -> Attribute:
        match attribute.type:
            case AttributeProto.INT:
                return int(attribute.i)
            case AttributeProto.FLOAT:
                return float(attribute.f)
            case AttributeProto.STRING:
                return _text(attribute.s)
            case AttributeProto.INTS:
                return tuple(attribute.ints)
            case AttributeProto.FLOATS:
                return tuple(attribute.floats)
            case AttributeProto.STRINGS:
                return tuple(text.decode(errors="replace") for text in attribute.strings)
            case AttributeProto.TENSOR:
                return self._array(attribute.t, where)
        return None


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _type_name(number: int) -> str:
    """The name of an element type in the words of onnx: "int8", "float", "bfloat16"."""
    known: dict[int, str] = {value: name.lower() for name, value in TensorProto.DataType.items()}
    return known.get(number, f"element type {number}")


# The branches of If nodes become nodes of the graph around them: what they compute can be chosen from afterwards.


WRITTEN_OUT = ("CastLike", "GroupNormalization")
"""Functions of ONNX without a kernel in onnxruntime, which runs the operators that define them."""


def _without_functions(proto: ModelProto) -> ModelProto:
    """The model with the nodes of functions, its own and those of operators, in place of their calls."""
    try:
        whole = onnx.inliner.inline_local_functions(proto, convert_version=True) if proto.functions else proto
        called = {node.op_type for node in whole.graph.node if not _domain(node.domain)}
        wanted = [("", name) for name in WRITTEN_OUT if name in called]
        if wanted:
            typed = ModelProto()
            typed.CopyFrom(whole)
            tensors = typed.graph.initializer
            typed.graph.value_info.extend(
                onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in tensors
            )
            typed = onnx.shape_inference.infer_shapes(typed)
            whole = onnx.inliner.inline_selected_functions(typed, wanted, inline_schema_functions=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return proto  # reported as calls, or as operators that are not supported
    if whole is not proto:
        _name_steps(whole.graph, proto.graph)
    return whole


def _name_steps(whole: GraphProto, calls: GraphProto) -> None:
    """Names the nodes that were written out behind those that called them, which make the same tensors."""
    makers = {name: node for node in calls.node for name in node.output if name}
    call = None
    for number, node in reversed(list(enumerate(whole.node))):
        call = next((makers[name] for name in node.output if name in makers), call)
        if call is not None and (node.op_type != call.op_type or not any(name in makers for name in node.output)):
            node.name = f"{call.name or call.op_type}_{node.op_type.lower()}_{number}"


def _with_branches(graph: GraphProto) -> GraphProto:
    """The graph with the nodes and constants of all branches, under names of their own.

    An If reads its condition, then what its then_branch gives for each output, then what its else_branch gives. A
    malformed one stays as it is.
    """
    if not any(node.op_type == "If" for node in graph.node):
        return graph
    whole = GraphProto()
    whole.CopyFrom(graph)
    del whole.node[:]
    _Inlined(whole, {*_tensors(graph), *_names_within(graph)}).add(graph)
    return whole


class _Inlined:
    """Adds nodes to a graph, those of branches first."""

    def __init__(self, whole: GraphProto, taken: set[str]) -> None:
        self._whole, self._taken = whole, taken

    def add(self, graph: GraphProto) -> None:
        """The nodes of a graph whose names hold in the whole."""
        for node in graph.node:
            branches = _branches(node)
            self._taken.update(node.output)
            if branches is None:
                self._whole.node.append(node)
                continue
            given = [name for branch in branches for name in self._branch(node, branch)]
            self._whole.node.append(
                NodeProto(name=node.name, op_type="If", input=[*node.input, *given], output=node.output)
            )

    def _branch(self, node: NodeProto, branch: GraphProto) -> list[str]:
        """Adds a branch; the tensors that it gives."""
        own = {name: self._fresh(f"{node.output[0]}.{name}") for name in _tensors(branch)}
        renamed = GraphProto()
        renamed.CopyFrom(branch)
        _rename(renamed, own)
        self._whole.initializer.extend(renamed.initializer)
        self._whole.sparse_initializer.extend(renamed.sparse_initializer)
        self._whole.value_info.extend([*renamed.value_info, *_infos_of(renamed, own)])
        self.add(renamed)
        return [own.get(info.name, info.name) for info in branch.output]

    def _fresh(self, name: str) -> str:
        found = fresh(name, self._taken)
        self._taken.add(found)
        return found


def _branches(node: NodeProto) -> tuple[GraphProto, GraphProto] | None:
    """What an If computes where its condition holds, and where not; None for other nodes, and malformed ones."""
    graphs = {each.name: each.g for each in node.attribute if each.type == AttributeProto.GRAPH}
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or len(node.input) != 1 or not node.output:
        return None
    if graphs.keys() != {"then_branch", "else_branch"} or any(graph.input for graph in graphs.values()):
        return None
    if any(len(graph.output) != len(node.output) for graph in graphs.values()):
        return None
    return graphs["then_branch"], graphs["else_branch"]


def _tensors(graph: GraphProto) -> Iterator[str]:
    """The tensors that a graph defines, not those within its branches."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _names_within(graph: GraphProto) -> Iterator[str]:
    """All names of tensors that nodes read, in branches, too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _names_within(attribute.g)


def _rename(graph: GraphProto, names: dict[str, str]) -> None:
    """Gives tensors other names, but where a branch within defines one of the same name."""
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer), *graph.value_info):
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                hidden = set(_tensors(attribute.g))
                inner = {name: new for name, new in names.items() if name not in hidden}
                _rename(attribute.g, inner)
                for info in attribute.g.output:
                    info.name = inner.get(info.name, info.name)


def _infos_of(graph: GraphProto, names: dict[str, str]) -> Iterator[ValueInfoProto]:
    """What is declared of a branch's own outputs, under their new names."""
    for info in graph.output:
        if info.name in names:
            renamed = ValueInfoProto()
            renamed.CopyFrom(info)
            renamed.name = names[info.name]
            yield renamed
