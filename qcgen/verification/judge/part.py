"""The part of the user's model file that was compiled, as a model of its own: nothing in it is rewritten."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from qcgen.ir.graph import Origin, Value
from qcgen.ir.program import Tensor
from qcgen.ir.types import DType
from qcgen.load.nodes import unique_names

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
