"""The certificate of a convolution that reads a copy in another order in memory: its name is in no program."""

import json

import pytest
from bench.compiling import Network
from onnx import helper
from test_certificate import confirm


@pytest.mark.parametrize("layout", ["model", "nhwc"])
@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 3, 2, 1)])
def test_it_has_the_codes_of_what_was_copied(perm, layout, tmp_path):
    n = Network((1, 4, 6, 6))
    before = n.conv("x", 6, 3)
    turned = n.sigmoid(before)
    model = n.model(n.sum(n.conv(turned, 5, 3), n.conv(turned, 5)))
    [node] = [node for node in model.graph.node if node.name == turned]
    node.CopyFrom(helper.make_node("Transpose", [before], [turned], name=turned, perm=perm))
    assert confirm(tmp_path, model.SerializeToString(), layout=layout) > 1000
    entries = json.loads((tmp_path / "m.cert.json").read_text())["nodes"]
    [first, *readers] = [entry for entry in entries if "x_range" in entry]
    assert len(readers) == 2
    assert all(len(low) == 6 for reader in readers for low in reader["x_range"])
    assert len(first["x_range"][0]) == 4
