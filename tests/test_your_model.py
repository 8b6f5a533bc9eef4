"""The commands that README.md gives for a model lead from an empty folder to C that is verified and counted on a core.

They are read from the file: those of "Your model", then those of "Quick start" with the model in place of the digits.
A quantized ONNX file is what test_documents.py runs them with. Tests of frameworks passed with PyTorch 2.14.1 and
onnxscript 0.7.2, Keras 3.15.1 on TensorFlow 2.21.0, tf2onnx 1.17.0, onnx 1.23.2 and onnxruntime 1.32.0.
"""

import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from documents import ROOT, Command, prepare, steps
from emulated import require_core
from models import graph_model
from onnx import helper
from tflite_models import MODELS
from tools import require, require_frameworks, require_modules

README = (ROOT / "README.md").read_text()
QUICK = [step.line for step in steps(README) if isinstance(step, Command) and step.core]
"""The commands of the quick start that need a core; the first one copies the digits."""

IMAGES = np.random.RandomState(6).uniform(0, 1, (40, 8, 8, 1)).astype(np.float32)

TORCH = """
import torch
from torch import nn
torch.manual_seed(1)
block = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
block += [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
model = nn.Sequential(*block, nn.Linear(16, 4))
example = torch.zeros(1, 1, 8, 8)
"""

KERAS = """
import keras, numpy
keras.utils.set_random_seed(1)
layers = [keras.layers.Conv2D(8, 3, padding="same"), keras.layers.BatchNormalization(), keras.layers.ReLU()]
layers += [keras.layers.MaxPooling2D(), keras.layers.Conv2D(8, 3, activation="relu")]
layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
images = numpy.load("calibration.npz")["image"]
model(images[:1])
"""

CONVERT = """
import tensorflow as tf
converter = tf.lite.TFLiteConverter.from_keras_model(model)
converter.optimizations = [tf.lite.Optimize.DEFAULT]
converter.representative_dataset = lambda: ([image[None]] for image in images)
converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
converter.inference_input_type = converter.inference_output_type = tf.int8
open("network.tflite", "wb").write(converter.convert())
"""


def given(start):
    """The one command or call of README.md that begins so."""
    [found] = re.findall(rf"`({re.escape(start)}[^`]*)`", README)
    return found


def float_network():
    """A convolution and a classifier in float."""
    draw = np.random.RandomState(5)
    constants = {"w": draw.normal(0, 0.4, (4, 1, 3, 3)), "v": draw.normal(0, 0.4, (4, 3)), "b": np.zeros(3)}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["conv"], "conv"),
        helper.make_node("Relu", ["conv"], ["relu"], "relu"),
        helper.make_node("GlobalAveragePool", ["relu"], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "v", "b"], ["scores"], "scores"),
    ]
    image, scores = {"image": ("float", ("batch", 1, 8, 8))}, {"scores": ("float", ("batch", 3))}
    tables = {name: table.astype(np.float32) for name, table in constants.items()}
    return graph_model(nodes, image, scores, tables, opset=17)


class Walk:
    """An empty folder, in which commands are run; each must succeed."""

    def __init__(self, folder):
        self.folder, self.environment = folder, prepare(folder)

    def run(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, text):
        """Runs a program."""
        self.run(sys.executable, "-c", text)

    def shell(self, line):
        """What a command line prints."""
        return self.run("bash", "-c", line)

    def save_examples(self, images):
        np.savez(self.folder / "calibration.npz", image=images)

    def to_the_core(self, model):
        """From a quantized model by the commands of the quick start: it is verified, and instructions are counted."""
        text = "".join(self.shell(line.replace("digits.onnx", model)) for line in QUICK[1:])
        assert re.search(r"^total: 0 of [1-9]\d* outputs differ", text, re.MULTILINE)
        assert "\nPASS\n" in text
        assert "network: self-test passed" in text
        assert re.search(r"^1: all +[1-9]\d*$", text, re.MULTILINE)


@pytest.fixture
def walk(tmp_path):
    require("cc")
    require_modules("onnxruntime")
    return Walk(tmp_path)


@pytest.fixture
def core():
    require_core("cortex-m4")
    require("cmake")


@pytest.mark.all
@pytest.mark.usefixtures("core")
def test_a_float_model_reaches_the_core(walk):
    onnx.save(float_network(), walk.folder / "float.onnx")
    walk.save_examples(IMAGES.transpose(0, 3, 1, 2))
    walk.shell(given("qcgen quantize"))
    walk.shell("qcgen compile network.onnx --strict -o firmware")
    walk.to_the_core("network.onnx")


@pytest.mark.all
@pytest.mark.usefixtures("core")
def test_a_tflite_file_reaches_the_core(walk):
    walk.folder.joinpath("network.tflite").write_bytes(MODELS["network"])
    walk.to_the_core("network.tflite")


@pytest.mark.all
@pytest.mark.usefixtures("core")
def test_a_model_of_pytorch_reaches_the_core(walk):
    require_frameworks("torch", "onnxscript")
    walk.save_examples(IMAGES.transpose(0, 3, 1, 2))
    walk.python(TORCH + given("torch.onnx.export"))
    walk.shell(given("qcgen quantize"))
    walk.to_the_core("network.onnx")


@pytest.mark.all
@pytest.mark.usefixtures("core")
def test_a_model_of_keras_reaches_the_core(walk):
    require_frameworks("keras", "tensorflow", "tf2onnx")
    walk.save_examples(IMAGES)
    walk.python(KERAS + given("model.export"))
    walk.shell(given("qcgen quantize"))
    walk.to_the_core("network.onnx")


@pytest.mark.all
@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("way", ["directly", "through tf2onnx"])
def test_what_tensorflow_converted_reaches_the_core(way, walk):
    require_frameworks("keras", "tensorflow", "tf2onnx")
    walk.save_examples(IMAGES)
    walk.python(KERAS + CONVERT)
    if way == "directly":
        return walk.to_the_core("network.tflite")
    walk.shell(given("python -m tf2onnx").replace("python ", f"{sys.executable} "))
    return walk.to_the_core("network.onnx")
