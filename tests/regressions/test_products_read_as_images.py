"""Rows that a product of matrices writes are not an image, although a convolution or a pooling reads them as one."""

from __future__ import annotations

import numpy as np
import pytest
from qdq import A, B, Chain
from subjects import wrong_on_host

from qcgen.compiler import compile

READERS = {
    "Conv": {"kernel_shape": (1, 1)},
    "MaxPool": {"kernel_shape": (2, 1)},
    "AveragePool": {"kernel_shape": (1, 2)},
    "GlobalAveragePool": {},
}


@pytest.mark.parametrize("function", ["", "Relu", "Tanh"])
def test_an_image_of_rows_of_a_product(function, tmp_path):
    artifacts = {name: compile(rows_read_by(name, function), name=name) for name in READERS}
    assert wrong_on_host(artifacts, tmp_path, 1e-4) == []


def rows_read_by(op_type, function):
    rng, chain = np.random.default_rng(1), Chain()
    weights = chain.weights("w", rng.integers(-64, 65, (5, 7)).astype(np.int8), (0.02, np.int8(0)))
    product = chain.node("MatMul", [chain.through("x", A), weights])
    rows = chain.through(product, B)
    if function:
        rows = chain.through(chain.node(function, [rows]), B)
    codes = rng.integers(-64, 65, (4, 3, 1, 1)).astype(np.int8)
    kernel = [chain.weights("k", codes, (0.02, np.int8(0)))] if op_type == "Conv" else []
    image = chain.node(op_type, [rows, *kernel], **READERS[op_type])
    chain.through(image, B, "y")
    return chain.model((2, 3, 4, 5))
