"""A normalization of the sum of two tensors (N, rows, length) is onnxruntime's, which computes both as one operator."""

import numpy as np
import pytest
from judged import assert_judged, judge, optimized
from models import graph_model
from onnx import helper

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
    outputs = {"y": ("float", x_shape)}
    if is_read_twice:
        nodes.append(helper.make_node("Relu", ["sum"], ["z"], name="relu"))
        outputs["z"] = ("float", x_shape)
    drawn = {"x": RNG(1).normal(0, 2, x_shape).astype(F32), "other": RNG(2).normal(size=other_shape).astype(F32)}
    constants = {"scale": RNG(3).normal(size=length).astype(F32), "bias": RNG(4).normal(size=length).astype(F32)}
    if is_constant:
        constants["other"] = drawn.pop("other")
    inputs = {name: ("float", values.shape) for name, values in drawn.items()}
    return graph_model(nodes, inputs, outputs, constants, opset=17), drawn


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
    model, feeds = JOINED[name] if name in JOINED else APART[name]
    assert ("SkipLayerNormalization" in optimized(model, tmp_path)) == (name in JOINED)
    artifact = assert_judged(model, feeds, named=None, exact=True)
    [norm] = [op for op in artifact.program.operators if isinstance(op, LayerNorm)]
    assert norm.is_one_by_one == (name in JOINED)
    np.testing.assert_array_equal(evaluate(artifact.program, feeds)["y"], judge(model, feeds)[0])
