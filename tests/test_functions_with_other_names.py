"""Swish of opset 24; FastGelu and BiasGelu of onnxruntime's optimizer: against onnxruntime, as tables and in float."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from qdq import Chain

import qcgen

BIAS = np.linspace(-1, 1, 16).astype(np.float32)
SPELT = {
    "Swish": ("Swish", "", None, {}),
    "Swish with alpha": ("Swish", "", None, {"alpha": 1.7}),
    "FastGelu": ("FastGelu", "com.microsoft", None, {}),
    "FastGelu with a bias": ("FastGelu", "com.microsoft", BIAS, {}),
    "BiasGelu": ("BiasGelu", "com.microsoft", BIAS, {}),
}


@pytest.mark.parametrize("coded", [False, True], ids=["float", "codes"])
@pytest.mark.parametrize("name", SPELT)
def test_it_is_onnxruntimes(name, coded):
    require("gcc")
    op_type, domain, bias, attributes = SPELT[name]
    made = Chain()
    inputs = [made.dequantize("x", (0.03, np.uint8(120))) if coded else "x"]
    inputs += [] if bias is None else [made.constant("bias", bias)]
    y = made.node(op_type, inputs, "r" if coded else "y", domain=domain, **attributes)
    if coded:
        made.quantize(y, (0.02, np.uint8(20)), "y")
    x_type = "uint8" if coded else "float"
    opset, domains = (24, {}) if op_type == "Swish" else (20, {"com.microsoft": 1})
    inputs = {"x": (x_type, (16, 16))}
    model = graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=opset, opsets=domains)
    artifact, rng = qcgen.compile(model, name="net"), np.random.default_rng(8)
    x = np.arange(256, dtype=np.uint8) if coded else rng.normal(scale=3, size=256).astype(np.float32)
    feeds = {"x": x.reshape(16, 16)}
    assert not artifact.report.inexact
    assert not any(node.in_float for node in artifact.report.nodes)
    assert np.array_equal(artifact.load().run(None, feeds)[0], judge(model, feeds)[0])
