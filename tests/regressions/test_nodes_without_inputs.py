"""A Cast without an input in a model with float16 raised IndexError: that model is rewritten before it is checked."""

import numpy as np
import pytest
from marks import some_at_first
from models import graph_model
from onnx import helper

import qcgen
from qcgen.errors import ModelRejected
from qcgen.infer import RULES


@pytest.mark.parametrize("key", some_at_first(sorted(RULES), ("", "Cast"), ("", "Clip"), ("", "Reshape"), ("", "Gemm")))
@pytest.mark.parametrize("dtype", ["float16", "float"])
def test_a_node_without_inputs_or_outputs_is_refused_in_words(key, dtype):
    domain, op_type = key
    for inputs, outputs in (([], ["m"]), ([""], ["m"]), (["h"], []), (["h"], [""])):
        node = helper.make_node(
            op_type, inputs, outputs, name="node", domain=domain, **({"to": 1} if op_type == "Cast" else {})
        )
        last = outputs[0] if outputs and outputs[0] else "h"
        nodes = [helper.make_node("Relu", ["x"], ["h"]), node, helper.make_node("Add", [last, "c"], ["y"], name="last")]
        constants = {"c": np.ones(4, np.float16 if dtype == "float16" else np.float32)}
        opsets = {domain: 1} if domain else {}
        values = {"m": (dtype, (1, 2, 3, 4))}
        model = graph_model(
            nodes, {"x": (dtype, (1, 2, 3, 4))}, {"y": None}, constants, opset=20, opsets=opsets, values=values
        )
        try:
            qcgen.compile(model)
        except ModelRejected as rejection:
            assert str(rejection)  # noqa: PT017 - what nothing reads need not be refused


def test_the_cast_is_named():
    nodes = [
        helper.make_node("Cast", [], ["m"], name="node", to=1),
        helper.make_node("Cast", ["x"], ["h"], name="other", to=1),
        helper.make_node("Add", ["m", "h"], ["y"], name="sum"),
    ]
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(graph_model(nodes, {"x": ("float16", (1, 4))}, {"y": None}, values={"m": ("float16", (1, 4))}))
    assert [(each.where, each.what) for each in rejection.value.problems] == [
        ("node 'node' (Cast)", "its input is missing")
    ]
