"""Weights in blocks, for products in float32 within the tolerance of float convolutions; weights of 4 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from blocks_recorded import CASES, COLUMNS, NETWORKS, feed, images, model, name, network
from marks import some_at_first
from models import graph_model
from onnx import ModelProto, TensorProto, helper

import qcgen

RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "blocks.npz")


@pytest.mark.parametrize(("dtype", "block", "between"), CASES)
def test_products_are_those_of_onnxruntime(dtype, block, between):
    y = RECORDED[name(dtype, block, between)]
    found = qcgen.compile(model(dtype, block, between), name="m").load(("-O0",)).run(None, {"x": feed(between)})[0]
    assert found.shape == y.shape == (3, COLUMNS)
    if between == "codes":
        assert np.array_equal(found, y)
    else:
        np.testing.assert_allclose(found, y, rtol=0, atol=4e-6 * np.abs(y).max())


def test_what_is_recorded_is_what_is_compared():
    assert set(RECORDED) == {"version", *NETWORKS, *(name(*case) for case in CASES)}


@pytest.mark.parametrize("aim", some_at_first(["size", "speed"]))
@pytest.mark.parametrize("target", some_at_first(["cortex-m4", "portable"]))
@pytest.mark.parametrize("dtype", NETWORKS)
def test_networks_with_weights_of_4_bits_are_those_of_onnxruntime(dtype, target, aim):
    artifact = qcgen.compile(network(dtype), name="m", target=target, optimize=aim, layout="nhwc")
    packed = [call.tables[0].packed_bits for call in artifact.plan.calls if call.tables]
    assert packed == [4 if aim == "size" else None] * 3
    compiled = artifact.load(("-O2",))
    found = [compiled.run(None, {"x": x.transpose(0, 2, 3, 1)})[0] for x in images()]
    assert np.array_equal(np.concatenate(found), RECORDED[dtype])


def test_scales_that_are_not_those_of_the_blocks_are_a_problem_of_the_model():
    proto = ModelProto.FromString(model("int8", 16, "floats"))
    [scales] = [tensor for tensor in proto.graph.initializer if tensor.name == "s"]
    scales.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, (2, COLUMNS), [0.5] * 2 * COLUMNS))
    with pytest.raises(qcgen.ModelRejected):
        qcgen.compile(proto)


def test_matmul_nbits_that_quantizes_its_input_is_refused():
    sizes = {"K": 32, "N": 4, "bits": 4, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", accuracy_level=4, **sizes)
    weights = {"b": np.zeros((4, 1, 16), np.uint8), "s": np.ones(4, np.float32)}
    more = {"opset": 21, "opsets": {"com.microsoft": 1}, "ir_version": 10}
    proto = graph_model([node], {"x": ("float", (1, 32))}, {"y": ("float", (1, 4))}, weights, **more)
    with pytest.raises(qcgen.ModelRejected, match="accuracy_level 0 or 1"):
        qcgen.compile(proto)
