"""A declared shape of an inner tensor that is another one than the operators give was refused."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model, tensor_info
from onnx import helper, shape_inference
from qdq import Chain

import qcgen
from qcgen.errors import ModelRejected
from qcgen.verification import verify


@pytest.mark.parametrize("stale", ["r", "x_q_dq"])
def test_what_the_operators_give_holds_and_is_noted(stale):
    require("gcc")
    chain = Chain()
    x = chain.through("x", (0.07, np.uint8(3)))
    other = chain.weights("w", np.ones((8, 8), np.uint8), (0.019, np.uint8(0)))
    chain.through(chain.node("Add", [x, other], "r"), (0.46, np.uint8(0)), "y")
    model = chain.model((8, 8))
    model.graph.value_info.append(tensor_info(stale, "float", (4, 8)))
    artifact = qcgen.compile(model)
    assert f"the shape of {stale!r} is (8, 8), not (4, 8) as declared" in artifact.notes
    assert verify(artifact, cases=2, flags=("-O0",)).is_right


def pooled(last="Neg"):
    """A window of opset 11 that would begin in the padding: onnx's own inference counts it, onnxruntime does not."""
    pool = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="first"),
        helper.make_node("AveragePool", ["a"], ["z"], name="pool", **pool),
        helper.make_node(last, ["z"], ["y"], name="last"),
    ]
    return graph_model(nodes, {"x": ("float", (1, 3, 8, 8))}, {"y": ("float", ("n", 3, "h", "w"))}, opset=11)


def test_what_shape_inference_wrote_wrongly_is_computed_as_onnxruntime_does():
    require("gcc")
    model = shape_inference.infer_shapes(pooled())
    [z] = [value for value in model.graph.value_info if value.name == "z"]
    assert [dim.dim_value for dim in z.type.tensor_type.shape.dim] == [1, 3, 4, 4]
    model.graph.output[0].CopyFrom(pooled().graph.output[0])
    artifact = qcgen.compile(model, name="pool")
    assert artifact.notes == ("the shape of 'z' is (1, 3, 4, 3), not (1, 3, 4, 4) as declared",)
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    [y] = artifact.load().run(None, {"x": x})
    [wanted] = judge(model, {"x": x})
    assert y.shape == wanted.shape == (1, 3, 4, 3)
    np.testing.assert_array_equal(y, wanted)


def test_an_output_that_is_declared_wrongly_is_refused():
    model = pooled()
    model.graph.output[0].CopyFrom(tensor_info("y", "float", (1, 3, 4, 4)))
    with pytest.raises(ModelRejected, match="tensor 'y': the model declares it as \\(1, 3, 4, 4\\)"):
        qcgen.compile(model)
