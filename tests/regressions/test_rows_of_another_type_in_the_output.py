"""Rows of uint8 codes that lay in an output of int8 codes were passed as int8: C that did not compile."""

from __future__ import annotations

import subprocess

import numpy as np
from batch import require
from bench.compiling import Network
from onnx import TensorProto, helper, numpy_helper

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.verification import verify


def unsigned_on_the_way():
    """Two convolutions, then functions of one tensor to uint8 codes and back to int8."""
    n = Network((1, 3, 12, 6))
    y = n.conv(n.conv("x", 4, 3), 4, 3)
    model = n.model(y)
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.uint8(128), "unsigned"))
    steps = [
        ("DequantizeLinear", [y, "s", "z"]),
        ("Sigmoid", ["t0"]),
        ("QuantizeLinear", ["t1", "s", "unsigned"]),
        ("DequantizeLinear", ["t2", "s", "unsigned"]),
        ("Relu", ["t3"]),
        ("QuantizeLinear", ["t4", "s", "z"]),
    ]
    for index, (op_type, inputs) in enumerate(steps):
        graph.node.append(helper.make_node(op_type, inputs, [f"t{index}"], name=f"n{index}"))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("t5", TensorProto.INT8, (1, 4, 12, 6)))
    return model


def test_a_row_is_passed_as_what_the_function_takes(tmp_path):
    require("gcc")
    artifact = qcgen.compile(unsigned_on_the_way(), layout="nhwc", arena="least", name="net", simplify=False)
    assert artifact.plan.streams
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    command = ["gcc", *STRICT_FLAGS, "-c", str(tmp_path / "net.c"), "-o", str(tmp_path / "net.o")]
    subprocess.run(command, check=True, timeout=60)
    assert verify(artifact, cases=2).is_right
