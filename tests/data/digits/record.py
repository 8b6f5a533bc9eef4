"""Ask onnxruntime for the outputs that the digits recordings keep, refusing a machine on which they are not exact."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from cnn import Array
from numpy.typing import NDArray
from onnx import helper, numpy_helper


def session(
    model: onnx.ModelProto, *, optimize: bool = True, int8_allowed: bool = False
) -> onnxruntime.InferenceSession:
    """Return a session on one thread of the CPU: default options, every graph optimization off, or int8 kept int8."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    if int8_allowed:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def probabilities(model: onnx.ModelProto, images: Array, *, optimize: bool = True, int8_allowed: bool = False) -> Array:
    """Return onnxruntime's outputs for each image, (N, 10)."""
    run = session(model, optimize=optimize, int8_allowed=int8_allowed).run
    return np.concatenate([run(None, {"image": image[None]})[0] for image in images])


def record_cases(model: onnx.ModelProto, images: Array, *, both_sessions: bool) -> dict[str, Array]:
    """Return inputs and outputs under the keys in<k>.image, out<k>.probabilities and out<k>.probabilities.noopt."""
    recorded = {}
    default, plain = probabilities(model, images), probabilities(model, images, optimize=False)
    for k, image in enumerate(images):
        recorded[f"in{k}.image"] = image[None]
        recorded[f"out{k}.probabilities"] = default[k : k + 1]
        if both_sessions:
            recorded[f"out{k}.probabilities.noopt"] = plain[k : k + 1]
    if not both_sessions and not np.array_equal(default, plain):
        raise AssertionError("a QOperator model has one answer, but the two sessions differ")
    return recorded


def record_nodes(model: onnx.ModelProto, images: Array) -> dict[str, NDArray[np.generic]]:
    """Return the data input and the output of every QLinearConv, keys node<k>.<node name>.x and .y."""
    convolutions = [node for node in model.graph.node if node.op_type == "QLinearConv"]
    element = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    types: dict[str, int] = {}
    for node in convolutions:
        types |= {node.input[0]: element[node.input[2]], node.output[0]: element[node.input[7]]}
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    opened.graph.output.extend(helper.make_tensor_value_info(name, kind, None) for name, kind in types.items())
    run = session(opened).run
    recorded = {}
    for k, image in enumerate(images):
        values = dict(zip(types, run(list(types), {"image": image[None]}), strict=True))
        for node in convolutions:
            recorded[f"node{k}.{node.name}.x"] = values[node.input[0]]
            recorded[f"node{k}.{node.name}.y"] = values[node.output[0]]
    return recorded


def check_nodes(model: onnx.ModelProto, recorded: dict[str, NDArray[np.generic]]) -> None:
    """Hold the last convolution against a numpy evaluation: an x86 without VNNI may saturate its products.

    Raises AssertionError if this machine's onnxruntime does not compute what the operator means.
    """
    constant = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    node = [node for node in model.graph.node if node.op_type == "QLinearConv"][-1]  # conv5: 3x3, stride 1, pads 1
    x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = (constant[name] for name in node.input[1:])
    column = (-1, 1, 1)
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    scale = (x_scale * w_scale / y_scale).astype(np.float32).reshape(column if w_scale.ndim else ())
    code = np.iinfo(y_zero.dtype)
    inputs = [key for key in recorded if key.endswith(f".{node.name}.x")]
    for k in range(len(inputs)):
        x = np.pad(recorded[f"node{k}.{node.name}.x"][0].astype(np.int64) - x_zero, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
        accumulator = np.einsum("chwij,mcij->mhw", windows, weights) + bias.reshape(column)
        clamped = np.clip(accumulator.astype(np.float32) * scale, code.min - int(y_zero), code.max - int(y_zero))
        if not np.array_equal(np.rint(clamped) + y_zero, recorded[f"node{k}.{node.name}.y"][0]):
            raise AssertionError(f"{node.name}: onnxruntime on this machine is not exact; record on one with VNNI")


def check_fused(model: onnx.ModelProto, images: Array, default: Array) -> None:
    """Hold the default session of a QDQ model against one that fuses every node to integers.

    On x86 onnxruntime turns int8 activations into uint8 first and then leaves in float what stands around a tensor with
    two consumers. Raises AssertionError if that shows, since `default` would not be the integer answer.
    """
    if not np.array_equal(default, probabilities(model, images, int8_allowed=True)):
        raise AssertionError("the default session and the fully fused one differ: record both")
