"""Builders of small ONNX models, for every test suite.

A tensor of a model is described by a ``Spec``: a numpy array becomes an initializer; a string such as "int8" with a
shape, ``("int8", (1, 3, "H", 8))``, becomes an input of the model; None is an absent optional input. The builders
write what they are told, right or wrong: tests of refusals need wrong models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph
from qcgen.load import load

Dims = Sequence[int | str | None]
Spec = np.ndarray | tuple[str, Dims | None] | None

ELEMENTS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}

NHWC = "com.ms.internal.nhwc"
MICROSOFT = "com.microsoft"


def tensor_info(name: str, dtype: str | None, shape: Dims | None) -> ValueInfoProto:
    """A declared tensor; without a dtype nothing but its name is declared."""
    if dtype is None:
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, ELEMENTS[dtype], shape)


def graph_model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[str, Dims | None]],
    outputs: Mapping[str, tuple[str, Dims | None] | None],
    constants: Mapping[str, np.ndarray | TensorProto] | None = None,
    *,
    opset: int = 13,
    opsets: Mapping[str, int] | None = None,
    ir_version: int = 8,
    name: str = "graph",
    values: Mapping[str, tuple[str, Dims | None]] | None = None,
) -> ModelProto:
    """A model of these nodes. ``opsets`` are imported besides ai.onnx; ``values`` are declared inner tensors."""
    held = constants or {}
    graph = helper.make_graph(
        list(nodes),
        name,
        [tensor_info(key, *spec) for key, spec in inputs.items()],
        [tensor_info(key, *(spec or (None, None))) for key, spec in outputs.items()],
        [each if isinstance(each, TensorProto) else numpy_helper.from_array(each, key) for key, each in held.items()],
        value_info=[tensor_info(key, *spec) for key, spec in (values or {}).items()],
    )
    imports = {"": opset, **(opsets or {})}
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in imports.items()],
        ir_version=ir_version,
    )


def node_model(
    op_type: str,
    operands: Mapping[str, Spec],
    outputs: Mapping[str, tuple[str, Dims | None] | None] | None = None,
    *,
    domain: str = "",
    node_name: str = "node",
    opset: int = 13,
    opsets: Mapping[str, int] | None = None,
    ir_version: int = 8,
    **attributes: Any,
) -> ModelProto:
    """A model of one node whose inputs are ``operands`` in this order; its output is "y", declared without a type.

    ``opsets`` imports the node's domain, version 1, unless it is given.
    """
    node = helper.make_node(
        op_type,
        ["" if spec is None else name for name, spec in operands.items()],
        list(outputs or ["y"]),
        name=node_name,
        domain=domain,
        **attributes,
    )
    return graph_model(
        [node],
        {name: spec for name, spec in operands.items() if isinstance(spec, tuple)},
        outputs or {"y": None},
        {name: spec for name, spec in operands.items() if isinstance(spec, np.ndarray)},
        opset=opset,
        opsets=opsets if opsets is not None else ({domain: 1} if domain else {}),
        ir_version=ir_version,
    )


def graph_if_spelt_well(model: ModelProto) -> Graph | None:
    """The graph of a model, None where a node has what only other opsets have, which is refused first of all."""
    try:
        return load(model)
    except ModelRejected as rejection:
        found = rejection.problems
    assert all("which the model imports" in problem.what for problem in found)
    return None


def problems(call: Callable[..., object], *given: Any, **options: Any) -> Sequence[Problem]:
    """What is wrong with a model, by a call that refuses it."""
    try:
        call(*given, **options)
    except ModelRejected as rejection:
        return rejection.problems
    raise AssertionError("the model is not refused")


def qlinear_conv(
    x_shape: Dims,
    w: np.ndarray,
    *,
    x_type: str = "uint8",
    y_type: str = "uint8",
    x_scale: Any = 0.02,
    x_zero_point: Any = 0,
    w_scale: Any = 0.01,
    w_zero_point: Any = 0,
    y_scale: Any = 0.05,
    y_zero_point: Any = 0,
    bias: np.ndarray | Sequence[int] | None = None,
    replace: Mapping[str, Spec] | None = None,
    node_name: str = "conv1",
    domain: str = "",
    **options: Any,
) -> ModelProto:
    """One QLinearConv with weights ``w`` (M, C/group, k...), int8 or uint8.

    Scales are numbers or lists, made float32; zero points take the type of their tensor. ``bias`` is a list made int32,
    or an array. ``replace`` puts any Spec in the place of an operand by its ONNX name (x, x_scale, ..., B), for wrong
    types and inputs that are not constant. ``options``: attributes of the node, and ``opset``, ``opsets``, ``outputs``.
    """
    operands: dict[str, Spec] = {
        "x": (x_type, x_shape),
        "x_scale": np.asarray(x_scale, np.float32),
        "x_zero_point": np.asarray(x_zero_point, x_type),
        "w": w,
        "w_scale": np.asarray(w_scale, np.float32),
        "w_zero_point": np.asarray(w_zero_point, w.dtype),
        "y_scale": np.asarray(y_scale, np.float32),
        "y_zero_point": np.asarray(y_zero_point, y_type),
    }
    if bias is not None:
        operands["B"] = bias if isinstance(bias, np.ndarray) else np.asarray(bias, np.int32)
    return node_model("QLinearConv", {**operands, **(replace or {})}, domain=domain, node_name=node_name, **options)


def conv_integer(
    x_shape: Dims,
    w: np.ndarray,
    *,
    x_type: str = "uint8",
    x_zero_point: Any = None,
    w_zero_point: Any = None,
    replace: Mapping[str, Spec] | None = None,
    node_name: str = "conv1",
    **options: Any,
) -> ModelProto:
    """One ConvInteger; zero points are absent unless they are given. Options as for qlinear_conv."""
    operands: dict[str, Spec] = {
        "x": (x_type, x_shape),
        "w": w,
        "x_zero_point": None if x_zero_point is None else np.asarray(x_zero_point, x_type),
        "w_zero_point": None if w_zero_point is None else np.asarray(w_zero_point, w.dtype),
    }
    return node_model("ConvInteger", {**operands, **(replace or {})}, node_name=node_name, **options)


def float_conv(
    x_shape: Dims,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    op_type: str = "Conv",
    domain: str = "",
    replace: Mapping[str, Spec] | None = None,
    node_name: str = "conv1",
    **options: Any,
) -> ModelProto:
    """One float convolution: Conv of ai.onnx or com.ms.internal.nhwc, FusedConv or NhwcFusedConv of com.microsoft.

    ``w`` (M, C/group, k...) float32 in every spelling. Options as for qlinear_conv.
    """
    operands: dict[str, Spec] = {"X": ("float", x_shape), "W": w}
    if bias is not None:
        operands["B"] = bias
    operands |= replace or {}
    return node_model(op_type, operands, domain=domain, node_name=node_name, **options)


def random_weights(shape: Sequence[int], dtype: str = "int8", seed: int = 0) -> np.ndarray:
    """Weights over the whole range of their type, both ends among them; float weights in [-1, 1)."""
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return rng.uniform(-1, 1, shape).astype(np.float32)
    bounds = np.iinfo(dtype)
    weights = rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)
    weights.reshape(-1)[0], weights.reshape(-1)[-1] = bounds.min, bounds.max
    return weights
