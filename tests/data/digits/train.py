"""Train, quantize and record the digits network: writes every .onnx and .npz file beside itself.

Run `python tests/data/digits/train.py` with the extra `train` installed; README.md tells what each file is.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from cnn import Array, Conv, DigitsNetwork, train
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from record import check_fused, check_nodes, probabilities, record_cases, record_nodes
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
SEED = 0
TEST_IMAGES = 360
RECORDED_CASES = 3
CALIBRATION_IMAGES = 200
PIXEL_SCALE = np.float32(1 / 16)
NO_RELU = ("conv5",)


@dataclass(frozen=True)
class Variant:
    """One way to quantize; `element` is the type of activations and weights."""

    name: str
    form: QuantFormat
    element: QuantType
    per_channel: bool


VARIANTS = (
    Variant("digits_qop_s8", QuantFormat.QOperator, QuantType.QInt8, per_channel=True),
    Variant("digits_qop_u8", QuantFormat.QOperator, QuantType.QUInt8, per_channel=False),
    Variant("digits_qdq_s8", QuantFormat.QDQ, QuantType.QInt8, per_channel=True),
    Variant("digits_qdq_u8", QuantFormat.QDQ, QuantType.QUInt8, per_channel=False),
)


@dataclass(frozen=True)
class Digits:
    """Images (N, 1, 8, 8) uint8 with pixels 0 to 16, labels (N,) 0 to 9, split once and for all."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


def load() -> Digits:
    """Return scikit-learn's digits; a fifth of each class is held out."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)[:, None]
    split = train_test_split(images, digits.target, test_size=TEST_IMAGES, stratify=digits.target, random_state=SEED)
    train_images, test_images, train_labels, test_labels = split
    return Digits(train_images, train_labels, test_images, test_labels)


def as_input(images: NDArray[np.uint8]) -> Array:
    """Return pixels 0 to 16 as the float32 in [0, 1] that the models take."""
    return images.astype(np.float32) * PIXEL_SCALE


def float_model(network: DigitsNetwork) -> onnx.ModelProto:
    """Return the trained network as ONNX, opset 13, one image at a time."""
    nodes, weights = [], []
    last = "image"
    for name in ("conv1", "depthwise2", "pointwise3", "conv4", "conv5"):
        conv = getattr(network, name)
        nodes.append(conv_node(name, last, conv))
        weights += parameters(name, conv.parameters)
        last = f"{name}_out"
        if name not in NO_RELU:
            nodes.append(helper.make_node("Relu", [last], [f"{name}_relu"], name=f"{name}_relu"))
            last = f"{name}_relu"
    nodes += [
        helper.make_node("Add", ["conv4_relu", "conv5_out"], ["residual_out"], name="residual"),
        helper.make_node("Relu", ["residual_out"], ["residual_relu"], name="residual_relu"),
        helper.make_node("MaxPool", ["residual_relu"], ["max_out"], "max", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["max_out"], ["mean_out"], name="mean"),
        helper.make_node("Flatten", ["mean_out"], ["flat_out"], name="flat", axis=1),
        helper.make_node("Gemm", ["flat_out", "dense6_w", "dense6_b"], ["logits"], name="dense6", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1),
    ]
    weights += parameters("dense6", network.dense6.parameters)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "digits", [image], [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def conv_node(name: str, x: str, conv: Conv) -> onnx.NodeProto:
    """Return the Conv node of one layer."""
    return helper.make_node(
        "Conv",
        [x, f"{name}_w", f"{name}_b"],
        [f"{name}_out"],
        name=name,
        group=conv.group,
        kernel_shape=list(conv.parameters[0].shape[2:]),
        pads=list(conv.pads),
        strides=[conv.stride, conv.stride],
    )


def parameters(name: str, arrays: list[Array]) -> list[TensorProto]:
    """Return a layer's weights and bias as initializers."""
    return [numpy_helper.from_array(a, f"{name}_{letter}") for letter, a in zip("wb", arrays, strict=True)]


class Calibration:
    """Feeds images one at a time, as the quantizer asks for them."""

    def __init__(self, images: Array) -> None:
        self.feeds = iter([{"image": image[None]} for image in images])

    def get_next(self) -> dict[str, Array] | None:
        """Return the next input, or None behind the last."""
        return next(self.feeds, None)


def quantize(model: onnx.ModelProto, variant: Variant, calibration: Array) -> onnx.ModelProto:
    """Return the model as onnxruntime.quantization writes it, without traces of how it was written."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)  # by path: the quantizer changes a model that is handed over in memory
        quantize_static(
            source,
            target,
            Calibration(calibration),
            quant_format=variant.form,
            activation_type=variant.element,
            weight_type=variant.element,
            per_channel=variant.per_channel,
        )
        quantized = onnx.load(target)
    return stripped(quantized)


def stripped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without producer, documentation and metadata, and with its unordered parts in order."""
    clean = onnx.ModelProto()
    clean.CopyFrom(model)
    for field in ("producer_name", "producer_version", "doc_string", "domain", "model_version", "metadata_props"):
        clean.ClearField(field)
    graph = clean.graph
    for item in (graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    graph.initializer.sort(key=lambda tensor: tensor.name)
    graph.value_info.sort(key=lambda value: value.name)
    clean.opset_import.sort(key=lambda opset: opset.domain)
    return clean


def save(file: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays beside this script."""
    np.savez_compressed(HERE / file, **arrays)


def write_variant(variant: Variant, model: onnx.ModelProto, digits: Digits) -> Array:
    """Write one quantized model and its recordings; return its outputs for the test images, (360, 10)."""
    calibration = as_input(digits.train_images[:CALIBRATION_IMAGES])
    test_images = as_input(digits.test_images)
    cases = test_images[:RECORDED_CASES]
    is_qdq = variant.form is QuantFormat.QDQ
    quantized = quantize(model, variant, calibration)
    outputs = probabilities(quantized, test_images)
    onnx.save(quantized, HERE / f"{variant.name}.onnx")
    save(f"{variant.name}.npz", record_cases(quantized, cases, both_sessions=is_qdq))
    if is_qdq:
        check_fused(quantized, test_images, outputs)
    else:
        nodes = record_nodes(quantized, cases)
        check_nodes(quantized, nodes)
        save(f"{variant.name}_nodes.npz", nodes)
    return outputs


def main() -> None:
    """Write all files; print the accuracy of each model."""
    logging.disable(logging.WARNING)  # the quantizer advises pre-processing, which has nothing to do here
    digits = load()
    rng = np.random.default_rng(SEED)
    network = DigitsNetwork(rng)
    with threadpool_limits(1):  # the order of float additions depends on the number of threads
        train(network, as_input(digits.train_images), digits.train_labels, rng)
    model = stripped(float_model(network))
    onnx.save(model, HERE / "digits_float.onnx")
    outputs = {"digits_float": probabilities(model, as_input(digits.test_images))}
    outputs |= {variant.name: write_variant(variant, model, digits) for variant in VARIANTS}
    test_set: dict[str, NDArray[np.generic]] = {
        "test_images": digits.test_images,
        "pixel_scale": np.asarray(PIXEL_SCALE),
        "labels": digits.test_labels.astype(np.uint8),
    }
    for name, values in outputs.items():
        classes = values.argmax(axis=1)
        accuracy = np.mean(classes == digits.test_labels)
        print(f"{name:14} {accuracy:.4f}")
        test_set[f"predicted.{name}"] = classes.astype(np.uint8)
        test_set[f"accuracy.{name}"] = np.asarray(accuracy)
        if name != "digits_float":  # floats do not compress, and only integers are compared bit for bit
            test_set[f"probabilities.{name}"] = values
    save("digits_test.npz", test_set)


if __name__ == "__main__":
    main()
