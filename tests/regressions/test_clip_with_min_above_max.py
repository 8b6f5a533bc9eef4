"""A Clip whose min is above its max was compiled in every form; onnxruntime has no such Clip before opset 11.

There it refuses attributes in this order. From opset 11 on the bounds are inputs, and the upper one wins.
"""

import numpy as np
import pytest
from computed import computed
from models import graph_model
from onnx import helper
from qdq import A, Chain

import qcgen
from qcgen.errors import ModelRejected

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(1, 12)


def clip(opset, **attributes):
    """Attributes before opset 11, inputs from then on."""
    bounds = {} if opset < 11 else {"low": np.float32(2), "high": np.float32(-1)}
    node = helper.make_node("Clip", ["x", *bounds], ["y"], name="clip", **attributes)
    return graph_model([node], {"x": ("float", X.shape)}, {"y": None}, bounds, opset=opset)


def quantized():
    chain = Chain()
    chain.through(chain.node("Clip", [chain.through("x", A)], "clip", min=2.0, max=-1.0), A, "y")
    return chain.model((1, 12), opset=10)


@pytest.mark.parametrize("model", [clip(10, min=2.0, max=-1.0), quantized()], ids=["float", "between codes"])
def test_attributes_in_this_order_are_refused(model):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(model)
    [problem] = rejection.value.problems
    assert "(Clip): its min 2 is above its max -1" in str(problem)


@pytest.mark.parametrize("attributes", [{"min": 2.0}, {"max": -1.0}, {"min": -1.0, "max": -1.0}])
def test_a_single_bound_and_equal_ones_are_not_refused(attributes):
    [y] = computed(clip(10, **attributes), {"x": X})
    assert np.array_equal(y, np.clip(X, attributes.get("min"), attributes.get("max")))


def test_of_bounds_that_are_inputs_the_upper_one_wins():
    [y] = computed(clip(13), {"x": X})
    assert (y == -1).all()


def test_a_constant_is_not_folded_through_it():
    node = helper.make_node("Clip", ["c"], ["d"], name="clip", min=2.0, max=-1.0)
    total = helper.make_node("Add", ["x", "d"], ["y"])
    model = graph_model([node, total], {"x": ("float", X.shape)}, {"y": None}, {"c": X}, opset=10)
    with pytest.raises(ModelRejected, match="above its max"):
        qcgen.compile(model)
