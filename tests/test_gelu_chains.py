"""Erf chains that are a Gelu in onnxruntime, and those that it leaves alone, bit for bit."""

import numpy as np
import pytest
from judged import judge, optimized
from onnx import TensorProto, helper, numpy_helper
from tools import require

import qcgen


def chain(*, is_dequantized):
    """x / 2 * (1 + erf(x / sqrt(2))) of float32 numbers, or of codes that are dequantized."""
    numbers = {"root": np.sqrt(2), "one": 1, "half": 0.5, "scale": 0.05}
    held = [numpy_helper.from_array(np.float32(value), name) for name, value in numbers.items()]
    held.append(numpy_helper.from_array(np.int8(3), "zero"))
    nodes = [helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["d"], name="dequantize")] * is_dequantized
    x = "d" if is_dequantized else "x"
    steps = (("Div", x, "root", "q"), ("Erf", "q", "e"), ("Add", "e", "one", "r"), ("Mul", x, "r", "p"))
    for op_type, *inputs, output in (*steps, ("Mul", "p", "half", "y")):
        nodes.append(helper.make_node(op_type, inputs, [output], name=f"node_{output}"))
    kind = TensorProto.INT8 if is_dequantized else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "gelu",
        [helper.make_tensor_value_info("x", kind, (1, 256))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("is_dequantized", [False, True])
def test_what_onnxruntime_joins_is_joined(is_dequantized, tmp_path):
    require("gcc")
    model = chain(is_dequantized=is_dequantized)
    assert ("Gelu" in optimized(model, tmp_path)) == (not is_dequantized)
    x = np.arange(-128, 128).reshape(1, 256)
    x = x.astype(np.int8) if is_dequantized else (x * 0.037).astype(np.float32)
    [expected] = judge(model, {"x": x})
    [found] = qcgen.compile(model, name="gelu").load().run(None, {"x": x})
    np.testing.assert_array_equal(found, expected)
