"""The networks of make networks-2026 are models, and the page about them tells of each."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from architectures.networks import NETWORKS, PUBLISHED
from onnx.shape_inference import infer_shapes

PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
LARGE = "BIG_"


@pytest.mark.parametrize("name", [name for name in NETWORKS if not name.startswith(LARGE)])
def test_a_network_is_a_valid_model_whose_shapes_are_known(name):
    model = NETWORKS[name]()
    inferred = infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    assert all(each.type.tensor_type.elem_type for each in inferred.graph.output)
    assert {each.name for each in model.graph.output} <= {name for node in model.graph.node for name in node.output}


def test_a_network_is_the_same_each_time_it_is_built():
    build = NETWORKS["har_cnn_1d"]
    assert build().SerializeToString(deterministic=True) == build().SerializeToString(deterministic=True)


def test_the_page_has_every_network_in_all_forms_and_published_files():
    lines = PAGE.read_text().splitlines()
    for name in NETWORKS:
        forms = [line.split()[1] for line in lines if line.split()[:1] == [name]]
        assert forms == ["QDQ", "QOperator", "dynamic"], name
    assert set(PUBLISHED) <= set(NETWORKS)
