"""A sum, product or mean of 16-bit codes with a result of 8 bits, or the other way, was refused as declared wrongly."""

import numpy as np
import pytest
from judged import judge
from models import graph_model
from onnx import helper

import qcgen

SCALES = {"uint8": 0.02, "int8": 0.02, "int16": 1e-4, "uint16": 1e-4}


def network(op_type, types):
    """Float inputs and an output of an operator, each through codes of its type."""
    nodes, constants, numbers = [], {}, []
    for name, dtype in zip("aby", types, strict=True):
        constants[f"{name}_scale"] = np.float32(SCALES[dtype] / (2 if name == "b" else 1))
        constants[f"{name}_zero"] = np.asarray(np.iinfo(dtype).max // 2, dtype)
    for name in "ab" if op_type != "GlobalAveragePool" else "a":
        quantization = [f"{name}_scale", f"{name}_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *quantization], [f"{name}_codes"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_codes", *quantization], [f"{name}_numbers"]))
        numbers.append(f"{name}_numbers")
    nodes.append(helper.make_node(op_type, numbers, ["numbers"]))
    nodes.append(helper.make_node("QuantizeLinear", ["numbers", "y_scale", "y_zero"], ["codes"]))
    nodes.append(helper.make_node("DequantizeLinear", ["codes", "y_scale", "y_zero"], ["y"]))
    inputs = {name[0]: ("float", (1, 3, 4, 5)) for name in numbers}
    return graph_model(nodes, inputs, {"y": None}, constants, opset=21)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "GlobalAveragePool"])
@pytest.mark.parametrize(
    "types", [("int16", "int8", "uint8"), ("uint16", "int16", "int8"), ("uint8", "int16", "int16")]
)
def test_each_tensor_has_its_own_type(op_type, types):
    model = network(op_type, types)
    rng = np.random.default_rng(1)
    feeds = {each.name: rng.normal(0, 1, (1, 3, 4, 5)).astype(np.float32) for each in model.graph.input}
    artifact = qcgen.compile(model)
    [found], [wanted] = artifact.load(("-O0",)).run(None, feeds), judge(model, feeds)
    assert np.abs(found - wanted).max() <= 1.001 * SCALES[types[2]]
    [op] = [op for op in artifact.program.operators if op.op_type.endswith(op_type)]
    assert op.y.dtype.name.lower() == types[2]
