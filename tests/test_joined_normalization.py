"""A normalization of the sum of two tensors (N, rows, length) is onnxruntime's, which computes both as one operator."""

import numpy as np
import pytest
from judged import judge, optimized
from onnx import TensorProto, helper, numpy_helper
from tools import require

import qcgen
from qcgen.ir.program import LayerNorm
from qcgen.reference import evaluate

F32 = np.float32
RNG = np.random.RandomState


def normalized(x_shape, other_shape, axis=-1, *, is_read_twice=False, is_constant=False):
    """LayerNormalization of x + other, and inputs; the sum may have another reader, ``other`` be a constant."""
    length = x_shape[-1]
    nodes = [
        helper.make_node("Add", ["x", "other"], ["sum"], name="add"),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["y"], name="norm", axis=axis),
    ]
    outputs = {"y": x_shape}
    if is_read_twice:
        nodes.append(helper.make_node("Relu", ["sum"], ["z"], name="relu"))
        outputs["z"] = x_shape
    drawn = {"x": RNG(1).normal(0, 2, x_shape).astype(F32), "other": RNG(2).normal(size=other_shape).astype(F32)}
    constants = {"scale": RNG(3).normal(size=length).astype(F32), "bias": RNG(4).normal(size=length).astype(F32)}
    if is_constant:
        constants["other"] = drawn.pop("other")
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]
        for given in ({name: values.shape for name, values in drawn.items()}, outputs)
    ]
    held = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    graph = helper.make_graph(nodes, "net", *infos, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), drawn


JOINED = {
    "two tensors": normalized((2, 5, 16), (2, 5, 16)),
    "a constant": normalized((1, 5, 20), (1, 5, 20), is_constant=True),
    "the axis by its number": normalized((1, 3, 64), (1, 3, 64), axis=2),
}
APART = {
    "a row": normalized((1, 5, 16), (16,)),
    "an image": normalized((1, 3, 4, 16), (1, 3, 4, 16)),
    "a matrix": normalized((4, 16), (4, 16)),
    "a sum that is read twice": normalized((1, 5, 16), (1, 5, 16), is_read_twice=True),
}


@pytest.mark.parametrize("name", [*JOINED, *APART])
def test_the_normalization_of_a_sum_is_onnxruntimes(name, tmp_path):
    require("gcc")
    model, feeds = JOINED[name] if name in JOINED else APART[name]
    assert ("SkipLayerNormalization" in optimized(model, tmp_path)) == (name in JOINED)
    artifact = qcgen.compile(model, name="net")
    [norm] = [op for op in artifact.program.operators if isinstance(op, LayerNorm)]
    assert norm.is_one_by_one == (name in JOINED)
    expected = judge(model, feeds)[0]
    np.testing.assert_array_equal(evaluate(artifact.program, feeds)["y"], expected)
    np.testing.assert_array_equal(artifact.load().run(None, feeds)[0], expected)
