"""A copy in another order that a Flatten and a product of matrices share: the product took it for an image."""

from itertools import product

import numpy as np
import pytest
from batch import require
from marks import some_at_first
from models import graph_model, random_weights
from onnx import helper
from subjects import wrong_on_host

import qcgen

SCALES = {name: np.float32(value) for name, value in (("xs", 0.02), ("ws", 0.01), ("cs", 0.03), ("ms", 0.05))}
ZEROS = {name: np.uint8(value) for name, value in (("xz", 128), ("cz", 3), ("mz", 94))} | {"wz": np.int8(0)}
CONV = helper.make_node("QLinearConv", ["x", "xs", "xz", "cw", "ws", "wz", "cs", "cz"], ["c"])
READERS = {
    "flat": helper.make_node("Flatten", ["c"], ["flat"]),
    "product": helper.make_node("QLinearMatMul", ["c", "cs", "cz", "mw", "ws", "wz", "ms", "mz"], ["product"]),
}


@pytest.mark.parametrize("order", some_at_first(["flat product", "product flat"]))
def test_each_reader_takes_it_as_what_it_is(order, tmp_path):
    require("gcc")
    weights = {"cw": random_weights((5, 3, 2, 2)) // 2, "mw": random_weights((6, 4), seed=1) // 2}
    model = graph_model(
        [CONV, *(READERS[name] for name in order.split())],
        {"x": ("uint8", (1, 3, 5, 7))},
        {"flat": ("uint8", (1, 120)), "product": ("uint8", (1, 5, 4, 4))},
        SCALES | ZEROS | weights,
    )
    artifacts = {}
    for target, layout in product(("portable", "cortex-m0", "cortex-m4"), ("model", "nhwc")):
        name = f"{target.replace('-', '_')}_{layout}"
        artifacts[name] = qcgen.compile(model, name=name, target=target, layout=layout)
    assert wrong_on_host(artifacts, tmp_path) == []
