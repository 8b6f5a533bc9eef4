"""Constants that C has no plain literal for gave C that did not compile, internal errors, and wrong float16 numbers."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from onnx import helper
from test_self_test import result_on_host

import qcgen

NAN, INF = np.nan, np.inf
CONSTANTS = [
    np.array([NAN, INF, -INF, -NAN, 1e-45, -0.0], np.float32),
    np.array([NAN, INF, -INF, -NAN, 5e-324, -0.0]),
    np.array([NAN, INF, -INF, -NAN, 1.5, -2], np.float16),
    np.array([-(2**63), 2**63 - 1, 0, -1]),
    np.array([2**64 - 1, 2**63, 0, 1], np.uint64),
    np.array([-(2**31), 2**31 - 1, 0, -1], np.int32),
    np.array([2**32 - 1, 2**31, 0, 1], np.uint32),
]
NODES = [("Concat", "x", "k"), ("GatherElements", "k", "places")]
FEEDS = {"x": np.array([1, NAN, -INF, 2, INF, -0.0], np.float32), "places": np.array([2, 0, 3])}


def model_of(op_type, *operands, constant=CONSTANTS[0], outputs=()):
    node = helper.make_node(op_type, operands, ["y"], **({"axis": 0} if op_type == "Concat" else {}))
    inputs = {name: ("int64" if name == "places" else "float", FEEDS[name].shape) for name in operands if name != "k"}
    return graph_model([node], inputs, dict.fromkeys(["y", *outputs]), {"k": constant})


def require_bits_of_onnxruntime(model, **options):
    require("gcc")
    feeds = {each.name: FEEDS[each.name] for each in model.graph.input}
    found = qcgen.compile(model, **options).load().run(None, feeds)
    for wanted, y in zip(judge(model, feeds), found, strict=True):
        assert (y.dtype, y.tobytes()) == (wanted.dtype, wanted.tobytes())


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.dtype)
def test_an_output_has_the_bits_of_onnxruntime(constant):
    require_bits_of_onnxruntime(model_of("Abs", "x", constant=constant, outputs=["k"]))


@pytest.mark.parametrize("options", [{}, {"weights": "net.bin"}], ids=str)
@pytest.mark.parametrize("node", NODES, ids=lambda node: node[0])
def test_an_operand_gives_the_bits_of_onnxruntime(node, options):
    require_bits_of_onnxruntime(model_of(*node), **options)


def test_a_recorded_input_of_a_self_test_may_be_nan(tmp_path):
    artifact = qcgen.compile(model_of("Concat", "x", "k"), name="net").with_self_test({"x": FEEDS["x"]})
    assert result_on_host(tmp_path, artifact) == 0
