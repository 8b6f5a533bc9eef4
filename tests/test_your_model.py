"""The command that README.md gives for a float model leads from an empty folder to C that is verified."""

import re
import subprocess

import numpy as np
import onnx
import pytest
from documents import ROOT, prepare
from onnx import helper, numpy_helper
from tools import require, require_modules


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
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ("batch", 1, 8, 8))
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ("batch", 3))
    tables = [numpy_helper.from_array(table.astype(np.float32), name) for name, table in constants.items()]
    graph = helper.make_graph(nodes, "net", [image], [scores], tables)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.all
def test_a_float_model_becomes_c_by_the_command_of_the_readme(tmp_path):
    require("cc")
    require_modules("onnxruntime")
    [command] = re.findall(r"`(qcgen quantize [^`]*)`", (ROOT / "README.md").read_text())
    environment = prepare(tmp_path)
    onnx.save(float_network(), tmp_path / "float.onnx")
    images = np.random.RandomState(6).uniform(0, 1, (40, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "calibration.npz", image=images)
    verifying = "qcgen verify network.onnx --cases 2 --no-sums"
    for line in (command, "qcgen compile network.onnx --strict -o firmware", verifying):
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.joinpath("firmware").iterdir()} == {"network.c", "network.h"}
    assert re.search(r"^total: 0 of \d+ outputs differ", done.stdout, re.MULTILINE)
