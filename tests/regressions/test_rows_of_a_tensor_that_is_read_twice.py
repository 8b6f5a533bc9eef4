"""x + x among layers that run row by row: the second operand was row 0 at every call, or the planner failed.

It dropped the rows that both operands read twice after a call; and of two readers of a tensor it did not see that the
one that reads a row of padding below the image reads further ahead.
"""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from bench.compiling import Network
from interpreter import Interpreter

import qcgen
from qcgen.verification import verify


def at_the_source(n: Network) -> str:
    return n.conv(n.conv(n.sum("x", "x"), 6, 3), 4, 3)


def between_convolutions(n: Network) -> str:
    y = n.conv("x", 6, 3)
    return n.mean(n.sum(z := n.depthwise(n.product(y, y), 5), z))


def beside_a_convolution(n: Network) -> str:
    return n.conv(n.sum(n.product("x", "x"), n.conv("x", 3, 3)), 3, 3)


def again_and_again(n: Network) -> str:
    y = n.product("x", "x")
    return n.conv(n.sum(n.sum(y, "x"), n.depthwise(y)), 8, 3, 2)


NETWORKS = (at_the_source, between_convolutions, beside_a_convolution, again_and_again)
OPTIONS = (
    {"arena": "least"},
    {"arena": "least", "io_memory": "arena", "target": "cortex-m0"},
    {"input": "rows", "io_memory": "arena"},
    {"input": "rows", "target": "cortex-m3"},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
@pytest.mark.parametrize("network", NETWORKS)
def test_both_operands_are_the_same_rows(network, options):
    n = Network((1, 3, 24, 6))
    artifact = qcgen.compile(n.model(network(n)), layout="nhwc", io="quantized", **options)
    assert artifact.plan.streams or network is between_convolutions
    Interpreter(artifact.plan).run()


@pytest.mark.parametrize("network", NETWORKS)
def test_the_c_computes_what_the_network_means(network):
    require("gcc")
    n = Network((1, 3, 24, 6))
    model = n.model(network(n))
    artifact = qcgen.compile(model, layout="nhwc", io="quantized", arena="least")
    whole = qcgen.compile(model, layout="nhwc", io="quantized")
    [port] = whole.plan.inputs
    feeds = {port.tensor.name: np.random.default_rng(4).integers(-128, 128, port.shape).astype(np.int8)}
    found, expected = (each.load(("-O0",)).run(None, feeds) for each in (artifact, whole))
    assert np.array_equal(found, expected)


@pytest.mark.all
def test_pushed_rows_are_the_same_for_both_operands():
    require("gcc")
    n = Network((1, 3, 24, 6))
    artifact = qcgen.compile(n.model(at_the_source(n)), layout="nhwc", io="quantized", input="rows")
    assert verify(artifact, cases=2).is_right
