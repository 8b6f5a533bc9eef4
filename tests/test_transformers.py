"""Networks of attention and mixing, as exporters write them before they are quantized."""

from __future__ import annotations

import pytest
from onnx.shape_inference import infer_shapes
from transformers import NETWORKS

OUTPUTS = {"keyword_transformer": [1, 12], "mlp_mixer": [1, 10], "vit_tiny": [1, 10]}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_are_models_of_one_number_for_each_class(name):
    graph = infer_shapes(NETWORKS[name](), check_type=True, strict_mode=True).graph
    shape = graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == OUTPUTS[name]
