"""From a network in PyTorch or Keras to a quantized ONNX file for qcgen; docs/quantizing.md tells why it is done so.

`python quantize.py` writes float.onnx, then quantizes it in several ways and prints how many test images each gets
right; network.onnx is the recommended one, network.npz has inputs with the outputs of onnxruntime. `--framework
keras` takes Keras instead of PyTorch. Needed: torch, onnxscript, onnxruntime, scikit-learn; keras for Keras.
"""

import argparse
import logging
import os
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

EPOCHS, BATCH, RATE = 40, 64, 3e-3
CALIBRATION_IMAGES, RECORDED = 200, 10
RECOMMENDED = "per channel, QDQ, MinMax"
LOGITS = "logits"


def data():
    """Handwritten digits as (N, 1, 8, 8) from 0 to 1, and what they show: for training, then for the test."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    x, x_test, y, y_test = train_test_split(images, digits.target, test_size=360, random_state=0)
    return x, y, x_test, y_test


# ---- the network: trained in float32, then exported with a batch of 1


def from_torch(x, y, path):
    """Convolutions with BatchNormalization and Relu, of which the export leaves the convolutions and Relu."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    def block(inputs, outputs, stride=1, groups=1, size=3):
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())

    layers = [block(1, 16), block(16, 16, groups=16), block(16, 32, size=1), block(32, 32, stride=2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    model.eval()  # BatchNormalization by the statistics of the training: it becomes a part of the convolution
    example = torch.zeros(1, *x.shape[1:])
    torch.onnx.export(
        model, (example,), path, input_names=["image"], output_names=[LOGITS], dynamo=True, external_data=False
    )


def from_keras(x, y, path):
    """The same in Keras, whose images have their channels last."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)

    def block(layer):
        return [layer, keras.layers.BatchNormalization(), keras.layers.ReLU(6.0)]

    options = {"padding": "same", "use_bias": False}
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), batch_size=1, name="image"),
            *block(keras.layers.Conv2D(16, 3, **options)),
            *block(keras.layers.DepthwiseConv2D(3, **options)),
            *block(keras.layers.Conv2D(32, 1, **options)),
            *block(keras.layers.Conv2D(32, 3, strides=2, **options)),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE), loss)
    model.fit(np.moveaxis(x, 1, -1), y, BATCH, EPOCHS, verbose=0)
    without_normalization(model).export(path, format="onnx", verbose=False)


def without_normalization(model):
    """The same with every BatchNormalization folded into the convolution before it: Keras would export four nodes."""
    import keras

    layers = [keras.Input((8, 8, 1), batch_size=1, name="image")]
    weights = []
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            gamma, beta, mean, variance = layer.get_weights()
            scale = gamma / np.sqrt(variance + layer.epsilon)
            [kernel] = weights[-1]
            is_depthwise = isinstance(layers[-1], keras.layers.DepthwiseConv2D)
            weights[-1] = [kernel * (scale[:, None] if is_depthwise else scale), beta - mean * scale]
        else:
            layers.append(layer.__class__.from_config({**layer.get_config(), **with_bias(layer)}))
            weights.append(layer.get_weights())
    folded = keras.Sequential(layers)
    for layer, values in zip(folded.layers, weights, strict=True):
        layer.set_weights(values)
    folded(np.zeros((1, 8, 8, 1), np.float32))  # an export needs one call
    return folded


def with_bias(layer):
    """The option that a convolution needs to take up the shift of a BatchNormalization."""
    return {"use_bias": True} if hasattr(layer, "use_bias") else {}


# ---- quantization


class Images(CalibrationDataReader):
    """What quantize_static runs to see the range of every tensor: images like those that the device will see."""

    def __init__(self, name, images):
        self._feeds = iter([{name: image[None]} for image in images])

    def get_next(self):
        return next(self._feeds, None)


def quantized(source, target, images, *, per_channel, form, method):
    """int8 weights and activations, symmetric weights; ``form`` and ``method`` are onnxruntime's."""
    name = onnxruntime.InferenceSession(source).get_inputs()[0].name
    quantize_static(
        source,
        target,
        Images(name, images),
        quant_format=form,
        per_channel=per_channel,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=method,
    )
    return target


WAYS = {
    RECOMMENDED: (True, QuantFormat.QDQ, CalibrationMethod.MinMax),
    "per channel, QOperator, MinMax": (True, QuantFormat.QOperator, CalibrationMethod.MinMax),
    "per tensor, QDQ, MinMax": (False, QuantFormat.QDQ, CalibrationMethod.MinMax),
    "per channel, QDQ, Percentile": (True, QuantFormat.QDQ, CalibrationMethod.Percentile),
    "per channel, QDQ, Entropy": (True, QuantFormat.QDQ, CalibrationMethod.Entropy),
}


# ---- what it costs in accuracy


def outputs(path, images):
    """What onnxruntime computes, with int8 kept int8 as qcgen does."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: image[None]})[0] for image in images])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("torch", "keras"), default="torch")
    framework = parser.parse_args().framework
    logging.getLogger().setLevel(logging.ERROR)
    x, y, x_test, y_test = data()
    (from_keras if framework == "keras" else from_torch)(x, y, "float.onnx")
    if framework == "keras":
        x, x_test = np.moveaxis(x, 1, -1), np.moveaxis(x_test, 1, -1)
    quant_pre_process("float.onnx", "prepared.onnx")  # folds what is left to fold, infers shapes

    exact = outputs("float.onnx", x_test)
    print(f"{'float':32} {np.mean(exact.argmax(1) == y_test):.1%} right")
    for way, (per_channel, form, method) in WAYS.items():
        path = "network.onnx" if way == RECOMMENDED else "other.onnx"
        quantized("prepared.onnx", path, x[:CALIBRATION_IMAGES], per_channel=per_channel, form=form, method=method)
        got = outputs(path, x_test)
        error = np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2))
        print(f"{way:32} {np.mean(got.argmax(1) == y_test):.1%} right, error of the logits {error:.1%}")
    record(x_test[:RECORDED])
    Path("other.onnx").unlink()


def record(images):
    """network.npz, for `qcgen verify --data`."""
    session = onnxruntime.InferenceSession("network.onnx")
    x, y = session.get_inputs()[0].name, session.get_outputs()[0].name
    given = {f"in{k}.{x}": image[None] for k, image in enumerate(images)}
    got = {f"out{k}.{y}": row[None] for k, row in enumerate(outputs("network.onnx", images))}
    np.savez("network.npz", **given, **got)


if __name__ == "__main__":
    main()
