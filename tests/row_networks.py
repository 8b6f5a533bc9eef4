"""Small networks whose layers can run row by row, and networks of several inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bench.compiling import MICROSOFT, Network
from onnx import ModelProto, TensorProto, helper, numpy_helper

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


def residual(*, averages: bool = True) -> ModelProto:
    """Residuals over two convolutions and over a shortcut with stride 2, from 46 rows to 23."""
    n = Network((1, 3, 46, 10))
    x = n.conv("x", 8, 3)
    x = n.sum(x, n.conv(n.conv(x, 8, 3), 8, 3))
    x = n.sum(n.conv(x, 12, 1, 2), n.conv(n.conv(x, 12, 3, 2), 12, 3))
    return n.model(n.mean(x) if averages else x)


def separable() -> ModelProto:
    """Depthwise and pointwise layers, a kernel of five rows, a table; rows of the last convolution are the output."""
    n = Network((1, 3, 48, 8))
    x = n.conv("x", 8, 3, 2)
    x = n.conv(n.depthwise(x, 5), 16)
    x = n.sigmoid(n.conv(n.depthwise(x, 3, 2), 12))
    return n.model(n.conv(x, 20))


def wandering() -> ModelProto:
    """Depthwise and pointwise layers of one size, each of which writes its output some bytes before its input."""
    n = Network((1, 2, 14, 10))
    x = n.conv("x", 16, 3, 2)
    for _ in range(3):
        x = n.conv(n.depthwise(x), 16)
    return n.model(n.mean(x))


def expanding() -> ModelProto:
    """A layer whose rows are wider than those that it reads, of which it needs more than one at a time."""
    n = Network((1, 4, 40, 8))
    return n.model(n.conv(n.conv(n.conv(n.conv("x", 8, 3), 32, 3), 8), 8, 3))


def pooled() -> ModelProto:
    """A MaxPool whose windows leave the image, between two convolutions."""
    n = Network((1, 4, 40, 8))
    model = n.model(n.conv(n.conv("x", 12, 3), 12, 3))
    first, _ = model.graph.node
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    model.graph.node.insert(1, helper.make_node("MaxPool", [first.output[0]], ["largest"], name="largest", **window))
    model.graph.node[2].input[0] = "largest"
    return model


def two_inputs() -> ModelProto:
    """A sum of an input and of a convolution of the other one, which is an output, too."""
    n = Network((1, 4, 12, 6))
    y = n.conv("x", 4, 3)
    total = n.sum(y, y)
    model = n.model(n.conv(total, 6, 3))
    [node] = [node for node in model.graph.node if node.name == total]
    node.input[3] = "b"
    model.graph.input.append(helper.make_tensor_value_info("b", TensorProto.INT8, (1, 4, 12, 6)))
    model.graph.output.append(helper.make_tensor_value_info(y, TensorProto.INT8, (1, 4, 12, 6)))
    return model


def unread_input() -> ModelProto:
    """An input on which nothing depends."""
    model = separable()
    model.graph.input.append(helper.make_tensor_value_info("unread", TensorProto.INT8, (1, 40)))
    return model


def with_a_view() -> ModelProto:
    """An output that is another view of a tensor, which is read on."""
    n = Network((1, 3, 12, 6))
    y = n.conv("x", 4, 3)
    model = n.model(n.conv(y, 4, 3))
    model.graph.node.append(helper.make_node("Flatten", [y], ["flat"], name="flat"))
    model.graph.output.append(helper.make_tensor_value_info("flat", TensorProto.INT8, (1, 4 * 12 * 6)))
    return model


def batch() -> ModelProto:
    """Two images at once."""
    n = Network((2, 3, 12, 6))
    return n.model(n.conv(n.conv("x", 4, 3), 4, 3))


def enlarged() -> ModelProto:
    """A Resize, joined with a shortcut by a Concat, then a Transpose: what no chain contains."""
    n = Network((1, 3, 24, 6))
    x = n.conv("x", 4, 3)
    model = n.model(n.conv(n.conv(x, 4, 3, 2), 4, 3))
    graph, small = model.graph, model.graph.output[0].name
    graph.initializer.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "twice"))
    joined = ["s", "z", x, "s", "z", "large", "s", "z"]
    graph.node.extend(
        [
            helper.make_node("Resize", [small, "", "twice"], ["large"], name="large", mode="nearest",
                             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
            helper.make_node("QLinearConcat", joined, ["joined"], name="joined", domain=MICROSOFT, axis=1),
            helper.make_node("Transpose", ["joined"], ["y"], name="y", perm=[0, 2, 1, 3]),
        ]
    )  # fmt: skip
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT8, (1, 24, 8, 6)))
    return model


NETWORKS = {
    "residual": residual,
    "separable": separable,
    "digits": lambda: DIGITS,
    "wandering": wandering,
    "two_inputs": two_inputs,
    "unread_input": unread_input,
    "with_a_view": with_a_view,
    "batch": batch,
    "enlarged": enlarged,
    "expanding": expanding,
    "pooled": pooled,
}
