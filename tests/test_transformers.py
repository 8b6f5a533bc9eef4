"""Networks of attention and mixing, as exporters write them before they are quantized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.shape_inference import infer_shapes
from transformers import NETWORKS

import qcgen
from qcgen.arithmetic import ONNXRUNTIME

DATA = Path(__file__).parent / "data" / "transformer"

OUTPUTS = {"keyword_transformer": [1, 12], "mlp_mixer": [1, 10], "tiny_transformer": [1, 5], "vit_tiny": [1, 10]}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_are_models_of_one_number_for_each_class(name):
    graph = infer_shapes(NETWORKS[name](), check_type=True, strict_mode=True).graph
    shape = graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == OUTPUTS[name]


@pytest.mark.parametrize("name", ["tiny_qdq_s8", "tiny_qop_s8"])
def test_a_quantized_transformer_gives_the_numbers_that_onnxruntime_gave(name):
    recorded = np.load(DATA / "recorded.npz")
    assert str(recorded["version"]) == ONNXRUNTIME
    artifact = qcgen.compile(DATA / f"{name}.onnx", name="tiny")
    computed = [call.op.y for call in artifact.plan.calls]
    assert [y.dtype.value for y in computed].count("float") == 1, "all but the output are codes"
    model = artifact.load()
    found = np.stack([model.run(None, {"x": x})[0] for x in recorded["x"]])
    assert np.array_equal(found, recorded[name])
