"""A part of a Concat that lies behind another one may lie over its input, but for the bytes in front of it."""

from dataclasses import replace

import pytest
from batch import require
from bench.compiling import Network
from onnx import helper

import qcgen
from qcgen.ir.access import AccessOrder
from qcgen.plan import storage
from qcgen.verification import verify


def concat():
    """The second part of a Concat of rows is computed first, from a tensor that nothing else reads."""
    n = Network((1, 4, 8, 8))
    wide = n.conv("x", 8, 3)
    parts = [n.conv("x", 8, 3), n.conv(wide, 8, 3)]
    model = n.model(n.conv("x", 4, 3))
    *layers, last = model.graph.node
    last.input[0] = "both"
    first, second, third = layers
    del model.graph.node[:]
    both = helper.make_node("Concat", parts, ["both"], name="both", axis=2)
    model.graph.node.extend([first, third, second, both, last])
    [weights] = [each for each in model.graph.initializer if each.name == last.input[3]]
    weights.dims[1] = 8
    weights.raw_data = weights.raw_data * 2
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 16
    return model


def compiled():
    return qcgen.compile(concat(), layout="nhwc", name="net")


def test_the_c_is_right():
    require("gcc")
    artifact = compiled()
    assert any(call.overlap for call in artifact.plan.calls if "conv" in call.op.name)
    assert verify(artifact).is_right


def test_an_output_that_lies_too_close_before_its_input_is_a_defect(monkeypatch):
    class Nearer(AccessOrder):
        @property
        def distance(self):
            return super().distance - 64

    def nearer(buffers, steps, prepared, storages):
        closer = [each and each.access and replace(each, access=Nearer(**vars(each.access))) for each in prepared]
        return overlaps(buffers, steps, [new or old for new, old in zip(closer, prepared, strict=True)], storages)

    overlaps = storage._with_overlaps
    monkeypatch.setattr(storage, "_with_overlaps", nearer)
    with pytest.raises(AssertionError, match="bytes before"):
        compiled()
