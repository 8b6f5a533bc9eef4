"""Whoever runs a model file: onnxruntime, onnx's evaluator, TensorFlow Lite Micro; and the part of it that is run."""

from __future__ import annotations

import os
import platform
import struct
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from qcgen.arithmetic import SESSION
from qcgen.errors import printable
from qcgen.ir.graph import Origin, Value
from qcgen.ir.program import Program, Tensor
from qcgen.ir.types import Array, DType
from qcgen.load.nodes import unique_names
from qcgen.tflite import FlatTable, in_file, in_program, kept_by, read_tflite
from qcgen.tflite.read import Own
from qcgen.verification.judge.rules import codes, numbers

# The part of the user's model file that was compiled, as a model of its own: nothing in it is rewritten.

OWN = "\njudged"
"""Ends the names of what a judge itself computes for a tensor that it is given, too; no tensor is called like this."""


WITH_WEIGHTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


class NotSeparable(Exception):
    """A part of a model file cannot be run by itself; the text says why."""


def read(origin: Origin) -> ModelProto:
    """The model of the file with its external data, and the constants that the user gave for inputs."""
    model = _read(origin.model)
    constants = [numpy_helper.from_array(array, name) for name, array in origin.constants.items()]
    kept = [each for each in model.graph.input if each.name not in origin.constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(constants)
    return model


def _read(model: object) -> ModelProto:
    if isinstance(model, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model)
    assert isinstance(model, str | os.PathLike), "models are paths, bytes or protobufs"
    return onnx.load(os.fspath(model))


def computed(model: ModelProto) -> frozenset[str]:
    """The tensors that nodes of the model compute."""
    return frozenset(name for node in model.graph.node for name in node.output if name)


def cut_out(
    model: ModelProto, inputs: Sequence[Value], outputs: Iterable[str], given: Mapping[str, Tensor] | None = None
) -> ModelProto:
    """The nodes from ``inputs`` to ``outputs``, which keep their names, as a model.

    Tensors in ``given`` become inputs, too: the nodes behind them read what they are fed. What the model itself
    computes for them are outputs that end in OWN. Raises NotSeparable.
    """
    given = given or {}
    fed = {value.name for value in inputs}
    producers = {name: node for node in model.graph.node for name in node.output if name}
    nodes = _needed(model, producers, fed, [*outputs, *given])
    ports = [_info(value.name, value.dtype, value.fixed_shape) for value in inputs]
    ports += [_info(name, tensor.dtype, tensor.shape) for name, tensor in given.items()]
    ends = [name + OWN if name in given else name for name in dict.fromkeys([*outputs, *given])]
    copies = [_renamed(node, given, number) for number, node in enumerate(nodes)]
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.value_info[:]
    made.graph.node.extend(copies)
    made.graph.input.extend(ports)
    made.graph.output.extend(ValueInfoProto(name=name) for name in ends)
    read = {name for node in copies for name in node.input} | set(ends)
    kept = [each for each in model.graph.initializer if each.name in read and each.name not in fed]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return made


def _needed(
    model: ModelProto, producers: Mapping[str, NodeProto], fed: set[str], outputs: Iterable[str]
) -> list[NodeProto]:
    """The nodes that outputs depend on, in the model's order."""
    constants = {each.name for each in model.graph.initializer}
    constants |= {each.values.name for each in model.graph.sparse_initializer}
    needed, open_ = set(), list(outputs)
    while open_:
        name = open_.pop()
        if not name or name in needed or name in fed or name in constants:
            continue
        if name not in producers:
            raise NotSeparable(f"tensor {name!r} is not computed by what was compiled")
        needed.add(name)
        open_ += producers[name].input
    return [node for node in model.graph.node if not needed.isdisjoint(node.output)]


def _renamed(node: NodeProto, given: Container[str], number: int) -> NodeProto:
    """The ``number``th node; all outputs of a Split have names, because onnxruntime crashes over one that has not."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.output[:]
    for index, name in enumerate(node.output):
        is_unnamed = not name and node.op_type == "Split"
        copy.output.append(f"{number} {index}{OWN}" if is_unnamed else name + OWN if name in given else name)
    return copy


def _info(name: str, dtype: DType | None, shape: Sequence[int] | None) -> ValueInfoProto:
    if dtype is None or shape is None:
        raise NotSeparable(f"the type of tensor {name!r} is unknown")
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype.numpy), shape)


def words(model: ModelProto) -> frozenset[str]:
    """The types of a model's nodes, and of its constants: "Conv", "int4"."""
    types = (TensorProto.DataType.Name(each.data_type).lower() for each in model.graph.initializer)
    return frozenset((*types, *(node.op_type for node in model.graph.node)))


def float_weights(model: ModelProto) -> frozenset[str]:
    """The nodes that multiply by weights which nothing dequantizes: quantized, they are others by half a unit."""
    producers = {name: node.op_type for node in model.graph.node for name in node.output}
    names = unique_names([(node.name, node.op_type) for node in model.graph.node])
    return frozenset(
        name
        for name, node in zip(names, model.graph.node, strict=True)
        if node.op_type in WITH_WEIGHTS and producers.get(node.input[1]) != "DequantizeLinear"
    )


def misread_products(model: ModelProto) -> Iterator[str]:
    """The products of float matrices that onnxruntime 1.32 misreads: the weights have a scale for each term of a sum.

    Where a sum has as many terms as there are columns, it takes these scales for those of the columns.
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    constants = {each.name: tuple(each.dims) for each in model.graph.initializer}
    quantized = {node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    names = unique_names([(node.name, node.op_type) for node in model.graph.node])
    for name, node in zip(names, model.graph.node, strict=True):
        if node.op_type not in ("Gemm", "MatMul") or (node.op_type == "MatMul" and node.output[0] in quantized):
            continue
        x, w = (producers.get(tensor) for tensor in node.input[:2])
        if x is None or w is None or not x.op_type == w.op_type == "DequantizeLinear":
            continue
        shape, scales = constants.get(w.input[0], ()), constants.get(w.input[1], ())
        terms = 1 if node.op_type == "Gemm" and _attribute(node, "transB", 0) else 0
        if len(shape) == 2 and shape[0] == shape[1] and scales == shape[:1] and _attribute(w, "axis", 1) % 2 == terms:
            yield name


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


# onnxruntime, whose numbers depend on the processor, and onnx's reference evaluator.

OPTIONS: Mapping[str, str] = {**SESSION, "session.qdq_matmulnbits_accuracy_level": "0"}
"""Of the session: what is meant; and numbers in front of products that stay float are not quantized."""

MOST_CHARACTERS = 200
"""How much is told of why an engine cannot run a model."""


class CannotRun(Exception):
    """An engine cannot run a model, or not with these inputs; the text says why, in its words."""


class Engine(Protocol):
    """Runs a model."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, without the ending OWN, for inputs by name; CannotRun."""


@contextmanager
def refusals() -> Iterator[None]:
    """Whatever an engine raises, in one line."""
    try:
        yield
    except Exception as error:
        text = printable(" ".join(str(error).split())) or type(error).__name__
        raise CannotRun(text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ...") from error


class OnnxRuntime:
    """onnxruntime with the options of the session that is meant, on the CPU, in one thread."""

    def __init__(self, model: ModelProto) -> None:
        runtime = _onnxruntime()
        options = runtime.SessionOptions()
        for key, value in OPTIONS.items():
            options.add_session_config_entry(key, value)
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what fails is an exception, too
        providers = ["CPUExecutionProvider"]
        with refusals():
            self._session = runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._outputs = [each.name for each in model.graph.output]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the session gives."""
        given = {name: array for name, array in feeds.items() if name in self._inputs}
        with refusals():
            return _named(self._outputs, self._session.run(self._outputs, given))


class Reference:
    """onnx.reference: the specification's operators one after the other, as they are written in the file."""

    def __init__(self, model: ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        from qcgen.verification.judge.definitions import evaluators

        opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
        with refusals():
            self._evaluator = ReferenceEvaluator(model, new_ops=evaluators(opset))
        self._outputs = [each.name for each in model.graph.output]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the evaluator gives."""
        with refusals(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _named(self._outputs, self._evaluator.run(None, dict(feeds)))


def _named(names: list[str], arrays: Any) -> dict[str, Array]:
    return {name.removesuffix(OWN): array for name, array in zip(names, arrays, strict=True)}


def _onnxruntime() -> Any:
    """The module; ImportError where it is not installed."""
    import onnxruntime as module

    return module


def installed() -> str | None:
    """The version of onnxruntime; None where it is not installed."""
    try:
        return str(_onnxruntime().__version__)
    except ImportError:
        return None


# The instruction set of this processor, as far as onnxruntime's numbers depend on it.

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux lists what a processor can do."""


@dataclass(frozen=True)
class Processor:
    """``machine`` as platform.machine() calls it, ``flags`` as Linux does; no flags where they are unknown."""

    machine: str
    flags: frozenset[str]

    @property
    def is_x86(self) -> bool:
        """Whether this is x86-64, with whose onnxruntime outputs are meant to be equal."""
        return self.machine.lower() in ("x86_64", "amd64")

    @property
    def has_fma(self) -> bool:
        """Whether it multiplies and adds with one rounding."""
        return "fma" in self.flags

    @property
    def has_dot_products(self) -> bool:
        """Whether it adds products of 8-bit numbers to 32 bits: VNNI on x86-64, SDOT on AArch64."""
        return not self.flags.isdisjoint(("avx512_vnni", "avx_vnni", "asimddp"))

    def __str__(self) -> str:
        if not self.flags:
            return f"{self.machine}, instruction set unknown"
        if not self.is_x86:
            return f"{self.machine} {'with' if self.has_dot_products else 'without'} SDOT"
        vector = next((name for flag, name in _VECTORS if flag in self.flags), "no AVX")
        fma = "" if self.has_fma else " without FMA"
        return f"{vector}{fma} {'with' if self.has_dot_products else 'without'} VNNI"


_VECTORS = (("avx512f", "AVX512"), ("avx2", "AVX2"), ("avx", "AVX"))


def this_processor() -> Processor:
    """The processor that this runs on."""
    try:
        text = CPUINFO.read_text("utf-8")
    except OSError:
        return Processor(platform.machine(), frozenset())
    lines = (line.partition(":") for line in text.splitlines())
    words = next((value for key, _, value in lines if key.strip() in ("flags", "Features")), "")
    return Processor(platform.machine(), frozenset(words.split()))


# TensorFlow Lite Micro's interpreter from PyPI, with its reference kernels, as the judge of .tflite files.

MICRO_PACKAGE = "tflite-micro"

MICRO_CRITERION = "bit for bit, every tensor that a node computes"

LEAST_ARENA = 2**22
"""Bytes that an interpreter gets for what it needs beside tensors."""


def installed_micro() -> str | None:
    """The version of the interpreter; None where it is not installed."""
    try:
        return version(MICRO_PACKAGE)
    except PackageNotFoundError:
        return None


class MicroBench:
    """The part of a .tflite file that was compiled, run by a fresh interpreter for each case.

    What variables hold is an input of that part, and what is assigned to them an output.
    Its outputs are all tensors that its nodes compute, so that the first one that differs names the node.
    """

    def __init__(self, origin: Origin, program: Program) -> None:
        assert isinstance(origin.model, bytes), "of .tflite files the bytes are kept"
        graph = read_tflite(origin.model, "model")
        wanted, kept = set(origin.outputs), []
        given = [value.name for value in origin.inputs]
        computed: list[str] = []
        self._copies: dict[str, str] = {}  # what is assigned and is something else, too: the file has one tensor
        number = {name: place for place, name in enumerate(graph.values)}
        self._own: dict[str, tuple[Own, tuple[int, ...]]] = {}  # operators' own variables, before and after
        for node in reversed(graph.nodes):
            if not wanted.isdisjoint(node.outputs):
                if node.op_type == "READ_VARIABLE":
                    raise CannotRun(f"{node.name} reads what was assigned in the same call")
                if node.op_type == "ASSIGN_VARIABLE":
                    self._copies[node.outputs[0]] = node.inputs[0]
                else:
                    kept.append(int(node.name.rpartition("_")[2]))  # the operator's number in the file
                    computed = [*node.outputs, *computed]
                    for (name, kind), after in zip(kept_by(node).items(), node.outputs[1:], strict=False):
                        number[after] = number[name]
                        self._own |= dict.fromkeys((name, after), (kind, graph.value(name).fixed_shape or ()))
                wanted |= set(node.inputs) - {*given, *graph.constants, ""}
        self._computed = computed
        self._unchanged = graph.unchanged
        given += graph.unchanged
        self._origin, self._program, self._constants = origin, program, graph.constants
        sizes = [np.prod(graph.value(name).fixed_shape or (1,)) * 8 for name in (*given, *self._computed)]
        self._arena = LEAST_ARENA + 2 * int(sum(sizes)) + 8 * len(origin.model)
        ends = ([number[name] for name in names] for names in (given, self._computed))
        self._model = _separated(origin.model, sorted(kept), *ends)

    def outputs(self, feeds: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """All tensors that the reference has, too, by the program's names; CannotRun."""
        pairs = list(zip(self._origin.inputs, self._program.inputs, strict=True))
        with refusals():
            interpreter = _interpreter(self._model, self._arena)
            for place, (value, own) in enumerate(pairs):
                x = feeds[own.name] if own.name == value.name else numbers(own, feeds[own.name], value.dtype)
                x = x.reshape(value.fixed_shape or ())
                x = in_file(x, self._own[value.name][0]) if value.name in self._own else x
                interpreter.set_input(np.ascontiguousarray(x), place)
            for place, name in enumerate(self._unchanged, len(pairs)):
                interpreter.set_input(self._constants[name], place)
            interpreter.invoke()
            found = {name: interpreter.get_output(place) for place, name in enumerate(self._computed)}
        kept = ((name, *how) for name, how in self._own.items() if name in found)
        found |= {name: in_program(found[name], kind, shape) for name, kind, shape in kept}
        known = {**self._constants, **feeds, **found}
        found |= {name: known[source] for name, source in self._copies.items()}
        own_outputs = zip(self._origin.outputs, self._program.outputs, strict=True)
        ends = {own.name: found[name] if own.name == name else codes(own, found[name]) for name, own in own_outputs}
        named = {name: array for name, array in found.items() if name in values} | ends
        return {name: array.reshape(values[name].shape) for name, array in named.items()}

    def compared(
        self, got: Mapping[str, Array], values: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """The outputs of the C and the reference's inner tensors; and how far they may be off: not at all."""
        ends = {tensor.name for tensor in (*self._program.outputs, *self._program.inputs)}
        every = {name: array for name, array in values.items() if name not in ends} | dict(got)
        return every, dict.fromkeys(every, np.zeros(()))


def _separated(data: bytes, nodes: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """The file with some operators of its network alone, ascending, between other tensors; all by their numbers."""
    changed = bytearray(data)
    [subgraph, *_] = FlatTable.root(data).tables(2)
    operators = subgraph.place(3)
    for slot, node in enumerate(nodes):
        [offset] = struct.unpack_from("<I", data, operators + 4 + 4 * node)
        struct.pack_into("<I", changed, operators + 4 + 4 * slot, offset + 4 * (node - slot))
    struct.pack_into("<I", changed, operators, len(nodes))
    for part, tensors in ((1, inputs), (2, outputs)):
        changed += bytes(-len(changed) % 4)
        field = subgraph.field(part)
        assert field is not None, "a network has inputs and outputs"
        struct.pack_into("<I", changed, field, len(changed) - field)
        changed += struct.pack(f"<I{len(tensors)}i", len(tensors), *tensors)
    return bytes(changed)


def _interpreter(model: bytes, arena: int) -> Any:
    from tflite_micro.python.tflite_micro import runtime

    return runtime.Interpreter.from_bytes(model, arena_size=arena)
